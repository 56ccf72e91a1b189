/* Where the data of a cache lies: slabs of 256 cells for all layers of the cache, drawn in ops/kv_view.h, allocated at first use.
 *
 * Slab s holds cells 256 * s .. 256 * s + 255. An address is always slab pointer + offset of the layer, never base + stride, so
 * slabs come and go while the context lives. The caller holds the context's lock. */
#ifndef KIPU_MEMORY_SLABS_H
#define KIPU_MEMORY_SLABS_H

#include <stdbool.h>
#include <stddef.h>
#include "memory/cells.h"

typedef struct kipu_slabs {
    char **table;          /* (count) NULL where nothing is stored */
    int32_t count, held;   /* slabs the cells need in all; allocated now */
    size_t bytes;          /* of one slab */
} kipu_slabs;

/* The table for n_cells; `slabs` is zeroed. False if there is no memory. kipu_slabs_free is right in either case. */
bool kipu_slabs_new(kipu_slabs *slabs, int32_t n_cells);
void kipu_slabs_free(kipu_slabs *slabs);

/* Adds a layer's K blocks and V rows to the slabs (before the first one is allocated) and sets its addresses. False: too large. */
bool kipu_slabs_add_layer(kipu_slabs *slabs, kipu_kv_layer *layer);

/* The slab of a cell exists afterwards; a new one is zero-filled. False if there is no memory. */
bool kipu_slabs_ensure(kipu_slabs *slabs, int32_t cell);
/* Gives slabs without filled cells back, all but `spare` of them. */
void kipu_slabs_trim(kipu_slabs *slabs, const kipu_cells *cells, int32_t spare);

#endif
