/* Panel layout P16 (kernels.h) as data: which bytes of a block lie where in a panel block. Any thread. */
#ifndef KIPU_KERNELS_REF_PANEL_REF_H
#define KIPU_KERNELS_REF_PANEL_REF_H

#include <stddef.h>
#include <stdint.h>

/* `count` fields of `width` bytes (1, 2 or 4), one behind the other from byte `offset` of the block. In a panel block each field becomes
 * 16 fields side by side, one per row. */
typedef struct kipu_plane {
    uint8_t offset, width, count;
} kipu_plane;

/* The planes in panel order; a plane of count 0 ends the list. `block`, `bytes`: as kipu_format. */
typedef struct kipu_panel_layout {
    uint16_t block, bytes;
    kipu_plane planes[5];
} kipu_panel_layout;

/* n_rows (1..16) rows of k elements in file order, one behind the other -> one panel; absent rows become zero bytes. */
void kipu_panel_pack(const kipu_panel_layout *layout, void *panel, const void *rows, int n_rows, int64_t k);

/* Row `lane` of a panel -> file order. */
void kipu_panel_unpack(const kipu_panel_layout *layout, void *row, const void *panel, int lane, int64_t k);

/* Row `lane` of one panel block (16 * bytes long) -> one block in file order. */
void kipu_panel_unpack_block(const kipu_panel_layout *layout, void *block, const void *panel_block, int lane);

#endif
