#define _POSIX_C_SOURCE 200809L   /* clock_gettime */
#include "engine/context.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include "base/memory_alloc.h"
#include "engine/batch.h"
#include "engine/executor.h"
#include "engine/outputs.h"
#include "engine/plan.h"

struct kipu_context {
    kipu_model *model;
    kipu_context_params params;
    pthread_mutex_t lock;
    kipu_plan *plan;
    kipu_executor *executor;
    kipu_memory *memory;
    kipu_pool *own_pool, *pool, *pool_batch;     /* pool: attached, or NULL for the own one */
    int32_t own_pool_size;
    atomic_int n_threads, n_threads_batch;

    kipu_outputs outputs;
    int32_t n_vocab;                             /* width of a result row */
    int32_t *row_of_batch;                       /* (n_batch) output row by batch index of the last decode, -1 */
    int32_t *pass_ints;                          /* (3, n_ubatch): batch rows, output tokens, output rows of a pass */

    bool (*abort)(void *);
    void *abort_arg;
    bool (*signal)(void *);
    void *signal_arg;
    atomic_int stop;
    double last_signal;
    int32_t workers;
    kipu_perf perf;
};

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

/* ------------------------------------------------------------------------------------------------ making one */

/* Layers that attend, with the widths of their rows; which of them have a window. */
static kipu_status make_memory(kipu_context *c, kipu_error *err) {
    const kipu_plan *p = c->plan;
    kipu_memory_layer *layers = kipu_alloc_array(p->n_nodes + 1, sizeof *layers);
    KIPU_REQUIRE(layers, err, KIPU_E_MEMORY, "no memory for a context");
    int32_t n_layer = 0;
    for (int32_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i].kind != KIPU_STEP_ATTENTION) continue;
        const kipu_node *n = &p->nodes[p->steps[i].main];
        if (n->il < 0 || n->il >= p->n_nodes) continue;
        layers[n->il] = (kipu_memory_layer){p->nodes[n->src[1]].width, p->nodes[n->src[2]].width, n->i[2] != 0};
        if (n->il >= n_layer) n_layer = n->il + 1;
    }
    kipu_memory_params params = {.n_cells = c->params.n_ctx, .n_cells_window = c->params.n_cells_window, .n_swa = c->params.n_swa,
                                 .type_k = c->params.type_k, .type_v = c->params.type_v, .n_layer = n_layer, .layers = layers};
    kipu_status status = kipu_memory_new(&c->memory, &params, err);
    kipu_free(layers);
    return status;
}

/* The context's parameters rule where the model does not fix a set of its own. */
static kipu_rope_params rope_params(const kipu_context *c, const kipu_rope_set *set) {
    const kipu_context_params *p = &c->params;
    kipu_rope_params r = {.n_rot = set->n_rot, .base = set->freq_base, .scale = set->freq_scale,
                          .attn_factor = p->yarn_attn_factor, .n_ctx_orig = p->yarn_orig_ctx,
                          .ext_factor = p->yarn_ext_factor, .beta_fast = p->yarn_beta_fast, .beta_slow = p->yarn_beta_slow};
    if (set->factors >= 0) r.factors = (const float *)kipu_model_weight_at(c->model, set->factors)->data;
    if (set->fixed) return r;
    if (p->rope_freq_base > 0) r.base = p->rope_freq_base;
    if (p->rope_freq_scale > 0) r.scale = p->rope_freq_scale;
    return r;
}

static kipu_status make_executor(kipu_context *c, kipu_error *err) {
    kipu_program *program = kipu_model_program(c->model);
    int32_t n = kipu_program_n_rope(program);
    kipu_rope_params *ropes = kipu_alloc_array(n + 1, sizeof *ropes);
    KIPU_REQUIRE(ropes, err, KIPU_E_MEMORY, "no memory for a context");
    for (int32_t i = 0; i < n; i++) ropes[i] = rope_params(c, kipu_program_rope(program, i));
    kipu_executor_params params = {.max_tokens = c->params.n_ubatch, .max_positions = c->params.n_ctx, .ropes = ropes};
    kipu_status status = kipu_executor_new(&c->executor, c->model, c->plan, &params, err);
    kipu_free(ropes);
    return status;
}

