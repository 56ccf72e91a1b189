#include "memory/slabs.h"

#include <string.h>
#include "base/memory_alloc.h"

static const size_t huge_page = 2u << 20;

bool kipu_slabs_new(kipu_slabs *slabs, int32_t n_cells) {
    slabs->count = n_cells / KIPU_SLAB_CELLS + (n_cells % KIPU_SLAB_CELLS != 0);
    slabs->table = kipu_alloc_array((size_t)slabs->count, sizeof *slabs->table);
    return slabs->table != NULL;
}

static void give_back(kipu_slabs *slabs, int32_t s) {
    if (slabs->bytes >= huge_page) kipu_huge_free(slabs->table[s], slabs->bytes);
    else kipu_free(slabs->table[s]);
    slabs->table[s] = NULL;
    slabs->held--;
}

void kipu_slabs_free(kipu_slabs *slabs) {
    for (int32_t s = 0; slabs->table && s < slabs->count; s++)
        if (slabs->table[s]) give_back(slabs, s);
    kipu_free(slabs->table);
    memset(slabs, 0, sizeof *slabs);
}

/* Bytes of 256 rows, as a multiple of the cache line. The widths are below 2^31 and elements have 4 bytes at most: no overflow. */
static size_t rows_bytes(int32_t n_embd, int32_t type) {
    size_t bytes = (size_t)n_embd * KIPU_SLAB_CELLS * kipu_kv_element(type);
    return (bytes + KIPU_CACHE_LINE - 1) / KIPU_CACHE_LINE * KIPU_CACHE_LINE;
}

bool kipu_slabs_add_layer(kipu_slabs *slabs, kipu_kv_layer *layer) {
    size_t k = rows_bytes(layer->n_embd_k, layer->type_k), v = rows_bytes(layer->n_embd_v, layer->type_v);
    if (k + v > SIZE_MAX / 2 - slabs->bytes) return false;
    layer->slab = slabs->table;
    layer->k_offset = slabs->bytes;
    layer->v_offset = layer->k_offset + k;
    slabs->bytes += k + v;
    return true;
}

bool kipu_slabs_ensure(kipu_slabs *slabs, int32_t cell) {
    char **slab = &slabs->table[cell / KIPU_SLAB_CELLS];
    if (*slab) return true;
    size_t bytes = slabs->bytes ? slabs->bytes : KIPU_CACHE_LINE;   /* a cache without layers has slabs too */
    *slab = bytes >= huge_page ? kipu_huge_alloc(bytes) : kipu_alloc(bytes);
    if (!*slab) return false;
    slabs->held++;
    return true;
}

/* 256 cells are four words of the set of empty cells; what lies behind the last cell is not in it. */
static bool slab_empty(const kipu_cells *cells, int32_t slab) {
    int32_t first = slab * KIPU_SLAB_BLOCKS, end = first + KIPU_SLAB_BLOCKS, n_blocks = cells->size / KIPU_BLOCK_CELLS;
    for (int32_t block = first; block < end && block < n_blocks; block++)
        if (!kipu_cells_block_empty(cells, block)) return false;
    return true;
}

void kipu_slabs_trim(kipu_slabs *slabs, const kipu_cells *cells, int32_t spare) {
    for (int32_t s = 0; s < slabs->count; s++)
        if (slabs->table[s] && slab_empty(cells, s) && spare-- <= 0) give_back(slabs, s);
}
