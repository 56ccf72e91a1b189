/* Register tile: 2 panels x 8 tokens = 16 integer accumulators. Per k4: 2 loads of codes, 8 broadcasts of four activations, 16 vpdpbusd;
 * per group of 32 k the sums are converted, scaled and added to y, whose tile (1 KiB) stays in L1. */
#include "kernels/avx512/matmul_tile_avx512.h"
#include <string.h>
#include "kernels/avx512/matmul_codes_avx512.h"

enum { K4 = KIPU_GROUP / 4 };

KIPU_INLINE __m512i broadcast4(const int8_t *q) { return _mm512_set1_epi32(*(const unaligned_word *)q); }

/* volatile: gcc would broadcast once for two panels and copy, which costs an arithmetic slot instead of a load slot. */
KIPU_INLINE __m512i load_seed(const int32_t *seed) {
    __m512i x;
    __asm__ volatile("vpbroadcastd %1, %0" : "=v"(x) : "m"(*seed));
    return x;
}

/* In place by force: gcc surrounds the intrinsic with register moves. */
KIPU_INLINE __m512i dot4_reg(__m512i acc, __m512i code, __m512i q) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(code), "v"(q));
    return acc;
}

/* sum[p][t] += codes . q over k4 first..first + count - 1 of group g. */
KIPU_INLINE void tile_sums(int np, int nt, __m512i sum[2][TILE_TOKENS], const panel_chunk *panels, const token_chunk *tokens, int g, int first, int count) {
    const uint8_t *codes = panels->codes + (g * K4 + first) * WORD;
    const int8_t *q = &tokens->q[0][g * KIPU_GROUP + 4 * first];
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
        __m512i code[2];
#pragma GCC unroll 2
        for (int p = 0; p < np; p++)
            code[p] = load_word(codes + p * sizeof(panel_chunk) + i * WORD);
#pragma GCC unroll 8
        for (int t = 0; t < nt; t++) {
            __m512i b = broadcast4(q + t * TOKEN_STRIDE + 4 * i);
#pragma GCC unroll 2
            for (int p = 0; p < np; p++)
                sum[p][t] = dot4_reg(sum[p][t], code[p], b);
        }
    }
}

KIPU_INLINE void tile_seeds(int np, int nt, __m512i sum[2][TILE_TOKENS], const token_chunk *tokens, int half, int g) {
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < np; p++)
            sum[p][t] = load_seed(&tokens->seed[half][t][g]);
    }
}

/* acc += scale * d * dot (+ min * ds) */
KIPU_INLINE void tile_add(tile_family family, int np, int nt, __m512 acc[2][TILE_TOKENS], __m512 dot[2][TILE_TOKENS], const panel_chunk *panels,
                          const token_chunk *tokens, int g) {
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++) {
        __m512 d = _mm512_set1_ps(tokens->d[t][g]);
#pragma GCC unroll 2
        for (int p = 0; p < np; p++) {
            acc[p][t] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_loadu_ps(panels[p].scale[g]), d), dot[p][t], acc[p][t]);
            if (family == TILE_MIN)
                acc[p][t] = _mm512_fmadd_ps(_mm512_loadu_ps(panels[p].extra[g][0]), _mm512_set1_ps(tokens->ds[t][g]), acc[p][t]);
        }
    }
}

KIPU_INLINE void tile_group(tile_family family, int np, int nt, __m512 acc[2][TILE_TOKENS], const panel_chunk *panels, const token_chunk *tokens, int g) {
    __m512i sum[2][TILE_TOKENS];
    __m512 dot[2][TILE_TOKENS];
    int halves = family == TILE_HALVES ? 2 : 1;
#pragma GCC unroll 2
    for (int h = 0; h < halves; h++) {
        tile_seeds(np, nt, sum, tokens, h, g);
        tile_sums(np, nt, sum, panels, tokens, g, h * (K4 / 2), K4 / halves);
#pragma GCC unroll 8
        for (int t = 0; t < nt; t++) {
#pragma GCC unroll 2
            for (int p = 0; p < np; p++) {
                __m512 x = _mm512_cvtepi32_ps(sum[p][t]);
                /* Q6_K: products and their sum stay below 2^24, so the float arithmetic is the exact integer arithmetic. */
                if (family == TILE_HALVES)
                    x = h == 0 ? _mm512_mul_ps(x, _mm512_loadu_ps(panels[p].extra[g][0]))
                               : _mm512_fmadd_ps(x, _mm512_loadu_ps(panels[p].extra[g][1]), dot[p][t]);
                dot[p][t] = x;
            }
        }
    }
    tile_add(family, np, nt, acc, dot, panels, tokens, g);
}