static kipu_status check_params(const kipu_context_params *p, kipu_error *err) {
    KIPU_REQUIRE(p->n_ctx > 0, err, KIPU_E_ARG, "n_ctx is 0, expected >= 1");
    KIPU_REQUIRE(p->n_batch > 0 && p->n_ubatch > 0, err, KIPU_E_ARG,
                 "n_batch is %u and n_ubatch %u, expected >= 1", p->n_batch, p->n_ubatch);
    KIPU_REQUIRE(p->n_ctx <= INT32_MAX && p->n_batch <= INT32_MAX && p->n_ubatch <= p->n_batch, err, KIPU_E_ARG,
                 "n_ctx %u, n_batch %u, n_ubatch %u: expected n_ubatch <= n_batch and all below 2^31", p->n_ctx, p->n_batch, p->n_ubatch);
    KIPU_REQUIRE(p->n_seq_max >= 1 && p->n_seq_max <= KIPU_MAX_SEQ, err, KIPU_E_ARG,
                 "n_seq_max is %u, expected 1..%d", p->n_seq_max, KIPU_MAX_SEQ);
    return KIPU_OK;
}

static kipu_status fill(kipu_context *c, kipu_error *err) {
    const kipu_context_params *p = &c->params;
    KIPU_TRY(kipu_plan_new(&c->plan, c->model, p->fused, err));
    KIPU_REQUIRE(c->plan->result >= 0, err, KIPU_E_UNSUPPORTED, "the model has no result to compute");
    c->n_vocab = c->plan->nodes[c->plan->result].width;
    KIPU_TRY(make_memory(c, err));
    KIPU_TRY(make_executor(c, err));
    c->row_of_batch = kipu_alloc_array(p->n_batch, sizeof *c->row_of_batch);
    c->pass_ints = kipu_alloc_array(3 * (size_t)p->n_ubatch, sizeof *c->pass_ints);
    KIPU_REQUIRE(c->row_of_batch && c->pass_ints, err, KIPU_E_MEMORY, "no memory for batches of %u tokens", p->n_batch);
    memset(c->row_of_batch, -1, p->n_batch * sizeof *c->row_of_batch);
    return KIPU_OK;
}

kipu_status kipu_context_new(kipu_context **out, kipu_model *model, const kipu_context_params *params, kipu_error *err) {
    KIPU_TRY(check_params(params, err));
    kipu_context *c = kipu_alloc(sizeof *c);
    KIPU_REQUIRE(c, err, KIPU_E_MEMORY, "no memory for a context");
    c->model = model;
    c->params = *params;
    pthread_mutex_init(&c->lock, NULL);
    atomic_init(&c->n_threads, params->n_threads);
    atomic_init(&c->n_threads_batch, params->n_threads_batch);
    c->perf.t_start_ms = now_ms();
    kipu_status status = fill(c, err);
    if (status != KIPU_OK) {
        kipu_context_free(c);
        return status;
    }
    *out = c;
    return KIPU_OK;
}

void kipu_context_free(kipu_context *c) {
    if (!c) return;
    kipu_pool_free(c->own_pool);
    kipu_executor_free(c->executor);
    kipu_plan_free(c->plan);
    kipu_memory_free(c->memory);
    kipu_outputs_free(&c->outputs);
    kipu_free(c->row_of_batch);
    kipu_free(c->pass_ints);
    pthread_mutex_destroy(&c->lock);
    kipu_free(c);
}

void kipu_context_lock(kipu_context *c) { pthread_mutex_lock(&c->lock); }
void kipu_context_unlock(kipu_context *c) { pthread_mutex_unlock(&c->lock); }

/* ------------------------------------------------------------------------------------------------ one ubatch */

static kipu_status get_pool(kipu_context *c, int32_t n_threads, bool prompt, kipu_pool **pool, kipu_error *err) {
    *pool = prompt && c->pool_batch ? c->pool_batch : c->pool;
    if (*pool) return KIPU_OK;
    if (n_threads > c->own_pool_size) {
        kipu_pool *bigger;
        KIPU_TRY(kipu_pool_new(&bigger, n_threads, err));
        kipu_pool_free(c->own_pool);
        c->own_pool = bigger;
        c->own_pool_size = n_threads;
    }
    *pool = c->own_pool;
    return KIPU_OK;
}

/* On the thread that called decode: the user's callback every time, signals every 10 ms. */
static void poll(void *arg) {
    kipu_context *c = arg;
    if (atomic_load_explicit(&c->stop, memory_order_relaxed)) return;
    if (c->abort && c->abort(c->abort_arg)) atomic_store(&c->stop, 1);
    if (!c->signal) return;
    double now = now_ms();
    if (now - c->last_signal < 10) return;
    c->last_signal = now;
    if (c->signal(c->signal_arg)) atomic_store(&c->stop, 1);
}

