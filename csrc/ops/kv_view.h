/* What attention sees of a KV cache: addresses of one layer, and per sequence the ordered list of where its positions lie.
 * Filled by csrc/memory, read by csrc/ops/attention.c. Valid until the next operation on the memory. */
#ifndef KIPU_OPS_KV_VIEW_H
#define KIPU_OPS_KV_VIEW_H

#include <stddef.h>
#include <stdint.h>

enum { KIPU_BLOCK_CELLS = 16, KIPU_SLAB_CELLS = 256, KIPU_SLAB_BLOCKS = 16 };

/* One layer of one cache. A slab holds 256 cells of all layers of its cache:
 *     slab | layer 0: K block 0 [n_embd_k][16] ... K block 15 | V cell 0 [n_embd_v] ... V cell 255 | layer 1: ... |
 * kv head h of K starts at element h * d_k * 16 of a K block, of V at element h * d_v of a row. */
typedef struct kipu_kv_layer {
    char *const *slab;          /* by slab number; NULL where nothing was stored yet */
    size_t k_offset, v_offset;  /* bytes from the slab's start to this layer's K block 0 and V row 0 */
    int32_t n_embd_k, n_embd_v; /* elements of a row, all kv heads */
    int32_t type_k, type_v;     /* KIPU_F16 or KIPU_F32 */
} kipu_kv_layer;

static inline size_t kipu_kv_element(int type) { return type == 0 ? 4 : 2; }

static inline char *kipu_kv_k_block(const kipu_kv_layer *l, int32_t block) {
    return l->slab[block / KIPU_SLAB_BLOCKS] + l->k_offset
         + (size_t)(block % KIPU_SLAB_BLOCKS) * l->n_embd_k * KIPU_BLOCK_CELLS * kipu_kv_element(l->type_k);
}
static inline char *kipu_kv_v_row(const kipu_kv_layer *l, int32_t cell) {
    return l->slab[cell / KIPU_SLAB_CELLS] + l->v_offset + (size_t)(cell % KIPU_SLAB_CELLS) * l->n_embd_v * kipu_kv_element(l->type_v);
}

/* Sixteen consecutive positions of one sequence, one round (the k-th cells of repeated positions form round k). */
typedef struct kipu_kv_span {
    int32_t pos;       /* first position, a multiple of 16 */
    int32_t round;     /* 0 where no position is held twice */
    int32_t block;     /* lane i is cell 16 * block + i; or -1: lane i is cells[i] */
    uint16_t lanes;    /* bit i: position pos + i is present */
    int32_t cells[16]; /* cell numbers, -1 where absent (filled for block >= 0 too) */
} kipu_kv_span;

/* Ordered by (pos / 64, round, pos). */
typedef struct kipu_kv_spans {
    const kipu_kv_span *span;
    int32_t count;
} kipu_kv_spans;

#endif
