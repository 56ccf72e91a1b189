/* Attention of one ubatch over one cache layer. Rules of order: docs/decisions and kernels.h; in short: per query row, chunks of 64
 * absolute positions ascending (rounds after one another inside a chunk), joined into pieces of 512 positions (each from a fresh
 * state), pieces merged in ascending order; so a row's bits depend only on its own sequence's positions. */
#ifndef KIPU_OPS_ATTENTION_H
#define KIPU_OPS_ATTENTION_H

#include <stdbool.h>
#include "ops/kv_view.h"
#include "ops/worker.h"

typedef struct kipu_attention {
    int32_t n_tokens, n_head, n_head_kv;
    kipu_attn_head head;          /* d_k, d_v, types, scale, softcap */
    const float *q;               /* (n_tokens, n_head, d_k), after RoPE */
    float *out;                   /* (n_tokens, n_head, d_v) */
    const int32_t *pos;           /* (n_tokens) */
    const int32_t *seq;           /* (n_tokens) first sequence id of each token, 0..63 */
    const kipu_kv_layer *layer;
    const kipu_kv_spans *spans;   /* [64] by sequence id; the ubatch's own cells are in */
    int32_t n_swa;                /* window: visible iff p1 - p0 < n_swa; 0: none */
    bool causal;                  /* false: later positions are visible too (window applies to p1 - p0 only) */
} kipu_attention;

/* Bytes of worker scratch (kipu_op_worker.scratch_size) that kipu_attention_run needs for up to max_tokens tokens; the kernel's
 * KIPU_ATTN_SCRATCH is in. */
size_t kipu_attention_scratch(int32_t max_tokens, const kipu_attn_head *head);

/* Bytes of shared memory kipu_attention_run needs for the partial results of split caches, worst case for these sizes.
 * n_positions: largest possible number of cells of one sequence (repeated positions count once per cell). */
size_t kipu_attention_partials(int32_t max_tokens, int32_t n_head, int32_t d_v, int64_t n_positions);

/* Called by all workers. Contains its own barriers where pieces are merged (all workers take the same path).
 * `partials`: shared, kipu_attention_partials bytes, 64-byte aligned. jobs: two zeroed counters. */
void kipu_attention_run(kipu_op_worker *ow, const kipu_attention *a, void *partials, kipu_jobs jobs[2]);

/* K and V of tokens [t0, t1) into their cells: k (n_tokens, n_embd_k), v (n_tokens, n_embd_v) floats, rounded to the layer's types. */
void kipu_kv_store(const kipu_kernels *kernels, const kipu_kv_layer *layer, const int32_t *cells, const float *k, const float *v, int t0,
                   int t1);

#endif
