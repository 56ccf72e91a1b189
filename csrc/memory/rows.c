/* Cells and rows in the order and layout of the reference, for files and tests. */
#include <string.h>
#include "memory/memory_struct.h"

int32_t kipu_memory_cell_list(const kipu_memory *m, bool window, int32_t seq, int32_t *out, int32_t capacity) {
    const kipu_cells *cells = &kipu_memory_cache(m, window)->cells;
    if (seq < -1 || seq >= KIPU_MAX_SEQ) return 0;
    uint64_t wanted = seq < 0 ? UINT64_MAX : UINT64_C(1) << seq;
    int32_t n = 0;
    for (int32_t number = 0, seen = 0; number < cells->size && seen < cells->used; number++) {
        int32_t cell = cells->by_number[number];
        if (cell < 0) continue;
        seen++;
        if (!(cells->seqs[cell] & wanted)) continue;
        if (n < capacity) out[n] = cell;
        n++;
    }
    return n;
}

void kipu_memory_cell(const kipu_memory *m, bool window, int32_t cell, int32_t *pos, uint64_t *seqs, int32_t *number) {
    const kipu_cells *cells = &kipu_memory_cache(m, window)->cells;
    bool filled = cell >= 0 && cell < cells->size && cells->seqs[cell];
    *pos = filled ? cells->pos[cell] : -1;
    *seqs = filled ? cells->seqs[cell] : 0;
    *number = filled ? cells->number[cell] : -1;
}

/* A K row is one lane of its block: [d][16], so its elements are 16 apart. */
static char *k_lane(const kipu_kv_layer *l, int32_t cell) {
    return kipu_kv_k_block(l, cell / KIPU_BLOCK_CELLS) + (size_t)(cell % KIPU_BLOCK_CELLS) * kipu_kv_element(l->type_k);
}

static void gather_lane(char *row, const char *lane, int32_t n, size_t element) {
    for (int32_t i = 0; i < n; i++) memcpy(row + (size_t)i * element, lane + (size_t)i * KIPU_BLOCK_CELLS * element, element);
}

static void scatter_lane(char *lane, const char *row, int32_t n, size_t element) {
    for (int32_t i = 0; i < n; i++) memcpy(lane + (size_t)i * KIPU_BLOCK_CELLS * element, row + (size_t)i * element, element);
}

/* NULL slab: the cell was never filled. */
static bool has_rows(const kipu_memory *m, int32_t il, int32_t cell) {
    return cell >= 0 && cell < kipu_memory_cache(m, m->in_window[il])->cells.size && m->layers[il].slab[cell / KIPU_SLAB_CELLS];
}

void kipu_memory_read_row(const kipu_memory *m, int32_t il, bool v, int32_t cell, void *row) {
    const kipu_kv_layer *l = &m->layers[il];
    size_t bytes = v ? (size_t)l->n_embd_v * kipu_kv_element(l->type_v) : (size_t)l->n_embd_k * kipu_kv_element(l->type_k);
    if (!has_rows(m, il, cell)) memset(row, 0, bytes);
    else if (v) memcpy(row, kipu_kv_v_row(l, cell), bytes);
    else gather_lane(row, k_lane(l, cell), l->n_embd_k, kipu_kv_element(l->type_k));
}

void kipu_memory_write_row(kipu_memory *m, int32_t il, bool v, int32_t cell, const void *row) {
    const kipu_kv_layer *l = &m->layers[il];
    if (!has_rows(m, il, cell)) return;
    if (v) memcpy(kipu_kv_v_row(l, cell), row, (size_t)l->n_embd_v * kipu_kv_element(l->type_v));
    else scatter_lane(k_lane(l, cell), row, l->n_embd_k, kipu_kv_element(l->type_k));
}
