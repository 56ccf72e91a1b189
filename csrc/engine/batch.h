/* A user's batch, checked and completed: positions, sequence sets, output flags, the order of computation, cut into ubatches.
 * Rules: docs/decisions/0004-batches.md. Everything is checked before anything changes. */
#ifndef KIPU_ENGINE_BATCH_H
#define KIPU_ENGINE_BATCH_H

#include "engine/context.h"

typedef struct kipu_batch_plan {
    int32_t n, n_outputs;
    const int32_t *token;       /* of the user, batch order; NULL for embeddings */
    const float *embd;
    int32_t *order;             /* (n) batch index of the i-th computed token */
    int32_t *pos;               /* (n) in computing order, as the next three */
    uint64_t *seqs;
    int32_t *seq;               /* first id */
    int32_t *row;               /* output row, -1 none */
    int32_t n_ubatches;
    kipu_memory_ubatch *ubatches;
    int32_t *row_of_batch;      /* (n) output row by batch index, -1 none */
    void *block;                /* all of the above */
} kipu_batch_plan;

/* KIPU_E_ARG where C would assert (raised by the faces); KIPU_OK and *code -1 or -2 where the C function returns them. The reason is in
 * err both times. */
kipu_status kipu_batch_check(kipu_batch_plan *plan, const kipu_batch *batch, const kipu_memory *memory, int32_t n_vocab, uint32_t n_ubatch,
                             int32_t *code, kipu_error *err);
void kipu_batch_plan_free(kipu_batch_plan *plan);

#endif
