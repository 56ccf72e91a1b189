/* Products of plain floats. Every output is one fma chain over k, so what hides the latency of fma is the number of outputs in flight:
 * gemv runs 4 panels side by side, gemm tiles of 1 panel x 6 tokens: 12 of the 16 registers. F16 and BF16 are widened (exactly) before use:
 * in registers by gemv, once per chunk of k into scratch by gemm. Bodies are always inlined with a constant type. */
#include <stdbool.h>
#include "kernels/avx2/matmul_avx2.h"
#include "kernels/avx2/matmul_codes_avx2.h"

enum {
    FLOAT_CHUNK = 256,      /* gemm: k of a chunk, */
    CHUNK_PANELS = 8,       /* its panels (as floats 128 KiB, in L2) */
    FLOAT_TOKENS = 6,       /* and tokens of a tile */
    GEMV_PANELS = 4,        /* gemv: panels in flight */
    FLOAT_AHEAD = 1024      /* bytes gemv prefetches ahead in every panel */
};

KIPU_INLINE int value_bytes(int type) { return type == KIPU_F32 ? 4 : 2; }

/* 8 values, one per row of a side, widened. */
KIPU_INLINE __m256 load_values(int type, const uint8_t *p, int side) {
    p += side * SIDE_ROWS * value_bytes(type);
    if (type == KIPU_F32)
        return _mm256_loadu_ps((const float *)p);
    __m128i half = _mm_loadu_si128((const __m128i *)p);
    if (type == KIPU_F16)
        return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

_Static_assert(FLOAT_CHUNK * CHUNK_PANELS * KIPU_PANEL_ROWS * sizeof(float) <= KIPU_GEMM_SCRATCH, "the chunk must fit the scratch");

/* ---------------------------------------------------------------------------------------------- one token */
KIPU_INLINE void gemv_panels(int type, int np, float *y, const uint8_t *panels, size_t panel_bytes, const float *x, int k) {
    int step = KIPU_PANEL_ROWS * value_bytes(type);
    __m256 acc[GEMV_PANELS][SIDES];
#pragma GCC unroll 4
    for (int p = 0; p < np; p++)
        acc[p][0] = acc[p][1] = _mm256_setzero_ps();
    for (int i = 0; i < k; i++, panels += step) {
        __m256 xi = _mm256_set1_ps(x[i]);
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            const uint8_t *w = panels + p * panel_bytes;
            _mm_prefetch((const char *)w + FLOAT_AHEAD, _MM_HINT_T0);
            acc[p][0] = _mm256_fmadd_ps(load_values(type, w, 0), xi, acc[p][0]);
            acc[p][1] = _mm256_fmadd_ps(load_values(type, w, 1), xi, acc[p][1]);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < np; p++) {
        _mm256_storeu_ps(y + p * KIPU_PANEL_ROWS, acc[p][0]);
        _mm256_storeu_ps(y + p * KIPU_PANEL_ROWS + SIDE_ROWS, acc[p][1]);
    }
}

KIPU_INLINE void gemv_floats(int type, float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    size_t panel_bytes = (size_t)a->k * KIPU_PANEL_ROWS * value_bytes(type);
    const float *x = a->x + (int64_t)token * a->k;
    const uint8_t *in = panels;
    int p = 0;
    for (; p + GEMV_PANELS <= n_panels; p += GEMV_PANELS)
        gemv_panels(type, GEMV_PANELS, y + p * KIPU_PANEL_ROWS, in + p * panel_bytes, panel_bytes, x, a->k);
    for (; p < n_panels; p++)
        gemv_panels(type, 1, y + p * KIPU_PANEL_ROWS, in + p * panel_bytes, panel_bytes, x, a->k);
}

/* ---------------------------------------------------------------------------------------------- many tokens */

/* A chunk of k of some panels as floats, and the tokens it meets. */
typedef struct float_chunk {
    const float *w;      /* [panel][k][16], panels w_stride floats apart */
    const float *x;      /* [token][k], tokens x_stride floats apart */
    float *y;            /* [panel][token][16], panels y_stride floats apart */
    size_t w_stride, x_stride, y_stride;
    int k;
    bool first;          /* chunk of the row: y = instead of y += */
} float_chunk;

KIPU_INLINE void float_tile(int nt, const float_chunk *c) {
    const float *w = c->w, *x = c->x;
    size_t x_stride = c->x_stride;
    __m256 acc[FLOAT_TOKENS][SIDES];
#pragma GCC unroll 6
    for (int t = 0; t < nt; t++) {
        acc[t][0] = c->first ? _mm256_setzero_ps() : _mm256_loadu_ps(c->y + t * KIPU_PANEL_ROWS);
        acc[t][1] = c->first ? _mm256_setzero_ps() : _mm256_loadu_ps(c->y + t * KIPU_PANEL_ROWS + SIDE_ROWS);
    }
    for (int i = 0; i < c->k; i++, w += KIPU_PANEL_ROWS) {
        __m256 w0 = _mm256_loadu_ps(w), w1 = _mm256_loadu_ps(w + SIDE_ROWS);
#pragma GCC unroll 6
        for (int t = 0; t < nt; t++) {
            __m256 xt = _mm256_set1_ps(x[t * x_stride + i]);
            acc[t][0] = _mm256_fmadd_ps(w0, xt, acc[t][0]);
            acc[t][1] = _mm256_fmadd_ps(w1, xt, acc[t][1]);
        }
    }
#pragma GCC unroll 6
    for (int t = 0; t < nt; t++) {
        _mm256_storeu_ps(c->y + t * KIPU_PANEL_ROWS, acc[t][0]);
        _mm256_storeu_ps(c->y + t * KIPU_PANEL_ROWS + SIDE_ROWS, acc[t][1]);
    }
}

/* Panels times up to 6 tokens, whose chunk (6 KiB) stays in L1 meanwhile. */
static void float_tile_panels(int n_panels, int nt, float_chunk c) {
    for (; n_panels > 0; n_panels--, c.w += c.w_stride, c.y += c.y_stride) {
        switch (nt) {
        case 1: float_tile(1, &c); break;
        case 2: float_tile(2, &c); break;
        case 3: float_tile(3, &c); break;
        case 4: float_tile(4, &c); break;
        case 5: float_tile(5, &c); break;
        default: float_tile(6, &c); break;
        }
    }
}

static void float_tiles(int n_panels, int nt, float_chunk c) {
    for (; nt > 0; nt -= FLOAT_TOKENS, c.x += FLOAT_TOKENS * c.x_stride, c.y += FLOAT_TOKENS * KIPU_PANEL_ROWS)
        float_tile_panels(n_panels, nt < FLOAT_TOKENS ? nt : FLOAT_TOKENS, c);
}

/* k values of np panels -> [panel][FLOAT_CHUNK][16]. */
KIPU_INLINE void widen_chunk(int type, float *out, const uint8_t *panels, size_t panel_bytes, int np, int k) {
    for (int p = 0; p < np; p++) {
        float *w = out + p * FLOAT_CHUNK * KIPU_PANEL_ROWS;
        const uint8_t *in = panels + p * panel_bytes;
        for (int i = 0; i < k; i++) {
            _mm_prefetch((const char *)in + (2 * i + 64) * KIPU_PANEL_ROWS, _MM_HINT_T0);
            const uint8_t *values = in + i * KIPU_PANEL_ROWS * value_bytes(type);
            _mm256_storeu_ps(w + i * KIPU_PANEL_ROWS, load_values(type, values, 0));
            _mm256_storeu_ps(w + i * KIPU_PANEL_ROWS + SIDE_ROWS, load_values(type, values, 1));
        }
    }
}

/* np (up to CHUNK_PANELS) panels, chunk by chunk of k. */
KIPU_INLINE void gemm_float_panels(int type, int np, float *y, const uint8_t *panels, const kipu_acts *a, int t0, int nt, float *scratch) {
    size_t panel_bytes = (size_t)a->k * KIPU_PANEL_ROWS * value_bytes(type);
    float_chunk c = {.y = y, .x_stride = (size_t)a->k, .y_stride = (size_t)nt * KIPU_PANEL_ROWS};
    for (int i = 0; i < a->k; i += FLOAT_CHUNK) {
        const uint8_t *in = panels + (size_t)i * KIPU_PANEL_ROWS * value_bytes(type);
        c.k = a->k - i < FLOAT_CHUNK ? a->k - i : FLOAT_CHUNK;
        c.x = a->x + (size_t)t0 * c.x_stride + i;
        c.first = i == 0;
        c.w = type == KIPU_F32 ? (const float *)in : scratch;
        c.w_stride = type == KIPU_F32 ? panel_bytes / sizeof(float) : FLOAT_CHUNK * KIPU_PANEL_ROWS;
        if (type != KIPU_F32)
            widen_chunk(type, scratch, in, panel_bytes, np, c.k);
        float_tiles(np, nt, c);
    }
}

KIPU_INLINE void gemm_floats(int type, float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    size_t panel_bytes = (size_t)a->k * KIPU_PANEL_ROWS * value_bytes(type);
    const uint8_t *in = panels;
    for (int p = 0; p < n_panels; p += CHUNK_PANELS)
        gemm_float_panels(type, n_panels - p < CHUNK_PANELS ? n_panels - p : CHUNK_PANELS, y + (size_t)p * nt * KIPU_PANEL_ROWS,
                          in + p * panel_bytes, a, t0, nt, scratch);
}

/* ---------------------------------------------------------------------------------------------- F32 */
static void kipu_gemv_f32__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_floats(KIPU_F32, y, panels, n_panels, a, token);
}

static void kipu_gemm_f32__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_floats(KIPU_F32, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_f32__avx2 = {
    .gemv = kipu_gemv_f32__avx2, .gemm = kipu_gemm_f32__avx2, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- F16 */
static void kipu_gemv_f16__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_floats(KIPU_F16, y, panels, n_panels, a, token);
}

static void kipu_gemm_f16__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_floats(KIPU_F16, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_f16__avx2 = {
    .gemv = kipu_gemv_f16__avx2, .gemm = kipu_gemm_f16__avx2, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- BF16 */
static void kipu_gemv_bf16__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_floats(KIPU_BF16, y, panels, n_panels, a, token);
}

static void kipu_gemm_bf16__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_floats(KIPU_BF16, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_bf16__avx2 = {
    .gemv = kipu_gemv_bf16__avx2, .gemm = kipu_gemm_bf16__avx2, .gemm_panels = CHUNK_PANELS
};
