/* The padded KQ mask: the specification of which cells a token sees. SIMD attention works from position bounds instead. */
#include <math.h>
#include "memory/memory_struct.h"

enum { ROW_PAD = 64 };

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* min(size, max(pad, highest used number + 1 rounded up)) */
static int32_t columns(const kipu_cells *cells, int32_t pad) {
    int32_t highest = cells->size - 1;
    while (highest >= 0 && cells->by_number[highest] < 0) highest--;
    int64_t n = round_up((int64_t)highest + 1, pad);
    if (n < pad) n = pad;
    return n < cells->size ? (int32_t)n : cells->size;
}

/* n_swa 0: no window. Only the first sequence of the token is looked at. */
static bool visible(const kipu_cells *cells, int32_t cell, int32_t pos, int seq, bool causal, int32_t n_swa) {
    if (cell < 0 || !(cells->seqs[cell] >> seq & 1)) return false;
    if (causal && cells->pos[cell] > pos) return false;
    return n_swa == 0 || (int64_t)pos - cells->pos[cell] < n_swa;
}

kipu_status kipu_memory_mask(const kipu_memory *m, bool window, const kipu_memory_ubatch *ubatch, bool causal, int32_t pad, float *mask,
                             int32_t *n_kv, int32_t *n_rows, kipu_error *err) {
    const kipu_cells *cells = &kipu_memory_cache(m, window)->cells;
    KIPU_REQUIRE(pad > 0, err, KIPU_E_ARG, "pad must be > 0, got %d", pad);
    KIPU_REQUIRE(ubatch->n >= 0 && ubatch->n <= INT32_MAX - ROW_PAD, err, KIPU_E_ARG, "the ubatch has %d tokens", ubatch->n);
    int32_t n_swa = window && m->pair ? m->n_swa : 0, width = columns(cells, pad), rows = (int32_t)round_up(ubatch->n, ROW_PAD);
    *n_kv = width;
    *n_rows = rows;
    if (!mask) return KIPU_OK;
    for (int32_t i = 0; i < rows; i++) {
        int seq = i < ubatch->n ? __builtin_ctzll(ubatch->seqs[i]) : -1;
        for (int32_t number = 0; number < width; number++) {
            bool sees = seq >= 0 && visible(cells, cells->by_number[number], ubatch->pos[i], seq, causal, n_swa);
            mask[(size_t)i * width + number] = sees ? 0.0f : -INFINITY;
        }
    }
    return KIPU_OK;
}
