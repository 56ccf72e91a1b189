#include "engine/program.h"

#include <string.h>
#include "base/memory_alloc.h"

struct kipu_program {
    kipu_node *nodes;
    int32_t n_nodes, node_room;
    kipu_rope_set *ropes;
    int32_t n_ropes, rope_room;
};

kipu_status kipu_program_new(kipu_program **out, kipu_error *err) {
    kipu_program *p = kipu_alloc(sizeof *p);
    KIPU_REQUIRE(p, err, KIPU_E_MEMORY, "no memory for a program");
    *out = p;
    return KIPU_OK;
}

void kipu_program_free(kipu_program *p) {
    if (!p) return;
    kipu_free(p->nodes);
    kipu_free(p->ropes);
    kipu_free(p);
}

/* Room for one more element of `size` bytes. */
static kipu_status grow(void **array, int32_t used, int32_t *room, size_t size, kipu_error *err) {
    if (used < *room) return KIPU_OK;
    int32_t more = *room ? 2 * *room : 64;
    char *bigger = kipu_alloc_array(more, size);
    KIPU_REQUIRE(bigger, err, KIPU_E_MEMORY, "no memory for %d program entries", more);
    if (used) memcpy(bigger, *array, used * size);
    kipu_free(*array);
    *array = bigger;
    *room = more;
    return KIPU_OK;
}

/* How many of src[] an op reads. */
static int n_sources(kipu_op op) {
    switch (op) {
    case KIPU_OP_EMBED: return 0;
    case KIPU_OP_ATTENTION: return 3;
    case KIPU_OP_ADD:
    case KIPU_OP_GLU: return 2;
    default: return 1;
    }
}

kipu_status kipu_program_add(kipu_program *p, const kipu_node *node, int32_t *index, kipu_error *err) {
    KIPU_REQUIRE(node->width > 0, err, KIPU_E_ARG, "node '%.31s': width must be > 0, got %d", node->name, node->width);
    for (int s = 0; s < 3; s++) {
        bool wanted = s < n_sources(node->op);
        bool there = node->src[s] >= 0 && node->src[s] < p->n_nodes;
        KIPU_REQUIRE(wanted ? there : node->src[s] == -1, err, KIPU_E_ARG, "node '%.31s': src[%d] is %d, the program has %d nodes",
                     node->name, s, node->src[s], p->n_nodes);
    }
    if (node->op == KIPU_OP_ADD || node->op == KIPU_OP_GLU) {
        int32_t a = p->nodes[node->src[0]].width, b = p->nodes[node->src[1]].width;
        KIPU_REQUIRE(a == b && a == node->width, err, KIPU_E_ARG, "node '%.31s': widths %d and %d must be equal", node->name, a, b);
    }
    KIPU_TRY(grow((void **)&p->nodes, p->n_nodes, &p->node_room, sizeof *p->nodes, err));
    p->nodes[p->n_nodes] = *node;
    p->nodes[p->n_nodes].name[sizeof node->name - 1] = 0;
    *index = p->n_nodes++;
    return KIPU_OK;
}

kipu_status kipu_program_add_rope(kipu_program *p, const kipu_rope_set *set, int32_t *index, kipu_error *err) {
    KIPU_REQUIRE(set->n_rot > 0 && set->n_rot % 2 == 0, err, KIPU_E_ARG, "rope n_rot must be even and > 0, got %d", set->n_rot);
    KIPU_TRY(grow((void **)&p->ropes, p->n_ropes, &p->rope_room, sizeof *p->ropes, err));
    p->ropes[p->n_ropes] = *set;
    *index = p->n_ropes++;
    return KIPU_OK;
}

kipu_status kipu_program_name(kipu_program *p, int32_t index, const char *name, int32_t il, kipu_error *err) {
    KIPU_REQUIRE(index >= 0 && index < p->n_nodes, err, KIPU_E_ARG, "node %d to be named '%.31s', the program has %d", index, name,
                 p->n_nodes);
    kipu_node *n = &p->nodes[index];
    strncpy(n->name, name, sizeof n->name - 1);
    n->il = il;
    return KIPU_OK;
}

int32_t kipu_program_size(const kipu_program *p) { return p->n_nodes; }
const kipu_node *kipu_program_node(const kipu_program *p, int32_t index) { return &p->nodes[index]; }
int32_t kipu_program_n_rope(const kipu_program *p) { return p->n_ropes; }
const kipu_rope_set *kipu_program_rope(const kipu_program *p, int32_t index) { return &p->ropes[index]; }
