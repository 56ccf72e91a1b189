#include "kernels/avx512/attention_tile_avx512.h"

#include "quants/formats.h"

static inline __attribute__((always_inline)) __m512 load_b(const char *b, int type, bool masked, __mmask16 lanes) {
    if (type == KIPU_F32) return masked ? _mm512_maskz_loadu_ps(lanes, b) : _mm512_loadu_ps(b);
    return _mm512_cvtph_ps(masked ? _mm256_maskz_loadu_epi16(lanes, b) : _mm256_loadu_si256((const __m256i *)b));
}

/* rows, columns and type are constants at every call, so y stays in registers. */
static inline __attribute__((always_inline)) void body(const kipu_attn_tile *t, int rows, int columns, int type) {
    const bool masked = columns == 1;
    const __mmask16 lanes = masked ? t->lanes : 0xffff;
    const int steps = t->steps;
    const size_t b_step = t->b_step;
    const float *a[KIPU_TILE_ROWS];
    const char *b[KIPU_TILE_COLUMNS];
    __m512 y[KIPU_TILE_ROWS][KIPU_TILE_COLUMNS];
    #pragma GCC unroll 4
    for (int c = 0; c < columns; c++) b[c] = t->b[c];
    #pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        a[r] = t->a[r];
        #pragma GCC unroll 4
        for (int c = 0; c < columns; c++) y[r][c] = _mm512_maskz_loadu_ps(t->add ? lanes : 0, t->y[r] + t->y_column[c]);
    }
    int i = 0;
    do {
        __m512 column[KIPU_TILE_COLUMNS];
        #pragma GCC unroll 4
        for (int c = 0; c < columns; c++, b[c - 1] += b_step) column[c] = load_b(b[c], type, masked, lanes);
        #pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m512 scalar = _mm512_set1_ps(a[r][i]);
            #pragma GCC unroll 4
            for (int c = 0; c < columns; c++) y[r][c] = _mm512_fmadd_ps(scalar, column[c], y[r][c]);
        }
    } while (++i < steps);
    #pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        #pragma GCC unroll 4
        for (int c = 0; c < columns; c++) _mm512_mask_storeu_ps(t->y[r] + t->y_column[c], lanes, y[r][c]);
}

static inline __attribute__((always_inline)) void with_rows(const kipu_attn_tile *t, int rows, int type) {
    switch (t->columns) {
    case 1: body(t, rows, 1, type); break;
    case 2: body(t, rows, 2, type); break;
    case 3: body(t, rows, 3, type); break;
    default: body(t, rows, 4, type); break;
    }
}

static inline __attribute__((always_inline)) void with_type(const kipu_attn_tile *t, int type) {
    switch (t->rows) {
    case 1: with_rows(t, 1, type); break;
    case 2: with_rows(t, 2, type); break;
    case 3: with_rows(t, 3, type); break;
    case 4: with_rows(t, 4, type); break;
    case 5: with_rows(t, 5, type); break;
    default: with_rows(t, 6, type); break;
    }
}

void kipu_attn_tile_run(const kipu_attn_tile *t) {
    if (t->b_type == KIPU_F32) with_type(t, KIPU_F32);
    else with_type(t, KIPU_F16);
}
