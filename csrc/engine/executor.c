#include "engine/executor.h"

#include <string.h>
#include "base/memory_alloc.h"
#include "ops/attention.h"
#include "ops/matmul.h"

/* The tables of one rope set: frequencies once, cos and sin per batch. */
typedef struct rope_tables {
    int32_t n_rot;
    double *frequency, magnitude;
    float *cos, *sin;                    /* (max_tokens, n_rot / 2) */
} rope_tables;

struct kipu_executor {
    const kipu_model *model;
    const kipu_plan *plan;
    const kipu_kernels *kernels;
    int32_t max_tokens;
    char *arena;                         /* plan->row_floats * max_tokens floats */
    size_t arena_bytes;
    int8_t *codes;                       /* activations shared by all workers */
    float *scales;
    int32_t *sums;
    float **base;                        /* per node: its first row in this pass */
    kipu_jobs *jobs;                     /* two per step */
    rope_tables *ropes;
    int32_t n_ropes;
    void *partials;                      /* of split attention */
    size_t partials_bytes;
    char *scratch;                       /* n_scratch workers */
    int32_t n_scratch;
    size_t scratch_bytes;                /* per worker: op scratch | chain rows | own activations | embedding row */
    size_t chain_at, acts_at, row_at;
    int32_t *out_pos, *out_seq;          /* of output tokens */
};

/* Everything a worker needs while it walks. */
typedef struct walk {
    kipu_executor *e;
    const kipu_pass *pass;
    atomic_int *stop;
    void (*poll)(void *);
    void *poll_arg;
    atomic_int workers;
    atomic_int last_step;                /* all workers leave behind the barrier of this step */
    kipu_status status;                  /* of memory queries, written by worker 0 before the walk */
    const kipu_kv_spans *spans[2];       /* base, window */
} walk;

static size_t round_64(size_t n) { return (n + 63) / 64 * 64; }

/* ------------------------------------------------------------------------------------------------ making one */

