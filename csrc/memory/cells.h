/* The cells of one KV cache: who is where. Plain arrays, no data rows, no knowledge of sequences' order.
 *
 *     cell c      position, set of sequence ids (0: empty), number, order of writing
 *     block c/16  sixteen cells, taken as a whole for the positions 16 * group .. 16 * group + 15
 *
 * The number of a filled cell is the lowest one that was free when it was filled: files and masks list cells by it. (A pending shift
 * per cell would be one more array here.) The caller holds the context's lock. */
#ifndef KIPU_MEMORY_CELLS_H
#define KIPU_MEMORY_CELLS_H

#include "memory/bitset.h"
#include "ops/kv_view.h"

typedef struct kipu_cells {
    int32_t size, used;            /* cells in all, a multiple of 16; filled ones */
    int32_t *pos;                  /* (size) of a filled cell, >= 0 */
    uint64_t *seqs;                /* (size) set of sequence ids, 0: empty */
    int32_t *number;               /* (size) of a filled cell */
    uint64_t *written;             /* (size) of a filled cell: `writes` when it was filled */
    int32_t *by_number;            /* (size) cell that carries a number, -1: free */
    int32_t *group;                /* (size / 16) of a block that is not empty */
    uint64_t writes;
    kipu_bitset empty, empty_blocks, free_numbers;
} kipu_cells;

/* `cells` is zeroed. False if there is no memory; kipu_cells_free is right in either case. */
bool kipu_cells_new(kipu_cells *cells, int32_t size);
void kipu_cells_free(kipu_cells *cells);
void kipu_cells_clear(kipu_cells *cells);

/* Fills an empty cell. number -1: the lowest free one; else one that is free. */
void kipu_cells_fill(kipu_cells *cells, int32_t cell, int32_t pos, uint64_t seqs, int32_t number);
/* Takes sequence ids out of a cell; without ids it becomes empty. */
void kipu_cells_drop(kipu_cells *cells, int32_t cell, uint64_t seqs);

static inline bool kipu_cells_block_empty(const kipu_cells *cells, int32_t block) {
    return (cells->empty.level[0][block / 4] >> (block % 4 * KIPU_BLOCK_CELLS) & 0xffff) == 0xffff;
}

#endif
