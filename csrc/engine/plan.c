#include "engine/plan.h"

#include <string.h>
#include "base/memory_alloc.h"

/* ------------------------------------------------------------------------------------------------ 1. rows */

/* full[v]: some user needs a row for every token. K and V do; the result does not; everything else what its users need. */
static void find_full(const kipu_program *program, bool *full) {
    for (int32_t v = kipu_program_size(program) - 1; v >= 0; v--) {
        const kipu_node *n = kipu_program_node(program, v);
        if (n->op == KIPU_OP_EMBED) full[v] = true;
        for (int s = 0; s < 3; s++)
            if (n->src[s] >= 0 && (full[v] || (n->op == KIPU_OP_ATTENTION && s > 0))) full[n->src[s]] = true;
    }
}

/* Copies the program; before the first output-row user of a full value a ROWS node gathers it.
 * moved[v]: new index; gathered[v]: its ROWS node. */
static int32_t copy_nodes(const kipu_program *program, kipu_plan *p, const bool *full, int32_t *moved, int32_t *gathered) {
    int32_t n = 0;
    for (int32_t v = 0; v < kipu_program_size(program); v++) {
        kipu_node node = *kipu_program_node(program, v);
        for (int s = 0; s < 3; s++) {
            int32_t src = node.src[s];
            if (src < 0) continue;
            bool rows = !full[v] && full[src] && !(node.op == KIPU_OP_ATTENTION && s > 0);
            if (rows && gathered[src] < 0) {
                const kipu_node *from = kipu_program_node(program, src);
                kipu_node rows_node = {.op = KIPU_OP_ROWS, .src = {moved[src], -1, -1}, .weight = -1, .bias = -1, .width = from->width,
                                       .il = from->il};
                memcpy(rows_node.name, from->name, sizeof from->name);
                p->nodes[n] = rows_node;
                p->out_rows[n] = true;
                gathered[src] = n++;
            }
            node.src[s] = rows ? gathered[src] : moved[src];
        }
        p->nodes[n] = node;
        p->out_rows[n] = !full[v];
        moved[v] = n++;
    }
    return n;
}

static kipu_status expand(const kipu_program *program, kipu_plan *p, kipu_error *err) {
    int32_t n = kipu_program_size(program);
    bool *full = kipu_alloc_array(n + 1, sizeof *full);
    int32_t *moved = kipu_alloc_array(2 * (size_t)n + 1, sizeof *moved), *gathered = moved ? moved + n : NULL;
    p->nodes = kipu_alloc_array(2 * (size_t)n + 1, sizeof *p->nodes);
    p->out_rows = kipu_alloc_array(2 * (size_t)n + 1, sizeof *p->out_rows);
    bool ok = full && moved && p->nodes && p->out_rows;
    if (ok) {
        find_full(program, full);
        memset(gathered, -1, n * sizeof *gathered);
        p->n_nodes = copy_nodes(program, p, full, moved, gathered);
    }
    kipu_free(full);
    kipu_free(moved);
    return ok ? KIPU_OK : kipu_fail(err, KIPU_E_MEMORY, "no memory to plan %d nodes", n);
}

/* ------------------------------------------------------------------------------------------------ 2. steps */

typedef struct fuser {
    kipu_plan *p;
    const kipu_model *model;
    bool fused;
    int32_t *uses;                                  /* per node */
    int32_t *step_of;                               /* per node: the step that computes it */
    int32_t n_pending, pending[KIPU_STEP_CHAIN_MAX];
} fuser;

static kipu_step *open_step(fuser *f, kipu_step_kind kind, int32_t main) {
    kipu_step *s = &f->p->steps[f->p->n_steps++];
    *s = (kipu_step){.kind = kind, .main = main, .input = -1, .glu = -1, .add = -1, .softcap = -1};
    return s;
}

static int32_t current(const fuser *f) { return f->p->n_steps - 1; }

static void take_pending(fuser *f, kipu_step *s) {
    for (int32_t i = 0; i < f->n_pending; i++) {
        s->chain[i] = f->pending[i];
        f->p->slot[f->pending[i]] = i;
        f->step_of[f->pending[i]] = current(f);
    }
    s->n_chain = f->n_pending;
    f->n_pending = 0;
}

