/* The one inner loop of attention: y[r][c] += sum over steps i of a[r][i] * b[i][c], rows r of scalars times columns c of 16 lanes.
 *
 *     q . K     steps = elements of d_k      a = query rows       b = 16 cells each, K is [d_k][16]
 *     p . V     steps = lanes, ascending     a = weights of rows  b = 16 elements of V each
 */
#ifndef KIPU_KERNELS_AVX2_ATTENTION_TILE_AVX2_H
#define KIPU_KERNELS_AVX2_ATTENTION_TILE_AVX2_H

#include <stdbool.h>
#include <stddef.h>

enum { KIPU_TILE_ROWS = 6, KIPU_TILE_COLUMNS = 4 };

/* Columns of a tile: at most 6 rows x 1 column or so, since each pair takes two accumulators of the 16 registers. */
static inline int kipu_tile_columns(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

typedef struct kipu_attn_tile {
    const float *a[KIPU_TILE_ROWS];
    float *y[KIPU_TILE_ROWS];
    int y_column[KIPU_TILE_COLUMNS];         /* floats from y[r] to column c */
    const char *b[KIPU_TILE_COLUMNS];        /* step 0 of column c */
    size_t b_step;                           /* bytes */
    int b_type;                              /* KIPU_F16 or KIPU_F32 */
    int rows, columns, steps;                /* columns <= kipu_tile_columns(rows) */
    bool add;                                /* to what y holds; else from +0 */
    int lanes;                               /* that exist, 1..16; not 16 only with columns = 1 */
} kipu_attn_tile;

void kipu_attn_tile_run__avx2(const kipu_attn_tile *t);

#endif