static kipu_status make_ropes(kipu_executor *e, const kipu_executor_params *params, kipu_error *err) {
    e->n_ropes = kipu_program_n_rope(kipu_model_program((kipu_model *)e->model));
    e->ropes = kipu_alloc_array(e->n_ropes + 1, sizeof *e->ropes);
    KIPU_REQUIRE(e->ropes, err, KIPU_E_MEMORY, "no memory for rope tables");
    for (int32_t i = 0; i < e->n_ropes; i++) {
        rope_tables *r = &e->ropes[i];
        r->n_rot = params->ropes[i].n_rot;
        size_t table = (size_t)e->max_tokens * (r->n_rot / 2);
        r->frequency = kipu_alloc_array(r->n_rot / 2, sizeof *r->frequency);
        r->cos = kipu_alloc_array(table, sizeof *r->cos);
        r->sin = kipu_alloc_array(table, sizeof *r->sin);
        KIPU_REQUIRE(r->frequency && r->cos && r->sin, err, KIPU_E_MEMORY, "no memory for rope tables of %d tokens", e->max_tokens);
        kipu_rope_frequencies(&params->ropes[i], r->frequency, &r->magnitude);
    }
    return KIPU_OK;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* What the most demanding attention step needs: shared partial results, and scratch of each worker. */
static void attention_sizes(const kipu_executor *e, int64_t max_positions, size_t *partials, size_t *scratch) {
    *partials = *scratch = 0;
    for (int32_t i = 0; i < e->plan->n_steps; i++) {
        if (e->plan->steps[i].kind != KIPU_STEP_ATTENTION) continue;
        const kipu_node *n = &e->plan->nodes[e->plan->steps[i].main];
        kipu_attn_head head = {.d_k = e->plan->nodes[n->src[0]].width / n->i[0], .d_v = n->width / n->i[0]};
        *partials = larger(*partials, kipu_attention_partials(e->max_tokens, n->i[0], head.d_v, max_positions));
        *scratch = larger(*scratch, kipu_attention_scratch(e->max_tokens, &head));
    }
}

static size_t longest_embedding_row(const kipu_executor *e) {
    size_t most = 0;
    for (int32_t v = 0; v < e->plan->n_nodes; v++) {
        if (e->plan->nodes[v].op != KIPU_OP_EMBED) continue;
        const kipu_weight *w = kipu_model_weight_at(e->model, e->plan->nodes[v].weight);
        most = larger(most, w->panel_bytes);
    }
    return most;
}

static void lay_out_scratch(kipu_executor *e, size_t attention) {
    size_t op = larger(kipu_matmul_scratch(), attention);
    size_t k = e->plan->max_input_width;
    e->chain_at = round_64(op);
    e->acts_at = e->chain_at + KIPU_STEP_CHAIN_MAX * round_64((size_t)e->plan->max_chain_width * sizeof(float));
    e->row_at = e->acts_at + round_64(k) + 2 * round_64((k / KIPU_GROUP + 1) * 4);
    e->scratch_bytes = (e->row_at + round_64(longest_embedding_row(e)) + 4095) / 4096 * 4096 + 64;
}

static kipu_status make_buffers(kipu_executor *e, int64_t max_positions, kipu_error *err) {
    const kipu_plan *p = e->plan;
    size_t n = e->max_tokens, k = p->max_input_width;
    e->arena_bytes = p->row_floats * n * sizeof(float) + 64;
    e->arena = kipu_huge_alloc(e->arena_bytes);
    e->codes = kipu_alloc_array(n, k + 64);
    e->scales = kipu_alloc_array(n * (k / KIPU_GROUP + 1), sizeof *e->scales);
    e->sums = kipu_alloc_array(n * (k / KIPU_GROUP + 1), sizeof *e->sums);
    e->base = kipu_alloc_array(p->n_nodes + 1, sizeof *e->base);
    e->jobs = kipu_alloc_array(2 * (size_t)p->n_steps + 2, sizeof *e->jobs);
    e->out_pos = kipu_alloc_array(2 * n, sizeof *e->out_pos);
    KIPU_REQUIRE(e->arena && e->codes && e->scales && e->sums && e->base && e->jobs && e->out_pos, err, KIPU_E_MEMORY,
                 "no memory for the compute buffers of %d tokens (%zu bytes)", e->max_tokens, e->arena_bytes);
    e->out_seq = e->out_pos + n;
    size_t attention;
    attention_sizes(e, max_positions, &e->partials_bytes, &attention);
    if (e->partials_bytes) {
        e->partials = kipu_huge_alloc(e->partials_bytes);
        KIPU_REQUIRE(e->partials, err, KIPU_E_MEMORY, "no memory for %zu bytes of attention results", e->partials_bytes);
    }
    lay_out_scratch(e, attention);
    return kipu_executor_reserve(e, 1, err);
}

kipu_status kipu_executor_new(kipu_executor **out, const kipu_model *model, const kipu_plan *plan, const kipu_executor_params *params,
                              kipu_error *err) {
    kipu_executor *e = kipu_alloc(sizeof *e);
    KIPU_REQUIRE(e, err, KIPU_E_MEMORY, "no memory for an executor");
    e->model = model;
    e->plan = plan;
    e->kernels = kipu_model_kernels(model);
    e->max_tokens = params->max_tokens;
    kipu_status status = make_ropes(e, params, err);
    if (status == KIPU_OK) status = make_buffers(e, params->max_positions, err);
    if (status != KIPU_OK) {
        kipu_executor_free(e);
        return status;
    }
    *out = e;
    return KIPU_OK;
}

void kipu_executor_free(kipu_executor *e) {
    if (!e) return;
    for (int32_t i = 0; e->ropes && i < e->n_ropes; i++) {
        kipu_free(e->ropes[i].frequency);
        kipu_free(e->ropes[i].cos);
        kipu_free(e->ropes[i].sin);
    }
    kipu_free(e->ropes);
    kipu_huge_free(e->arena, e->arena_bytes);
    kipu_huge_free(e->partials, e->partials_bytes);
    kipu_huge_free(e->scratch, (size_t)e->n_scratch * e->scratch_bytes);
    kipu_free(e->codes);
    kipu_free(e->scales);
    kipu_free(e->sums);
    kipu_free(e->base);
    kipu_free(e->jobs);
    kipu_free(e->out_pos);
    kipu_free(e);
}

kipu_status kipu_executor_reserve(kipu_executor *e, int32_t n_workers, kipu_error *err) {
    if (n_workers <= e->n_scratch) return KIPU_OK;
    char *more = kipu_huge_alloc((size_t)n_workers * e->scratch_bytes);
    KIPU_REQUIRE(more, err, KIPU_E_MEMORY, "no memory for the scratch of %d threads", n_workers);
    kipu_huge_free(e->scratch, (size_t)e->n_scratch * e->scratch_bytes);
    e->scratch = more;
    e->n_scratch = n_workers;
    return KIPU_OK;
}

size_t kipu_executor_bytes(const kipu_executor *e) { return e->arena_bytes + e->partials_bytes + (size_t)e->n_scratch * e->scratch_bytes; }

/* ------------------------------------------------------------------------------------------------ where rows lie */

static int32_t rows_of(const walk *k, int32_t node) { return k->e->plan->out_rows[node] ? k->pass->n_out : k->pass->n; }

/* The ubatch token behind row t of a value. */
static int32_t token_of(const walk *k, int32_t node, int32_t t) { return k->e->plan->out_rows[node] ? k->pass->out_token[t] : t; }

/* Row t of a node's value. `own`: this worker walks a chain for itself and keeps its rows to itself. */
static float *row(const walk *k, const kipu_op_worker *ow, int32_t node, int32_t t, const kipu_step *step, bool own) {
    const kipu_plan *p = k->e->plan;
    int32_t slot = p->slot[node];
    bool in_chain = step && slot >= 0 && slot < step->n_chain && step->chain[slot] == node;
    if (in_chain && !p->is_result[node] && (own || p->place[node] == KIPU_NOWHERE))
        return (float *)(ow->scratch + k->e->chain_at + slot * round_64((size_t)p->max_chain_width * sizeof(float)));
    size_t at = p->is_result[node] ? (size_t)k->pass->out_row[t] : (size_t)t;
    return k->e->base[node] + at * p->nodes[node].width;
}

static void find_bases(walk *k) {
    const kipu_plan *p = k->e->plan;
    for (int32_t v = 0; v < p->n_nodes; v++) {
        if (p->is_result[v]) k->e->base[v] = k->pass->out;
        else if (p->nodes[v].op == KIPU_OP_ROWS && k->pass->n_out == k->pass->n) k->e->base[v] = k->e->base[p->nodes[v].src[0]];
        else k->e->base[v] = p->place[v] == KIPU_NOWHERE ? NULL : (float *)k->e->arena + p->place[v] * k->e->max_tokens;
    }
}

/* ------------------------------------------------------------------------------------------------ row operations */

static void norm_row(const walk *k, const kipu_node *n, float *y, const float *x) {
    const float *w = n->weight >= 0 ? (const float *)kipu_model_weight_at(k->e->model, n->weight)->data : NULL;
    for (int32_t i = 0; i < n->width; i += n->i[0]) k->e->kernels->rms_norm(y + i, x + i, w, n->i[0], n->f[0]);
}

static void rope_row(const walk *k, const kipu_node *n, int32_t token, float *y, const float *x) {
    const rope_tables *r = &k->e->ropes[n->i[3]];
    const float *c = r->cos + (size_t)token * (r->n_rot / 2), *s = r->sin + (size_t)token * (r->n_rot / 2);
    if (y != x) memcpy(y, x, n->width * sizeof *y);
    for (int32_t i = 0; i < n->width; i += n->i[0])
        (n->i[2] ? k->e->kernels->rope_neox : k->e->kernels->rope_norm)(y + i, c, s, r->n_rot);
}

static void chain_node(const walk *k, const kipu_op_worker *ow, const kipu_step *step, int32_t node, int32_t t, bool own) {
    const kipu_node *n = &k->e->plan->nodes[node];
    const kipu_kernels *kn = k->e->kernels;
    float *y = row(k, ow, node, t, step, own);
    const float *a = row(k, ow, n->src[0], t, step, own);
    switch (n->op) {
    case KIPU_OP_RMS_NORM: norm_row(k, n, y, a); break;
    case KIPU_OP_ROPE: rope_row(k, n, token_of(k, node, t), y, a); break;
    case KIPU_OP_ADD: kn->add(y, a, row(k, ow, n->src[1], t, step, own), n->width); break;
    case KIPU_OP_SOFTCAP: kn->softcap(y, a, n->f[0], n->width); break;
    case KIPU_OP_GLU: (n->i[0] ? kn->geglu : kn->swiglu)(y, a, row(k, ow, n->src[1], t, step, own), n->width); break;
    default: break;
    }
}

/* The step's row operations for rows [t0, t1) of the values that have output rows (or that have not). */
static void chain_rows(const walk *k, const kipu_op_worker *ow, const kipu_step *step, bool out_rows, int32_t t0, int32_t t1, bool own) {
    for (int32_t t = t0; t < t1; t++)
        for (int32_t c = 0; c < step->n_chain; c++)
            if (k->e->plan->out_rows[step->chain[c]] == out_rows) chain_node(k, ow, step, step->chain[c], t, own);
}

/* This worker's part of n rows. */
static void part(const kipu_worker *w, int32_t n, int32_t *from, int32_t *to) {
    *from = (int32_t)((int64_t)n * w->index / w->count);
    *to = (int32_t)((int64_t)n * (w->index + 1) / w->count);
}

static void run_chain(const walk *k, const kipu_op_worker *ow, const kipu_step *step) {
    int32_t from, to;
    part(&ow->w, k->pass->n, &from, &to);
    chain_rows(k, ow, step, false, from, to, false);
    part(&ow->w, k->pass->n_out, &from, &to);
    chain_rows(k, ow, step, true, from, to, false);
}

/* ------------------------------------------------------------------------------------------------ embedding, gather, tables */

static void embed_token(const walk *k, const kipu_op_worker *ow, const kipu_node *n, int32_t t, float *y) {
    if (k->pass->embd) {
        memcpy(y, k->pass->embd + (size_t)k->pass->embd_row[t] * n->width, n->width * sizeof *y);
    } else {
        kipu_weight_row_floats(kipu_model_weight_at(k->e->model, n->weight), k->pass->token[t], y, ow->scratch + k->e->row_at);
    }
    if (n->f[0] != 1 && (n->i[0] || !k->pass->embd)) k->e->kernels->scale(y, y, n->f[0], n->width);
}

static void rope_token(const walk *k, int32_t t) {
    for (int32_t i = 0; i < k->e->n_ropes; i++) {
        rope_tables *r = &k->e->ropes[i];
        size_t at = (size_t)t * (r->n_rot / 2);
        kipu_rope_table(r->frequency, r->magnitude, r->n_rot, k->pass->pos[t], r->cos + at, r->sin + at);
    }
}

/* Embedding rows by worker from the front, rope tables from the back: with one token two workers share the work. */
static void run_embed(const walk *k, const kipu_op_worker *ow, const kipu_step *step) {
    for (int32_t t = ow->w.index; t < k->pass->n; t += ow->w.count)
        embed_token(k, ow, &k->e->plan->nodes[step->main], t, row(k, ow, step->main, t, NULL, false));
    for (int32_t t = ow->w.count - 1 - ow->w.index; t < k->pass->n; t += ow->w.count) rope_token(k, t);
}

static void run_rows(const walk *k, const kipu_op_worker *ow, const kipu_step *step) {
    const kipu_node *n = &k->e->plan->nodes[step->main];
    int32_t from, to;
    part(&ow->w, k->pass->n_out, &from, &to);
    for (int32_t t = from; t < to; t++)
        memcpy(row(k, ow, step->main, t, NULL, false), row(k, ow, n->src[0], k->pass->out_token[t], NULL, false), n->width * sizeof(float));
}

/* ------------------------------------------------------------------------------------------------ matrix products */

/* Where the codes of a step's input go: shared, or this worker's own for one token; x lies in its own chain rows if `mine`. */
static kipu_acts acts_of(const walk *k, const kipu_op_worker *ow, const kipu_step *step, int32_t n, bool own, bool mine) {
    kipu_executor *e = k->e;
    int32_t width = e->plan->nodes[step->input].width;
    char *at = ow->scratch + e->acts_at;
    size_t groups = round_64(((size_t)e->plan->max_input_width / KIPU_GROUP + 1) * 4), codes = round_64(e->plan->max_input_width);
    return (kipu_acts){.n = n, .k = width,
                       .x = step->need_floats ? row(k, ow, step->input, 0, step, mine) : NULL,
                       .q = own ? (int8_t *)at : e->codes,
                       .d = own ? (float *)(at + codes) : e->scales,
                       .s = own ? (int32_t *)(at + codes + groups) : e->sums};
}

static void quantize_row(const walk *k, const kipu_op_worker *ow, const kipu_step *step, const kipu_acts *a, int32_t t, bool own) {
    size_t groups = a->k / KIPU_GROUP;
    (step->need_wide ? k->e->kernels->quantize_wide : k->e->kernels->quantize)(
        (int8_t *)a->q + (size_t)t * a->k, (float *)a->d + t * groups, (int32_t *)a->s + t * groups, row(k, ow, step->input, t, step, own),
        a->k);
}

/* The chain and the activations of rows [from, to). */
static void prepare(const walk *k, const kipu_op_worker *ow, const kipu_step *step, const kipu_acts *a, int32_t from, int32_t to,
                    bool own) {
    bool out_rows = step->n_chain && k->e->plan->out_rows[step->chain[0]];
    for (int32_t t = from; t < to; t++) {
        chain_rows(k, ow, step, out_rows, t, t + 1, own);
        if (step->need_codes || step->need_wide) quantize_row(k, ow, step, a, t, own);
    }
}

static kipu_linear linear_of(const walk *k, int32_t node) {
    const kipu_node *n = &k->e->plan->nodes[node];
    const kipu_weight *w = kipu_model_weight_at(k->e->model, n->weight);
    return (kipu_linear){.mm = w->mm, .panels = w->data, .panel_bytes = w->panel_bytes, .rows = w->rows, .out = k->e->base[node],
                         .bias = n->bias >= 0 ? (const float *)kipu_model_weight_at(k->e->model, n->bias)->data : NULL};
}

/* The step's products with what is finished inside them. */
static kipu_matmul matmul_of(const walk *k, const kipu_step *step) {
    const kipu_plan *p = k->e->plan;
    kipu_matmul m = {.n_linear = step->n_linear};
    for (int32_t i = 0; i < step->n_linear; i++) m.linear[i] = linear_of(k, step->linear[i]);
    int32_t last = step->linear[0];
    if (step->glu >= 0) {
        m.finish = p->nodes[step->glu].i[0] ? KIPU_GEGLU : KIPU_SWIGLU;
        last = step->glu;
    } else if (step->add >= 0) {
        const kipu_node *add = &p->nodes[step->add];
        m.linear[0].residual = k->e->base[add->src[0] == step->linear[0] ? add->src[1] : add->src[0]];
        last = step->add;
    } else if (step->softcap >= 0) {
        m.softcap = p->nodes[step->softcap].f[0];
        last = step->softcap;
    }
    m.linear[0].out = k->e->base[last];
    m.row_of = p->is_result[last] ? k->pass->out_row : NULL;
    return m;
}

/* One token: every worker prepares it for itself, which is cheaper than a barrier. Worker 0's rows are the ones that others read later. */
static void run_matmul(const walk *k, kipu_op_worker *ow, const kipu_step *step, kipu_jobs *jobs) {
    int32_t n = rows_of(k, step->linear[0]);
    if (n == 0) return;
    bool own = n == 1;
    bool mine = own && ow->w.index > 0;
    kipu_acts acts = acts_of(k, ow, step, n, own, mine);
    if (own) {
        prepare(k, ow, step, &acts, 0, 1, mine);
    } else {
        int32_t from, to;
        part(&ow->w, n, &from, &to);
        prepare(k, ow, step, &acts, from, to, false);
        kipu_barrier(&ow->w);
    }
    kipu_matmul m = matmul_of(k, step);
    kipu_matmul_run(ow, &m, &acts, jobs);
}

/* ------------------------------------------------------------------------------------------------ attention */

static kipu_attention attention_of(const walk *k, const kipu_step *step) {
    const kipu_plan *p = k->e->plan;
    const kipu_node *n = &p->nodes[step->main];
    const kipu_kv_layer *layer = kipu_memory_layer_view(k->pass->memory, n->il);
    bool out_rows = p->out_rows[step->main];
    return (kipu_attention){
        .n_tokens = rows_of(k, step->main), .n_head = n->i[0], .n_head_kv = n->i[1],
        .head = {.d_k = p->nodes[n->src[0]].width / n->i[0], .d_v = n->width / n->i[0], .type_k = layer->type_k, .type_v = layer->type_v,
                 .scale = n->f[0], .softcap = n->f[1]},
        .q = k->e->base[n->src[0]], .out = k->e->base[step->main],
        .pos = out_rows ? k->e->out_pos : k->pass->pos, .seq = out_rows ? k->e->out_seq : k->pass->seq,
        .layer = layer, .spans = k->spans[n->i[2] != 0], .n_swa = n->i[2] ? (int32_t)k->pass->n_swa : 0, .causal = k->pass->causal};
}

/* Queries and keys are independent: with one token the first worker takes one, the last the other. */
static void prepare_one(const walk *k, const kipu_op_worker *ow, const kipu_step *step) {
    const kipu_plan *p = k->e->plan;
    uint64_t of_key = 0;                                   /* chain nodes that lead to K or V */
    for (int32_t c = step->n_chain - 1; c >= 0; c--) {
        int32_t v = step->chain[c];
        const kipu_node *n = &p->nodes[step->main];
        bool key = v == n->src[1] || v == n->src[2];
        for (int32_t u = c + 1; u < step->n_chain; u++)
            if ((of_key >> u & 1) && (p->nodes[step->chain[u]].src[0] == v || p->nodes[step->chain[u]].src[1] == v)) key = true;
        if (key) of_key |= 1ull << c;
    }
    for (int32_t c = 0; c < step->n_chain; c++) {
        int32_t owner = of_key >> c & 1 ? ow->w.count - 1 : 0;
        if (ow->w.index == owner && rows_of(k, step->chain[c])) chain_node(k, ow, step, step->chain[c], 0, false);
    }
}

static void store_kv(const walk *k, const kipu_step *step, int32_t from, int32_t to) {
    const kipu_node *n = &k->e->plan->nodes[step->main];
    kipu_kv_store(k->e->kernels, kipu_memory_layer_view(k->pass->memory, n->il), kipu_memory_cells(k->pass->memory, n->il),
                  k->e->base[n->src[1]], k->e->base[n->src[2]], from, to);
}

static void run_attention(const walk *k, kipu_op_worker *ow, const kipu_step *step, kipu_jobs *jobs) {
    if (k->pass->n == 1) {
        prepare_one(k, ow, step);
        if (ow->w.index == ow->w.count - 1) store_kv(k, step, 0, 1);
    } else {
        int32_t from, to;
        run_chain(k, ow, step);
        part(&ow->w, k->pass->n, &from, &to);
        store_kv(k, step, from, to);
    }
    kipu_barrier(&ow->w);
    kipu_attention a = attention_of(k, step);
    if (a.n_tokens) kipu_attention_run(ow, &a, k->e->partials, jobs);
}

/* ------------------------------------------------------------------------------------------------ the walk */

static bool is_idle(const walk *k, const kipu_step *step) { return step->kind == KIPU_STEP_ROWS && k->pass->n_out == k->pass->n; }

static void run_step(const walk *k, kipu_op_worker *ow, const kipu_step *step, kipu_jobs *jobs) {
    switch (step->kind) {
    case KIPU_STEP_EMBED: run_embed(k, ow, step); break;
    case KIPU_STEP_ROWS: run_rows(k, ow, step); break;
    case KIPU_STEP_MATMUL: run_matmul(k, ow, step, jobs); break;
    case KIPU_STEP_ATTENTION: run_attention(k, ow, step, jobs); break;
    case KIPU_STEP_CHAIN: run_chain(k, ow, step); break;
    }
}

/* A stop request cuts the jobs of a step short, and worker 0 names the step it saw it in before that step's barrier: behind the barrier
 * everybody knows, and a worker that is late does not take the name of a later step for its own. */
static void walk_steps(void *arg, const kipu_worker *w) {
    walk *k = arg;
    const kipu_plan *p = k->e->plan;
    kipu_op_worker ow = {.w = *w, .k = k->e->kernels, .scratch = k->e->scratch + w->index * k->e->scratch_bytes,
                         .scratch_size = k->e->chain_at, .stop = k->stop, .poll = k->poll, .poll_arg = k->poll_arg};
    if (w->index == 0) atomic_store(&k->workers, w->count);
    for (int32_t i = 0; i < p->n_steps && i <= atomic_load(&k->last_step); i++) {
        if (is_idle(k, &p->steps[i])) continue;
        run_step(k, &ow, &p->steps[i], &k->e->jobs[2 * i]);
        if (w->index == 0 && atomic_load(k->stop)) atomic_store(&k->last_step, i);
        kipu_barrier(w);
    }
}

/* Everything that can fail or that all workers read, before they start. */
static kipu_status start(walk *k, kipu_error *err) {
    kipu_executor *e = k->e;
    memset(e->jobs, 0, (2 * (size_t)e->plan->n_steps + 2) * sizeof *e->jobs);
    find_bases(k);
    for (int32_t t = 0; t < k->pass->n_out; t++) {
        e->out_pos[t] = k->pass->pos[k->pass->out_token[t]];
        e->out_seq[t] = k->pass->seq[k->pass->out_token[t]];
    }
    for (int32_t i = 0; i < e->plan->n_steps; i++) {
        if (e->plan->steps[i].kind != KIPU_STEP_ATTENTION) continue;
        const kipu_node *n = &e->plan->nodes[e->plan->steps[i].main];
        const kipu_kv_spans **spans = &k->spans[n->i[2] != 0];
        if (!*spans) KIPU_TRY(kipu_memory_spans(k->pass->memory, n->il, k->pass->seqs, spans, err));
    }
    return KIPU_OK;
}

kipu_status kipu_executor_run(kipu_executor *e, kipu_pool *pool, int32_t n_workers, const kipu_pass *pass, atomic_int *stop,
                              void (*poll)(void *), void *poll_arg, int32_t *workers_used, kipu_error *err) {
    walk k = {.e = e, .pass = pass, .stop = stop, .poll = poll, .poll_arg = poll_arg, .last_step = e->plan->n_steps};
    KIPU_REQUIRE(pass->n > 0 && pass->n <= e->max_tokens, err, KIPU_E_INTERNAL, "a pass of %d tokens, room for %d", pass->n, e->max_tokens);
    KIPU_TRY(kipu_executor_reserve(e, n_workers, err));
    KIPU_TRY(start(&k, err));
    KIPU_TRY(kipu_pool_run(pool, n_workers, walk_steps, &k, err));
    *workers_used = atomic_load(&k.workers);
    return KIPU_OK;
}