static void flush(fuser *f) {
    if (f->n_pending) take_pending(f, open_step(f, KIPU_STEP_CHAIN, -1));
}

static void add_main(fuser *f, kipu_step_kind kind, int32_t node) {
    open_step(f, kind, node);
    f->step_of[node] = current(f);
}

/* A matmul step's chain is walked row by row with its input, so all its nodes must have the same rows. */
static bool pending_has_rows_of(const fuser *f, int32_t node) {
    for (int32_t i = 0; i < f->n_pending; i++)
        if (f->p->out_rows[f->pending[i]] != f->p->out_rows[node]) return false;
    return true;
}

/* The matmul step just opened, as long as nothing came behind it. */
static kipu_step *open_matmul(fuser *f) {
    kipu_step *last = f->p->n_steps ? &f->p->steps[current(f)] : NULL;
    bool open = f->fused && last && last->kind == KIPU_STEP_MATMUL && !f->n_pending && last->glu < 0 && last->add < 0 && last->softcap < 0;
    return open ? last : NULL;
}

static bool is_wide(const kipu_model *model, const kipu_node *linear) {
    int type = kipu_model_weight_at(model, linear->weight)->type;
    return type >= KIPU_Q2_K && type <= KIPU_Q6_K;
}

static void add_linear(fuser *f, int32_t node) {
    const kipu_node *n = &f->p->nodes[node];
    kipu_step *s = open_matmul(f);
    bool other_codes = s && is_wide(f->model, n) != is_wide(f->model, &f->p->nodes[s->linear[0]]);
    if (!s || s->input != n->src[0] || s->n_linear == KIPU_STEP_LINEAR_MAX || other_codes) {
        if (!pending_has_rows_of(f, node)) flush(f);
        s = open_step(f, KIPU_STEP_MATMUL, -1);
        s->input = n->src[0];
        take_pending(f, s);
    }
    s->linear[s->n_linear++] = node;
    f->step_of[node] = current(f);
}

/* The linear node whose result `node` may swallow: the step's only one, used by nobody else. */
static bool swallows(const fuser *f, const kipu_step *s, int32_t source) {
    return s && s->n_linear == 1 && s->linear[0] == source && f->uses[source] == 1;
}

static bool fuse_into_matmul(fuser *f, int32_t node) {
    const kipu_node *n = &f->p->nodes[node];
    kipu_step *s = open_matmul(f);
    if (!s) return false;
    if (n->op == KIPU_OP_GLU && s->n_linear == 2 && n->src[0] == s->linear[0] && n->src[1] == s->linear[1]
        && f->uses[n->src[0]] == 1 && f->uses[n->src[1]] == 1) s->glu = node;
    else if (n->op == KIPU_OP_ADD && (swallows(f, s, n->src[0]) || swallows(f, s, n->src[1]))) {
        int32_t other = n->src[0] == s->linear[0] ? n->src[1] : n->src[0];
        if (f->step_of[other] >= current(f)) return false;
        s->add = node;
    }
    else if (n->op == KIPU_OP_SOFTCAP && swallows(f, s, n->src[0])) s->softcap = node;
    else return false;
    f->step_of[node] = current(f);
    return true;
}

static void add_row_op(fuser *f, int32_t node) {
    if (fuse_into_matmul(f, node)) return;
    if (f->n_pending == KIPU_STEP_CHAIN_MAX) flush(f);
    f->pending[f->n_pending++] = node;
    f->step_of[node] = f->p->n_steps;                /* the step that will take it, at the earliest */
    if (!f->fused) flush(f);
}

static void add_node(fuser *f, int32_t node) {
    switch (f->p->nodes[node].op) {
    case KIPU_OP_EMBED:
        flush(f);
        add_main(f, KIPU_STEP_EMBED, node);
        break;
    case KIPU_OP_ROWS:
        flush(f);
        add_main(f, KIPU_STEP_ROWS, node);
        break;
    case KIPU_OP_ATTENTION:
        add_main(f, KIPU_STEP_ATTENTION, node);
        take_pending(f, &f->p->steps[current(f)]);
        break;
    case KIPU_OP_LINEAR: add_linear(f, node); break;
    case KIPU_OP_LOGITS: f->p->result = f->p->nodes[node].src[0]; break;
    default: add_row_op(f, node);
    }
}

