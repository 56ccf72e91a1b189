#include "memory/cells.h"

#include <string.h>
#include "base/memory_alloc.h"

bool kipu_cells_new(kipu_cells *cells, int32_t size) {
    size_t n = (size_t)size, blocks = n / KIPU_BLOCK_CELLS;
    cells->size = size;
    cells->pos = kipu_alloc_array(n, sizeof *cells->pos);
    cells->seqs = kipu_alloc_array(n, sizeof *cells->seqs);
    cells->number = kipu_alloc_array(n, sizeof *cells->number);
    cells->written = kipu_alloc_array(n, sizeof *cells->written);
    cells->by_number = kipu_alloc_array(n, sizeof *cells->by_number);
    cells->group = kipu_alloc_array(blocks, sizeof *cells->group);
    if (!cells->pos || !cells->seqs || !cells->number || !cells->written || !cells->by_number || !cells->group) return false;
    if (!kipu_bitset_new(&cells->empty, size)) return false;
    if (!kipu_bitset_new(&cells->empty_blocks, (int32_t)blocks)) return false;
    if (!kipu_bitset_new(&cells->free_numbers, size)) return false;
    memset(cells->by_number, 0xff, n * sizeof *cells->by_number);
    return true;
}

void kipu_cells_free(kipu_cells *cells) {
    kipu_free(cells->pos);
    kipu_free(cells->seqs);
    kipu_free(cells->number);
    kipu_free(cells->written);
    kipu_free(cells->by_number);
    kipu_free(cells->group);
    kipu_bitset_free(&cells->empty);
    kipu_bitset_free(&cells->empty_blocks);
    kipu_bitset_free(&cells->free_numbers);
    memset(cells, 0, sizeof *cells);
}

void kipu_cells_clear(kipu_cells *cells) {
    cells->used = 0;
    cells->writes = 0;
    memset(cells->seqs, 0, (size_t)cells->size * sizeof *cells->seqs);
    memset(cells->by_number, 0xff, (size_t)cells->size * sizeof *cells->by_number);
    kipu_bitset_fill(&cells->empty);
    kipu_bitset_fill(&cells->empty_blocks);
    kipu_bitset_fill(&cells->free_numbers);
}

void kipu_cells_fill(kipu_cells *cells, int32_t cell, int32_t pos, uint64_t seqs, int32_t number) {
    if (number < 0) number = kipu_bitset_first(&cells->free_numbers);
    kipu_bitset_remove(&cells->free_numbers, number);
    kipu_bitset_remove(&cells->empty, cell);
    kipu_bitset_remove(&cells->empty_blocks, cell / KIPU_BLOCK_CELLS);
    cells->pos[cell] = pos;
    cells->seqs[cell] = seqs;
    cells->number[cell] = number;
    cells->written[cell] = ++cells->writes;
    cells->by_number[number] = cell;
    /* A cell in its own lane says what its block is for; one that is only put up does not. */
    if (cell % KIPU_BLOCK_CELLS == pos % KIPU_BLOCK_CELLS) cells->group[cell / KIPU_BLOCK_CELLS] = pos / KIPU_BLOCK_CELLS;
    cells->used++;
}

static void make_empty(kipu_cells *cells, int32_t cell) {
    int32_t number = cells->number[cell], block = cell / KIPU_BLOCK_CELLS;
    cells->by_number[number] = -1;
    kipu_bitset_add(&cells->free_numbers, number);
    kipu_bitset_add(&cells->empty, cell);
    if (kipu_cells_block_empty(cells, block)) kipu_bitset_add(&cells->empty_blocks, block);
    cells->used--;
}

void kipu_cells_drop(kipu_cells *cells, int32_t cell, uint64_t seqs) {
    if (!cells->seqs[cell]) return;
    cells->seqs[cell] &= ~seqs;
    if (!cells->seqs[cell]) make_empty(cells, cell);
}
