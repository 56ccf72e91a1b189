/* Products of plain floats. Every output is one fma chain over k, so what hides the latency of fma is the number of outputs in flight:
 * gemv runs 4 panels side by side, gemm tiles of 2 panels x 8 tokens. F16 and BF16 are widened (exactly) before use: in registers by
 * gemv and for up to 8 tokens, else once per chunk of k into scratch. Bodies are always inlined with a constant type. */
#include <stdbool.h>
#include "kernels/avx512/matmul_avx512.h"
#include "kernels/avx512/matmul_codes_avx512.h"

enum {
    FLOAT_CHUNK = 256,      /* gemm: k of a chunk, */
    CHUNK_PANELS = 8,       /* its panels (as floats 128 KiB, in L2) */
    FLOAT_TOKENS = 8,       /* and tokens of a tile */
    GEMV_PANELS = 4,        /* gemv: panels in flight */
    FLOAT_AHEAD = 1024      /* bytes to prefetch ahead in every panel */
};

KIPU_INLINE int value_bytes(int type) { return type == KIPU_F32 ? 4 : 2; }

KIPU_INLINE void prefetch_ahead(const uint8_t *p) { _mm_prefetch((const char *)p + FLOAT_AHEAD, _MM_HINT_T0); }

/* 16 values, one per row, widened. */
KIPU_INLINE __m512 load_values(int type, const uint8_t *p) {
    if (type == KIPU_F32)
        return _mm512_loadu_ps((const float *)p);
    __m256i half = _mm256_loadu_si256((const __m256i *)p);
    if (type == KIPU_F16)
        return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

_Static_assert(FLOAT_CHUNK * CHUNK_PANELS * KIPU_PANEL_ROWS * sizeof(float) <= KIPU_GEMM_SCRATCH, "the chunk must fit the scratch");

/* ---------------------------------------------------------------------------------------------- one token */
KIPU_INLINE void gemv_panels(int type, int np, float *y, const uint8_t *panels, size_t panel_bytes, const float *x, int k) {
    int step = KIPU_PANEL_ROWS * value_bytes(type);
    __m512 acc[GEMV_PANELS];
#pragma GCC unroll 4
    for (int p = 0; p < np; p++)
        acc[p] = _mm512_setzero_ps();
    for (int i = 0; i < k; i++, panels += step) {
        __m512 xi = _mm512_set1_ps(x[i]);
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            prefetch_ahead(panels + p * panel_bytes);
            acc[p] = _mm512_fmadd_ps(load_values(type, panels + p * panel_bytes), xi, acc[p]);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < np; p++)
        _mm512_storeu_ps(y + p * KIPU_PANEL_ROWS, acc[p]);
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

/* A chunk of k of some panels, and the tokens it meets. */
typedef struct float_chunk {
    const uint8_t *w;    /* [panel][k][16], panels w_stride bytes apart */
    const float *x;      /* [token][k], tokens x_stride floats apart */
    float *y;            /* [panel][token][16], panels y_stride floats apart */
    size_t w_stride, x_stride, y_stride;
    int k;
    bool first;          /* chunk of the row: y = instead of y += */
} float_chunk;

KIPU_INLINE void float_tile(int type, int np, int nt, const float_chunk *c) {
    const uint8_t *w = c->w;
    const float *x = c->x;
    size_t w_stride = c->w_stride, x_stride = c->x_stride;
    __m512 acc[2][FLOAT_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < np; p++)
            acc[p][t] = c->first ? _mm512_setzero_ps() : _mm512_loadu_ps(c->y + p * c->y_stride + t * KIPU_PANEL_ROWS);
    }
    for (int i = 0; i < c->k; i++, w += KIPU_PANEL_ROWS * value_bytes(type)) {
        __m512 wp[2];
#pragma GCC unroll 2
        for (int p = 0; p < np; p++) {
            prefetch_ahead(w + p * w_stride);
            wp[p] = load_values(type, w + p * w_stride);
        }
#pragma GCC unroll 8
        for (int t = 0; t < nt; t++) {
            __m512 xt = _mm512_set1_ps(x[t * x_stride + i]);
#pragma GCC unroll 2
            for (int p = 0; p < np; p++)
                acc[p][t] = _mm512_fmadd_ps(wp[p], xt, acc[p][t]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < np; p++)
            _mm512_storeu_ps(c->y + p * c->y_stride + t * KIPU_PANEL_ROWS, acc[p][t]);
    }
}

KIPU_INLINE void float_tile_of(int type, int np, int nt, const float_chunk *c) {
    switch (nt) {
    case 1: float_tile(type, np, 1, c); break;
    case 2: float_tile(type, np, 2, c); break;
    case 3: float_tile(type, np, 3, c); break;
    case 4: float_tile(type, np, 4, c); break;
    case 5: float_tile(type, np, 5, c); break;
    case 6: float_tile(type, np, 6, c); break;
    case 7: float_tile(type, np, 7, c); break;
    default: float_tile(type, np, 8, c); break;
    }
}

/* Panels times up to 8 tokens, whose chunk (8 KiB) stays in L1 meanwhile. */
KIPU_INLINE void float_tile_panels(int type, int n_panels, int nt, float_chunk c) {
    for (; n_panels > 1; n_panels -= 2, c.w += 2 * c.w_stride, c.y += 2 * c.y_stride)
        float_tile_of(type, 2, nt, &c);
    if (n_panels)
        float_tile_of(type, 1, nt, &c);
}

/* Widened panels times all tokens. */
static void float_tiles(int n_panels, int nt, float_chunk c) {
    for (; nt > 0; nt -= FLOAT_TOKENS, c.x += FLOAT_TOKENS * c.x_stride, c.y += FLOAT_TOKENS * KIPU_PANEL_ROWS)
        float_tile_panels(KIPU_F32, n_panels, nt < FLOAT_TOKENS ? nt : FLOAT_TOKENS, c);
}

/* k values of np panels -> [panel][FLOAT_CHUNK][16]. */
KIPU_INLINE void widen_chunk(int type, float *out, const uint8_t *panels, size_t panel_bytes, int np, int k) {
    for (int p = 0; p < np; p++) {
        float *w = out + p * FLOAT_CHUNK * KIPU_PANEL_ROWS;
        const uint8_t *in = panels + p * panel_bytes;
        for (int i = 0; i < k; i++) {
            _mm_prefetch((const char *)in + (2 * i + 64) * KIPU_PANEL_ROWS, _MM_HINT_T0);
            _mm512_storeu_ps(w + i * KIPU_PANEL_ROWS, load_values(type, in + i * KIPU_PANEL_ROWS * value_bytes(type)));
        }
    }
}

/* np (up to CHUNK_PANELS) panels. One tile of tokens needs neither chunks nor scratch. */
KIPU_INLINE void gemm_float_panels(int type, int np, float *y, const uint8_t *panels, const kipu_acts *a, int t0, int nt, float *scratch) {
    size_t panel_bytes = (size_t)a->k * KIPU_PANEL_ROWS * value_bytes(type), x_stride = (size_t)a->k;
    float_chunk c = {panels, a->x + (size_t)t0 * x_stride, y, panel_bytes, x_stride, (size_t)nt * KIPU_PANEL_ROWS, a->k, true};
    if (nt <= FLOAT_TOKENS) {
        float_tile_panels(type, np, nt, c);
        return;
    }
    for (int i = 0; i < a->k; i += FLOAT_CHUNK, c.x += FLOAT_CHUNK, c.first = false) {
        const uint8_t *in = panels + (size_t)i * KIPU_PANEL_ROWS * value_bytes(type);
        c.k = a->k - i < FLOAT_CHUNK ? a->k - i : FLOAT_CHUNK;
        c.w = in;
        if (type != KIPU_F32) {
            widen_chunk(type, scratch, in, panel_bytes, np, c.k);
            c.w = (const uint8_t *)scratch;
            c.w_stride = FLOAT_CHUNK * KIPU_PANEL_ROWS * sizeof(float);
        }
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
static void kipu_gemv_f32__avx512(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_floats(KIPU_F32, y, panels, n_panels, a, token);
}

static void kipu_gemm_f32__avx512(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_floats(KIPU_F32, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_f32__avx512 = {
    .gemv = kipu_gemv_f32__avx512, .gemm = kipu_gemm_f32__avx512, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- F16 */
static void kipu_gemv_f16__avx512(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_floats(KIPU_F16, y, panels, n_panels, a, token);
}

static void kipu_gemm_f16__avx512(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_floats(KIPU_F16, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_f16__avx512 = {
    .gemv = kipu_gemv_f16__avx512, .gemm = kipu_gemm_f16__avx512, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- BF16 */
static void kipu_gemv_bf16__avx512(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_floats(KIPU_BF16, y, panels, n_panels, a, token);
}

static void kipu_gemm_bf16__avx512(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_floats(KIPU_BF16, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_bf16__avx512 = {
    .gemv = kipu_gemv_bf16__avx512, .gemm = kipu_gemm_bf16__avx512, .gemm_panels = CHUNK_PANELS
};