static void count_uses(const kipu_plan *p, int32_t *uses) {
    for (int32_t v = 0; v < p->n_nodes; v++)
        for (int s = 0; s < 3; s++)
            if (p->nodes[v].src[s] >= 0) uses[p->nodes[v].src[s]]++;
}

static void describe_steps(kipu_plan *p, const kipu_model *model) {
    for (int32_t i = 0; i < p->n_steps; i++) {
        kipu_step *s = &p->steps[i];
        for (int32_t c = 0; c < s->n_chain; c++)
            if (p->nodes[s->chain[c]].width > p->max_chain_width) p->max_chain_width = p->nodes[s->chain[c]].width;
        for (int32_t l = 0; l < s->n_linear; l++) {
            int type = kipu_model_weight_at(model, p->nodes[s->linear[l]].weight)->type;
            if (type == KIPU_F32 || type == KIPU_F16 || type == KIPU_BF16) s->need_floats = true;
            else if (is_wide(model, &p->nodes[s->linear[l]])) s->need_wide = true;
            else s->need_codes = true;
        }
        if (s->input >= 0 && p->nodes[s->input].width > p->max_input_width) p->max_input_width = p->nodes[s->input].width;
        p->n_attention += s->kind == KIPU_STEP_ATTENTION;
    }
}

static kipu_status make_steps(kipu_plan *p, const kipu_model *model, bool fused, int32_t *step_of, kipu_error *err) {
    fuser f = {.p = p, .model = model, .fused = fused, .step_of = step_of};
    f.uses = kipu_alloc_array(p->n_nodes + 1, sizeof *f.uses);
    p->steps = kipu_alloc_array(p->n_nodes + 1, sizeof *p->steps);
    p->slot = kipu_alloc_array(p->n_nodes + 1, sizeof *p->slot);
    if (!f.uses || !p->steps || !p->slot) {
        kipu_free(f.uses);
        return kipu_fail(err, KIPU_E_MEMORY, "no memory to plan %d nodes", p->n_nodes);
    }
    memset(p->slot, -1, p->n_nodes * sizeof *p->slot);
    p->result = -1;
    count_uses(p, f.uses);
    for (int32_t v = 0; v < p->n_nodes; v++) add_node(&f, v);
    flush(&f);
    kipu_free(f.uses);
    describe_steps(p, model);
    return KIPU_OK;
}

/* ------------------------------------------------------------------------------------------------ 3. arena */

typedef struct life { int32_t first, last; } life;   /* steps, inclusive */

/* Values read by a step, in the order chain, input, main, fused. */
static void mark_use(life *lives, int32_t value, int32_t step) {
    if (value >= 0 && lives[value].last < step) lives[value].last = step;
}

static void find_lives(const kipu_plan *p, const int32_t *step_of, life *lives) {
    for (int32_t v = 0; v < p->n_nodes; v++) lives[v] = (life){step_of[v], step_of[v]};
    for (int32_t v = 0; v < p->n_nodes; v++)
        for (int s = 0; s < 3; s++) mark_use(lives, p->nodes[v].src[s], step_of[v]);
    for (int32_t v = p->n_nodes - 1; v >= 0; v--)     /* a gather of all rows is its source under another name */
        if (p->nodes[v].op == KIPU_OP_ROWS) mark_use(lives, p->nodes[v].src[0], lives[v].last);
}

static bool is_fused_away(const kipu_plan *p, const kipu_step *s, int32_t v) {
    if (s->kind != KIPU_STEP_MATMUL || p->nodes[v].op != KIPU_OP_LINEAR) return false;
    return s->glu >= 0 || s->add >= 0 || s->softcap >= 0;
}

static bool is_source(const kipu_node *n, int32_t v) { return n->src[0] == v || n->src[1] == v || n->src[2] == v; }

