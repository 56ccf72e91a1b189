/* Walks a plan over one ubatch on all workers. Owns the arena, the tables of the batch and each worker's scratch. */
#ifndef KIPU_ENGINE_EXECUTOR_H
#define KIPU_ENGINE_EXECUTOR_H

#include <stdatomic.h>
#include "base/pool.h"
#include "engine/plan.h"
#include "memory/memory.h"
#include "ops/rope.h"

/* One ubatch, already placed in the memory. Arrays belong to the caller. */
typedef struct kipu_pass {
    int32_t n;
    const int32_t *token;       /* (n), or NULL with embd */
    const float *embd;          /* (n, n_embd) */
    const int32_t *embd_row;    /* (n) row of embd for each token */
    const int32_t *pos;         /* (n) */
    const int32_t *seq;         /* (n) first sequence id */
    uint64_t seqs;              /* all first ids */
    int32_t n_out;
    const int32_t *out_token;   /* (n_out) index in the ubatch, ascending */
    const int32_t *out_row;     /* (n_out) row of `out` */
    float *out;                 /* result rows, width of the result */
    kipu_memory *memory;
    bool causal;
    uint32_t n_swa;
} kipu_pass;

typedef struct kipu_executor kipu_executor;

typedef struct kipu_executor_params {
    int32_t max_tokens;                 /* n_ubatch */
    int64_t max_positions;              /* n_ctx */
    const kipu_rope_params *ropes;      /* one per rope set of the program */
} kipu_executor_params;

/* Allocates for the worst case. The plan must outlive it. */
kipu_status kipu_executor_new(kipu_executor **out, const kipu_model *model, const kipu_plan *plan, const kipu_executor_params *params,
                              kipu_error *err);
void kipu_executor_free(kipu_executor *e);

/* Scratch for this many workers, before a run (KIPU_E_MEMORY). */
kipu_status kipu_executor_reserve(kipu_executor *e, int32_t n_workers, kipu_error *err);

/* Runs the pass. *stop becomes non-zero when the caller wants out (results are then undefined); poll as in ops/worker.h. */
kipu_status kipu_executor_run(kipu_executor *e, kipu_pool *pool, int32_t n_workers, const kipu_pass *pass, atomic_int *stop,
                              void (*poll)(void *), void *poll_arg, int32_t *workers_used, kipu_error *err);

/* Arena and tables, bytes. */
size_t kipu_executor_bytes(const kipu_executor *e);

#endif