/* The pass of computed tokens [from, from + n). Its arrays of output tokens and rows lie in pass_ints. */
static kipu_pass make_pass(kipu_context *c, const kipu_batch_plan *plan, int32_t from, int32_t n, int32_t *token) {
    int32_t *batch_row = c->pass_ints, *out_token = batch_row + c->params.n_ubatch, *out_row = out_token + c->params.n_ubatch;
    kipu_pass pass = {.n = n, .embd = plan->embd, .embd_row = batch_row, .pos = plan->pos + from, .seq = plan->seq + from,
                      .out_token = out_token, .out_row = out_row, .out = kipu_outputs_data(&c->outputs), .memory = c->memory,
                      .causal = c->params.causal, .n_swa = c->params.n_swa};
    for (int32_t i = 0; i < n; i++) {
        batch_row[i] = plan->order[from + i];
        if (plan->token) token[i] = plan->token[batch_row[i]];
        pass.seqs |= UINT64_C(1) << plan->seq[from + i];
        if (plan->row[from + i] < 0) continue;
        out_token[pass.n_out] = i;
        out_row[pass.n_out++] = plan->row[from + i];
    }
    pass.token = plan->token ? token : NULL;
    return pass;
}

static kipu_status run_ubatch(kipu_context *c, const kipu_batch_plan *plan, int32_t u, int32_t *token, kipu_error *err) {
    const kipu_memory_ubatch *ubatch = &plan->ubatches[u];
    bool prompt = ubatch->n > 1;
    int32_t n_threads = atomic_load(prompt ? &c->n_threads_batch : &c->n_threads);
    kipu_pool *pool;
    KIPU_TRY(get_pool(c, n_threads, prompt, &pool, err));
    KIPU_TRY(kipu_memory_place(c->memory, ubatch, err));
    kipu_pass pass = make_pass(c, plan, (int32_t)(ubatch->pos - plan->pos), ubatch->n, token);
    kipu_status status = kipu_executor_run(c->executor, pool, n_threads, &pass, &c->stop, poll, c, &c->workers, err);
    if (status == KIPU_OK && atomic_load(&c->stop))
        status = kipu_fail(err, KIPU_E_ABORTED, "aborted in ubatch %d of %d", u + 1, plan->n_ubatches);
    if (status != KIPU_OK) kipu_memory_undo(c->memory);
    return status;
}

/* ------------------------------------------------------------------------------------------------ decode */

static int32_t code_of(kipu_status status) {
    switch (status) {
    case KIPU_OK: return 0;
    case KIPU_E_FULL: return 1;
    case KIPU_E_ABORTED: return 2;
    case KIPU_E_MEMORY: return -2;
    default: return -3;
    }
}

static void forget_outputs(kipu_context *c) {
    c->outputs.n_rows = 0;
    memset(c->row_of_batch, -1, c->params.n_batch * sizeof *c->row_of_batch);
}

static void count_time(kipu_context *c, int32_t n, double start) {
    double now = now_ms(), spent = c->params.no_perf ? 0 : now - start;
    if (c->perf.t_load_ms == 0) c->perf.t_load_ms = now - c->perf.t_start_ms;
    if (n == 1) c->perf.t_eval_ms += spent, c->perf.n_eval++;
    else c->perf.t_p_eval_ms += spent, c->perf.n_p_eval += n;
}

/* Placed, computed, outputs in batch order. From the first ubatch on a failure leaves what docs/decisions/0004 says. */
static kipu_status compute(kipu_context *c, const kipu_batch_plan *plan, kipu_error *err) {
    int32_t *token = kipu_alloc_array(c->params.n_ubatch, sizeof *token);
    KIPU_REQUIRE(token, err, KIPU_E_MEMORY, "no memory for a batch of %d tokens", plan->n);
    int64_t rows = plan->n_outputs > (int64_t)c->params.n_seq_max ? plan->n_outputs : (int64_t)c->params.n_seq_max;
    kipu_status status = kipu_outputs_reserve(&c->outputs, rows, c->n_vocab, err);
    if (status == KIPU_OK) {
        forget_outputs(c);
        atomic_store(&c->stop, 0);
        c->last_signal = now_ms();
        for (int32_t u = 0; u < plan->n_ubatches && status == KIPU_OK; u++) status = run_ubatch(c, plan, u, token, err);
    }
    if (status == KIPU_OK) {
        c->outputs.n_rows = plan->n_outputs;
        memcpy(c->row_of_batch, plan->row_of_batch, plan->n * sizeof *c->row_of_batch);
    }
    kipu_free(token);
    return status;
}