/* Does a value need a place, or does it live in a worker's own rows (chain) or a tile (fused away)? */
static bool needs_place(const kipu_plan *p, const int32_t *step_of, const life *lives, int32_t v) {
    const kipu_step *s = &p->steps[step_of[v]];
    if (p->nodes[v].op == KIPU_OP_LOGITS || p->is_result[v] || is_fused_away(p, s, v)) return false;
    if (p->slot[v] < 0 || lives[v].last > step_of[v]) return true;
    if (s->kind == KIPU_STEP_ATTENTION) return is_source(&p->nodes[s->main], v);
    return s->kind == KIPU_STEP_MATMUL && s->input == v && s->need_floats;
}

static size_t round_16(size_t n) { return (n + 15) / 16 * 16; }

/* Lowest gap that is free during the value's life. */
static size_t find_gap(const kipu_plan *p, const life *lives, int32_t v) {
    size_t at = 0, width = round_16(p->nodes[v].width);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t u = 0; u < v; u++) {
            bool together = p->place[u] != KIPU_NOWHERE && lives[u].first <= lives[v].last && lives[v].first <= lives[u].last;
            size_t end = p->place[u] + round_16(p->nodes[u].width);
            if (together && at < end && p->place[u] < at + width) at = end, moved = true;
        }
    }
    return at;
}

/* The logits go straight to the output buffer; so does what a separate soft cap reads. */
static void mark_result(kipu_plan *p) {
    if (p->result < 0) return;
    const kipu_node *n = &p->nodes[p->result];
    p->is_result[p->result] = true;
    if (n->op == KIPU_OP_SOFTCAP && p->nodes[n->src[0]].op == KIPU_OP_LINEAR) p->is_result[n->src[0]] = true;
}

static kipu_status make_arena(kipu_plan *p, const int32_t *step_of, kipu_error *err) {
    life *lives = kipu_alloc_array(p->n_nodes + 1, sizeof *lives);
    p->place = kipu_alloc_array(p->n_nodes + 1, sizeof *p->place);
    p->is_result = kipu_alloc_array(p->n_nodes + 1, sizeof *p->is_result);
    bool ok = lives && p->place && p->is_result;
    if (ok) {
        find_lives(p, step_of, lives);
        mark_result(p);
        for (int32_t v = 0; v < p->n_nodes; v++) {
            p->place[v] = KIPU_NOWHERE;
            if (!needs_place(p, step_of, lives, v)) continue;
            p->place[v] = find_gap(p, lives, v);
            size_t end = p->place[v] + round_16(p->nodes[v].width);
            if (end > p->row_floats) p->row_floats = end;
        }
    }
    kipu_free(lives);
    return ok ? KIPU_OK : kipu_fail(err, KIPU_E_MEMORY, "no memory to plan %d nodes", p->n_nodes);
}

/* ------------------------------------------------------------------------------------------------ all three */

static kipu_status fill(kipu_plan *p, const kipu_model *model, bool fused, kipu_error *err) {
    KIPU_TRY(expand(kipu_model_program((kipu_model *)model), p, err));
    int32_t *step_of = kipu_alloc_array(p->n_nodes + 1, sizeof *step_of);
    KIPU_REQUIRE(step_of, err, KIPU_E_MEMORY, "no memory to plan %d nodes", p->n_nodes);
    kipu_status status = make_steps(p, model, fused, step_of, err);
    if (status == KIPU_OK) status = make_arena(p, step_of, err);
    kipu_free(step_of);
    return status;
}

kipu_status kipu_plan_new(kipu_plan **out, const kipu_model *model, bool fused, kipu_error *err) {
    kipu_plan *p = kipu_alloc(sizeof *p);
    KIPU_REQUIRE(p, err, KIPU_E_MEMORY, "no memory for a plan");
    kipu_status status = fill(p, model, fused, err);
    if (status != KIPU_OK) {
        kipu_plan_free(p);
        return status;
    }
    *out = p;
    return KIPU_OK;
}

void kipu_plan_free(kipu_plan *p) {
    if (!p) return;
    kipu_free(p->nodes);
    kipu_free(p->out_rows);
    kipu_free(p->place);
    kipu_free(p->slot);
    kipu_free(p->is_result);
    kipu_free(p->steps);
    kipu_free(p);
}
