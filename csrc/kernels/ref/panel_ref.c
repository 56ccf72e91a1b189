#include "kernels/ref/panel_ref.h"
#include <string.h>
#include "kernels/kernels.h"

/* One field of 16 rows. Called with a constant width, so that each copy is one load and one store. */
static inline void gather(char *out, const char *field, size_t row_bytes, int n_rows, size_t width) {
    for (int r = 0; r < n_rows; r++) memcpy(out + r * width, field + r * row_bytes, width);
    memset(out + n_rows * width, 0, (KIPU_PANEL_ROWS - n_rows) * width);
}

static char *pack_plane(char *out, const char *block, size_t row_bytes, int n_rows, kipu_plane plane) {
    for (int i = 0; i < plane.count; i++) {
        const char *field = block + plane.offset + i * plane.width;
        if (plane.width == 4) gather(out, field, row_bytes, n_rows, 4);
        else if (plane.width == 2) gather(out, field, row_bytes, n_rows, 2);
        else gather(out, field, row_bytes, n_rows, 1);
        out += KIPU_PANEL_ROWS * plane.width;
    }
    return out;
}

void kipu_panel_pack(const kipu_panel_layout *layout, void *panel, const void *rows, int n_rows, int64_t k) {
    int64_t n_blocks = k / layout->block;
    size_t row_bytes = (size_t)n_blocks * layout->bytes;
    char *out = panel;
    for (int64_t b = 0; b < n_blocks; b++) {
        const char *block = (const char *)rows + b * layout->bytes;
        for (const kipu_plane *p = layout->planes; p->count; p++) out = pack_plane(out, block, row_bytes, n_rows, *p);
    }
}

void kipu_panel_unpack_block(const kipu_panel_layout *layout, void *block, const void *panel_block, int lane) {
    const char *in = panel_block;
    for (const kipu_plane *p = layout->planes; p->count; p++) {
        char *field = (char *)block + p->offset;
        for (int i = 0; i < p->count; i++, field += p->width, in += KIPU_PANEL_ROWS * p->width) {
            if (p->width == 4) memcpy(field, in + lane * 4, 4);
            else if (p->width == 2) memcpy(field, in + lane * 2, 2);
            else *field = in[lane];
        }
    }
}

void kipu_panel_unpack(const kipu_panel_layout *layout, void *row, const void *panel, int lane, int64_t k) {
    const char *in = panel;
    char *out = row;
    for (int64_t b = k / layout->block; b > 0; b--, out += layout->bytes, in += KIPU_PANEL_ROWS * layout->bytes)
        kipu_panel_unpack_block(layout, out, in, lane);
}
