/* The memory of a context: a unified KV cache, or the pair base + sliding window. Cells, placement, sequence operations, rows.
 *
 * Semantics: docs/decisions/0003-placement.md. All operations are plain C on
 * plain arrays; the caller holds the context's lock. Sequence ids 0..63 as bits of a uint64_t. Ranges are half open; p0 < 0 means 0,
 * p1 < 0 means infinity.
 */
#ifndef KIPU_MEMORY_MEMORY_H
#define KIPU_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "ops/kv_view.h"

enum { KIPU_MAX_SEQ = 64 };

typedef struct kipu_memory kipu_memory;

typedef struct kipu_memory_layer {
    int32_t n_embd_k, n_embd_v;   /* row widths, all kv heads */
    bool window;                  /* lives in the window cache */
} kipu_memory_layer;

typedef struct kipu_memory_params {
    uint32_t n_cells;             /* base cache, n_ctx as padded; a multiple of 16 */
    uint32_t n_cells_window;      /* window cache, a multiple of 16; 0: one unified cache for all layers */
    uint32_t n_swa;               /* window in positions: visible iff p1 - p0 < n_swa */
    int32_t type_k, type_v;       /* KIPU_F16, KIPU_F32; others: KIPU_E_UNSUPPORTED */
    int32_t n_layer;
    const kipu_memory_layer *layers;
} kipu_memory_params;

/* Some consecutive tokens that are computed together. Arrays belong to the caller. */
typedef struct kipu_memory_ubatch {
    int32_t n;
    const int32_t *pos;           /* (n) >= 0; ascending per sequence */
    const uint64_t *seqs;         /* (n) sets of sequence ids, never empty */
} kipu_memory_ubatch;

kipu_status kipu_memory_new(kipu_memory **out, const kipu_memory_params *params, kipu_error *err);
void kipu_memory_free(kipu_memory *m);

/* Empties all cells and gives the slabs back (data: also promises that stale values are gone, which giving back slabs does anyway). */
void kipu_memory_clear(kipu_memory *m, bool data);

/* seq -1 = every sequence. Other ids outside 0..63: KIPU_E_ARG. *removed: see A3.3 (true), and for a window cache false with nothing
 * changed where a suffix removal [p, inf) would leave a window with evicted positions is a later issue: today as the reference. */
kipu_status kipu_memory_seq_rm(kipu_memory *m, int32_t seq, int32_t p0, int32_t p1, bool *removed, kipu_error *err);
kipu_status kipu_memory_seq_cp(kipu_memory *m, int32_t src, int32_t dst, int32_t p0, int32_t p1, kipu_error *err);
kipu_status kipu_memory_seq_keep(kipu_memory *m, int32_t seq, kipu_error *err);
/* Smallest and largest position of a sequence, -1 if it has none or seq is out of range. With a window cache: that cache's answer. */
int32_t kipu_memory_pos_min(const kipu_memory *m, int32_t seq);
int32_t kipu_memory_pos_max(const kipu_memory *m, int32_t seq);
/* The reference's formula: sum over s < n_seq_max of pos_max - pos_min + 1 (both functions of the API return it). */
int64_t kipu_memory_n_tokens(const kipu_memory *m, int32_t n_seq_max);
/* Cells of the base cache that hold something; cells in all. */
uint32_t kipu_memory_used_cells(const kipu_memory *m);
uint32_t kipu_memory_size(const kipu_memory *m);
bool kipu_memory_can_shift(const kipu_memory *m);

/* Would these ubatches, one after the other, find room? KIPU_OK or KIPU_E_FULL; changes nothing. */
kipu_status kipu_memory_fit(kipu_memory *m, const kipu_memory_ubatch *ubatches, int32_t count, kipu_error *err);
/* Gives every token of one ubatch a cell in each cache and allocates slabs. On failure (KIPU_E_FULL, KIPU_E_MEMORY) nothing changed,
 * except that there is no placed ubatch any more. */
kipu_status kipu_memory_place(kipu_memory *m, const kipu_memory_ubatch *ubatch, kipu_error *err);
/* Takes the last placed ubatch back (once, and not after another operation): its cells are empty again; window cells it had reused
 * stay empty. */
void kipu_memory_undo(kipu_memory *m);

/* After place: the cell of each token of the placed ubatch in the cache that holds layer il. (n) */
const int32_t *kipu_memory_cells(const kipu_memory *m, int32_t il);
const kipu_kv_layer *kipu_memory_layer_view(const kipu_memory *m, int32_t il);
/* [64] by sequence id, up to date with the cells; only sequences in `seqs` need to be right. Kept until the next operation. */
kipu_status kipu_memory_spans(kipu_memory *m, int32_t il, uint64_t seqs, const kipu_kv_spans **spans, kipu_error *err);

/* The padded KQ mask of the placed ubatch as the reference builds it: (round_up(n, 64), n_kv) floats, 0 or -inf, cells in the order
 * of their numbers (docs/decisions/0003). n_kv = min(size, max(pad, round_up(highest used number + 1, pad))), pad 32 or 256.
 * With mask NULL only *n_kv and *n_rows are set. `window`: which cache. */
kipu_status kipu_memory_mask(const kipu_memory *m, bool window, const kipu_memory_ubatch *ubatch, bool causal, int32_t pad, float *mask,
                             int32_t *n_kv, int32_t *n_rows, kipu_error *err);

/* Rows in the reference's order and layout, for files and tests. Cells are listed ascending by number. seq -1: all. */
int32_t kipu_memory_cell_list(const kipu_memory *m, bool window, int32_t seq, int32_t *cells, int32_t capacity);
void kipu_memory_cell(const kipu_memory *m, bool window, int32_t cell, int32_t *pos, uint64_t *seqs, int32_t *number);
/* One K row (n_embd_k elements) or V row of a cell out of / into the cache, in the cache's type. */
void kipu_memory_read_row(const kipu_memory *m, int32_t il, bool v, int32_t cell, void *row);
void kipu_memory_write_row(kipu_memory *m, int32_t il, bool v, int32_t cell, const void *row);
/* Bytes of slabs in use now, all caches. */
size_t kipu_memory_bytes(const kipu_memory *m);

#endif
