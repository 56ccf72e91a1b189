/* The walk over one sequence's cells, chunk by chunk. Internal to attention*.c. */
#ifndef KIPU_OPS_ATTENTION_WALK_H
#define KIPU_OPS_ATTENTION_WALK_H

#include <stdbool.h>
#include "kernels/kernels.h"
#include "ops/kv_view.h"

typedef struct kipu_attn_walk {
    const kipu_kv_layer *layer;
    const kipu_attn_head *head;
    int32_t kv_head;
    const kipu_kv_span *next, *end;
    char *gather;             /* kipu_attn_gather_bytes(head) for cells that do not lie in their block's lanes */
    /* the current chunk */
    kipu_attn_chunk chunk;
    int32_t pos;              /* of lane 0 */
} kipu_attn_walk;

size_t kipu_attn_gather_bytes(const kipu_attn_head *head);

/* Spans [begin, end) of `spans`. */
kipu_attn_walk kipu_attn_walk_start(const kipu_kv_layer *layer, const kipu_attn_head *head, int32_t kv_head, const kipu_kv_spans *spans,
                                    int32_t begin, int32_t end, char *gather);

/* Steps to the next chunk (one round of 64 positions); false at the end. chunk is valid until the next step. */
bool kipu_attn_walk_next(kipu_attn_walk *w);

#endif