/* Where C would assert. The reference looks at the batch's content first, so its code -1 wins. */
static kipu_status check_size(const kipu_context *c, int32_t n, kipu_error *err) {
    KIPU_REQUIRE(n <= (int64_t)c->params.n_batch, err, KIPU_E_ARG,
                 "batch.n_tokens is %d, expected at most n_batch = %u", n, c->params.n_batch);
    KIPU_REQUIRE(c->params.causal || n <= (int64_t)c->params.n_ubatch, err, KIPU_E_ARG,
                 "batch.n_tokens is %d: non-causal attention needs at most n_ubatch = %u", n, c->params.n_ubatch);
    return KIPU_OK;
}

kipu_status kipu_context_decode(kipu_context *c, const kipu_batch *batch, int32_t *code, kipu_error *err) {
    double start = now_ms();
    kipu_batch_plan plan;
    KIPU_TRY(kipu_batch_check(&plan, batch, c->memory, c->n_vocab, c->params.n_ubatch, code, err));
    if (*code == -2) forget_outputs(c);
    if (*code != 0) return KIPU_OK;
    kipu_status refused = check_size(c, plan.n, err);
    if (refused == KIPU_OK) {
        kipu_status status = kipu_memory_fit(c->memory, plan.ubatches, plan.n_ubatches, err);
        if (status == KIPU_OK) status = compute(c, &plan, err);
        if (status == KIPU_OK) count_time(c, plan.n, start);
        *code = code_of(status);
        if (*code == 2 || *code < -1) forget_outputs(c);       /* also where it failed before the first ubatch */
    }
    kipu_batch_plan_free(&plan);
    return refused;
}

/* ------------------------------------------------------------------------------------------------ outputs */

int32_t kipu_context_n_outputs(const kipu_context *c) { return c->outputs.n_rows; }
float *kipu_context_logits(kipu_context *c) { return c->outputs.n_rows ? kipu_outputs_data(&c->outputs) : NULL; }
void *kipu_context_retain_output(kipu_context *c) { return kipu_outputs_retain(&c->outputs); }

float *kipu_context_logits_ith(kipu_context *c, int32_t i, kipu_error *err) {
    int32_t n = c->outputs.n_rows, row = i < 0 ? n + i : -1;
    if (n == 0) kipu_fail(err, KIPU_E_ARG, "invalid logits id %d, reason: no logits", i);
    else if (i < 0 && row < 0) kipu_fail(err, KIPU_E_ARG, "invalid logits id %d, reason: negative index out of range [0, %d)", i, n);
    else if (i >= (int64_t)c->params.n_batch)
        kipu_fail(err, KIPU_E_ARG, "invalid logits id %d, reason: out of range [0, %u)", i, c->params.n_batch);
    else if (i >= 0 && (row = c->row_of_batch[i]) < 0)
        kipu_fail(err, KIPU_E_ARG, "invalid logits id %d, reason: batch.logits[%d] != true", i, i);
    return row < 0 || n == 0 ? NULL : kipu_outputs_data(&c->outputs) + (size_t)row * c->n_vocab;
}

/* ------------------------------------------------------------------------------------------------ settings */

kipu_memory *kipu_context_memory(kipu_context *c) { return c->memory; }
kipu_model *kipu_context_model(kipu_context *c) { return c->model; }
const kipu_context_params *kipu_context_get_params(const kipu_context *c) { return &c->params; }

void kipu_context_set_threads(kipu_context *c, int32_t n_threads, int32_t n_threads_batch) {
    atomic_store(&c->n_threads, n_threads);
    atomic_store(&c->n_threads_batch, n_threads_batch);
    c->params.n_threads = n_threads;
    c->params.n_threads_batch = n_threads_batch;
}

void kipu_context_set_causal(kipu_context *c, bool causal) { c->params.causal = causal; }

void kipu_context_set_pools(kipu_context *c, kipu_pool *pool, kipu_pool *pool_batch) {
    c->pool = pool;
    c->pool_batch = pool_batch ? pool_batch : pool;
}

void kipu_context_set_abort(kipu_context *c, bool (*callback)(void *arg), void *arg) {
    c->abort = callback;
    c->abort_arg = arg;
}

void kipu_context_set_signal(kipu_context *c, bool (*check)(void *arg), void *arg) {
    c->signal = check;
    c->signal_arg = arg;
}

int32_t kipu_context_workers(const kipu_context *c) { return c->workers; }

kipu_perf kipu_context_perf(const kipu_context *c) {
    kipu_perf perf = c->perf;
    if (perf.n_eval < 1) perf.n_eval = 1;
    if (perf.n_p_eval < 1) perf.n_p_eval = 1;
    return perf;
}

void kipu_context_perf_reset(kipu_context *c) {
    c->perf.t_start_ms = now_ms();
    c->perf.t_eval_ms = c->perf.t_p_eval_ms = 0;
    c->perf.n_eval = c->perf.n_p_eval = 0;
}
