#include "kernels/avx2/attention_tile_avx2.h"

#include <string.h>
#include "kernels/avx2/math_avx2.h"
#include "quants/formats.h"

#define KIPU_INLINE static inline __attribute__((always_inline))

/* 8 of the 16 lanes of a column: side 0 or 1. */
KIPU_INLINE __m256 load_b(const char *b, int type, int side) {
    if (type == KIPU_F32) return _mm256_loadu_ps((const float *)b + 8 * side);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)b + side));
}

/* rows, columns and type are constants at every call, so y stays in registers. */
KIPU_INLINE void body(const kipu_attn_tile *t, int rows, int columns, int type) {
    const int steps = t->steps;
    const size_t b_step = t->b_step;
    const float *a[KIPU_TILE_ROWS];
    const char *b[KIPU_TILE_COLUMNS];
    __m256 y[KIPU_TILE_ROWS][KIPU_TILE_COLUMNS][2];
#pragma GCC unroll 4
    for (int c = 0; c < columns; c++) b[c] = t->b[c];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        a[r] = t->a[r];
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            const float *from = t->y[r] + t->y_column[c];
            y[r][c][0] = t->add ? _mm256_loadu_ps(from) : _mm256_setzero_ps();
            y[r][c][1] = t->add ? _mm256_loadu_ps(from + 8) : _mm256_setzero_ps();
        }
    }
    int i = 0;
    do {
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++, b[c - 1] += b_step) {
            __m256 b0 = load_b(b[c], type, 0), b1 = load_b(b[c], type, 1);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                __m256 scalar = _mm256_set1_ps(a[r][i]);
                y[r][c][0] = _mm256_fmadd_ps(scalar, b0, y[r][c][0]);
                y[r][c][1] = _mm256_fmadd_ps(scalar, b1, y[r][c][1]);
            }
        }
    } while (++i < steps);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            _mm256_storeu_ps(t->y[r] + t->y_column[c], y[r][c][0]);
            _mm256_storeu_ps(t->y[r] + t->y_column[c] + 8, y[r][c][1]);
        }
    }
}

KIPU_INLINE void with_type(const kipu_attn_tile *t, int type) {
    switch (4 * t->rows + t->columns - 1) {
    case 4: body(t, 1, 1, type); break;
    case 5: body(t, 1, 2, type); break;
    case 6: body(t, 1, 3, type); break;
    case 7: body(t, 1, 4, type); break;
    case 8: body(t, 2, 1, type); break;
    case 9: body(t, 2, 2, type); break;
    case 12: body(t, 3, 1, type); break;
    case 13: body(t, 3, 2, type); break;
    case 16: body(t, 4, 1, type); break;
    case 20: body(t, 5, 1, type); break;
    default: body(t, 6, 1, type); break;
    }
}

/* The last column of a V whose rows are no multiple of 16: nothing beyond the lanes that exist is touched. */
static void run_narrow(const kipu_attn_tile *t) {
    for (int r = 0; r < t->rows; r++) {
        float *y = t->y[r] + t->y_column[0];
        for (int c = 0; c < t->lanes; c++) {
            float sum = t->add ? y[c] : 0.0f;
            for (int i = 0; i < t->steps; i++) {
                const char *b = t->b[0] + i * t->b_step;
                sum = fmaf(t->a[r][i], t->b_type == KIPU_F32 ? ((const float *)b)[c] : kipu_half_to_float(((const uint16_t *)b)[c]), sum);
            }
            y[c] = sum;
        }
    }
}

void kipu_attn_tile_run__avx2(const kipu_attn_tile *t) {
    if (t->lanes < 16) run_narrow(t);
    else if (t->b_type == KIPU_F32) with_type(t, KIPU_F32);
    else with_type(t, KIPU_F16);
}