KIPU_INLINE void tile_panels(tile_family family, int np, int nt, float *y, size_t panel_stride, const panel_chunk *panels, const token_chunk *tokens,
                             int n_groups, bool first) {
    __m512 acc[2][TILE_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < np; p++)
            acc[p][t] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(y + p * panel_stride + t * KIPU_PANEL_ROWS);
    }
    for (int g = 0; g < n_groups; g++)
        tile_group(family, np, nt, acc, panels, tokens, g);
#pragma GCC unroll 8
    for (int t = 0; t < nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < np; p++)
            _mm512_storeu_ps(y + p * panel_stride + t * KIPU_PANEL_ROWS, acc[p][t]);
    }
}

KIPU_INLINE void tile_body(tile_family family, int nt, float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens,
                           int n_groups, bool first) {
    int p = 0;
    for (; p + 2 <= n_panels; p += 2)
        tile_panels(family, 2, nt, y + p * panel_stride, panel_stride, panels + p, tokens, n_groups, first);
    if (p < n_panels)
        tile_panels(family, 1, nt, y + p * panel_stride, panel_stride, panels + p, tokens, n_groups, first);
}

/* ---------------------------------------------------------------------------------------------- plain */
static void tile_plain_1(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_PLAIN, 1, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_plain_2(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_PLAIN, 2, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_plain_3(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_PLAIN, 3, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_plain_4(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_PLAIN, 4, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_plain_5(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_PLAIN, 5, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_plain_6(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_PLAIN, 6, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_plain_7(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_PLAIN, 7, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_plain_8(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_PLAIN, 8, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}

/* ---------------------------------------------------------------------------------------------- min */
static void tile_min_1(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_MIN, 1, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_min_2(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_MIN, 2, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_min_3(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_MIN, 3, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_min_4(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_MIN, 4, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_min_5(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_MIN, 5, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_min_6(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_MIN, 6, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_min_7(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_MIN, 7, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_min_8(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_MIN, 8, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}

/* ---------------------------------------------------------------------------------------------- halves */
static void tile_halves_1(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_HALVES, 1, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_halves_2(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_HALVES, 2, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_halves_3(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_HALVES, 3, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_halves_4(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_HALVES, 4, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_halves_5(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_HALVES, 5, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_halves_6(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_HALVES, 6, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_halves_7(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_HALVES, 7, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}
static void tile_halves_8(float *y, size_t panel_stride, const panel_chunk *panels, int n_panels, const token_chunk *tokens, int n_groups,
                         bool first) {
    tile_body(TILE_HALVES, 8, y, panel_stride, panels, n_panels, tokens, n_groups, first);
}

tile_kernel kipu_tile_kernel__avx512(tile_family family, int nt) {
    static const tile_kernel kernels[3][TILE_TOKENS] = {
        {tile_plain_1, tile_plain_2, tile_plain_3, tile_plain_4, tile_plain_5, tile_plain_6, tile_plain_7, tile_plain_8},
        {tile_min_1, tile_min_2, tile_min_3, tile_min_4, tile_min_5, tile_min_6, tile_min_7, tile_min_8},
        {tile_halves_1, tile_halves_2, tile_halves_3, tile_halves_4, tile_halves_5, tile_halves_6, tile_halves_7, tile_halves_8},
    };
    return kernels[family][nt - 1];
}
