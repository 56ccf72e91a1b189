/* A context: parameters, memory, pool, outputs; batch -> ubatches -> program -> outputs.
 *
 * Thread rule: decode and everything that changes or reads memory or outputs takes the context's lock (kipu_context_lock), except the
 * functions marked "no lock". Made and freed by one owner. */
#ifndef KIPU_ENGINE_CONTEXT_H
#define KIPU_ENGINE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/pool.h"
#include "engine/model.h"
#include "memory/memory.h"

typedef struct kipu_context kipu_context;

/* Resolved values (Python resolves defaults and writes the log lines: src/kipu/_params.py). */
typedef struct kipu_context_params {
    uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
    int32_t n_threads, n_threads_batch;
    float rope_freq_base, rope_freq_scale;              /* of rope sets that are not fixed; 0: the set's own */
    float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    uint32_t yarn_orig_ctx;
    int32_t type_k, type_v;
    bool causal, flash_attn, swa_full, no_perf, fused;  /* fused false: the plain program */
    uint32_t n_swa, n_cells_window;                     /* 0: unified */
} kipu_context_params;

/* The C layout of llama_batch. Pointers may be NULL as in llama.h. */
typedef struct kipu_batch {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
} kipu_batch;

kipu_status kipu_context_new(kipu_context **out, kipu_model *model, const kipu_context_params *params, kipu_error *err);
void kipu_context_free(kipu_context *c);

void kipu_context_lock(kipu_context *c);
void kipu_context_unlock(kipu_context *c);

/* llama_decode. *code: 0, 1, 2, -1, -2, -3 (err has the reason unless 0). Status KIPU_E_ARG or KIPU_E_STATE where C would assert: raised by
 * the faces, nothing changed. Positions that are NULL continue each token's sequences. */
kipu_status kipu_context_decode(kipu_context *c, const kipu_batch *batch, int32_t *code, kipu_error *err);

/* Outputs of the last decode. Row of batch index i (i < 0: from the end), NULL with a reason in err. */
int32_t kipu_context_n_outputs(const kipu_context *c);
float *kipu_context_logits(kipu_context *c);                                   /* (n_outputs, n_vocab); NULL if n_outputs is 0 */
float *kipu_context_logits_ith(kipu_context *c, int32_t i, kipu_error *err);
/* The face's array keeps the buffer: take a reference, give it back. A referenced buffer is never written again. */
void *kipu_context_retain_output(kipu_context *c);
void kipu_output_release(void *buffer);

kipu_memory *kipu_context_memory(kipu_context *c);
kipu_model *kipu_context_model(kipu_context *c);
const kipu_context_params *kipu_context_get_params(const kipu_context *c);

void kipu_context_set_threads(kipu_context *c, int32_t n_threads, int32_t n_threads_batch);   /* no lock; next ubatch */
void kipu_context_set_causal(kipu_context *c, bool causal);
void kipu_context_set_pools(kipu_context *c, kipu_pool *pool, kipu_pool *pool_batch);         /* NULL: own pool */
/* Polled on the thread that called decode, per layer and at least every 10 ms inside. true stops (code 2). no lock. */
void kipu_context_set_abort(kipu_context *c, bool (*callback)(void *arg), void *arg);
/* Asked every 10 ms or so on the thread that called decode (signals). true stops (code 2). no lock. */
void kipu_context_set_signal(kipu_context *c, bool (*check)(void *arg), void *arg);
/* Workers the last decode used. */
int32_t kipu_context_workers(const kipu_context *c);

typedef struct kipu_perf { double t_start_ms, t_load_ms, t_p_eval_ms, t_eval_ms; int32_t n_p_eval, n_eval; } kipu_perf;
kipu_perf kipu_context_perf(const kipu_context *c);
void kipu_context_perf_reset(kipu_context *c);

/* What the engine will do, as text; one line per step. Caller frees with kipu_free. */
kipu_status kipu_context_explain(kipu_context *c, char **text, kipu_error *err);
kipu_status kipu_model_explain(kipu_model *m, char **text, kipu_error *err);

#endif
