/* The inner product of the quantised gemm: a decoded panel times a tile of tokens.
 *
 * K is cut into chunks of 512. A chunk of up to 8 panels is decoded into scratch (L2), then every block of 16 tokens (L1) meets all of them,
 * one panel (L1) and a tile of up to 4 tokens at a time. Float sums wait in y between groups and chunks, which is exact.
 *
 *     scratch 181 KiB   | panel_chunk 0 | ... | panel_chunk 7 | token_chunk 0 | ... | token_chunk 15 |
 *
 * A tile keeps 2 sides x 4 tokens of 16-bit sums, two per lane, in registers. Sums of pairs of true codes over a whole run always fit:
 *
 *     Q4   8 words of four activations   8 * 2 * 15 * 127 = 30480
 *     Q5   the same, codes -16..15       8 * 2 * 16 * 127 = 32512
 *     Q6   4 words, codes -32..31        4 * 2 * 32 * 127 = 32512
 *
 * vpmaddubsw takes the codes unsigned, so the sums start from -zero * (the activations they will meet) and may wrap on the way: arithmetic
 * modulo 2^16 ends at the true value. Q8_0 does not fit any of this: codes and activations are widened to 16 bits and summed in 32. */
#ifndef KIPU_KERNELS_AVX2_MATMUL_TILE_AVX2_H
#define KIPU_KERNELS_AVX2_MATMUL_TILE_AVX2_H

#include "kernels/avx2/matmul_codes_avx2.h"

enum {
    CHUNK_K = 512,
    CHUNK_GROUPS = CHUNK_K / KIPU_GROUP,
    CHUNK_PANELS = 8,        /* decoded side by side */
    CHUNK_TOKENS = 16,
    TILE_TOKENS = 4,
    K4 = KIPU_GROUP / 4
};

/* 512 k of 16 rows, ready for use. */
typedef struct panel_chunk {
    uint8_t codes[2 * CHUNK_K * KIPU_PANEL_ROWS];           /* [k / 4][16 rows][4], code + zero; Q8_0: [k / 4][2][16 rows][2] 16-bit codes */
    float scale[CHUNK_GROUPS][KIPU_PANEL_ROWS];
    float min[CHUNK_GROUPS][KIPU_PANEL_ROWS];
    int32_t half_scale[CHUNK_GROUPS][2][KIPU_PANEL_ROWS];   /* Q6_K: scale of each half group, twice in 16 bits */
} panel_chunk;

/* 512 k of one token: an odd number of cache lines, so that several never share one L1 set. */
typedef struct token_chunk {
    int8_t q[2 * CHUNK_K];                                  /* Q8_0: 16-bit, as the codes */
    int32_t seed[2][CHUNK_GROUPS];                          /* two 16-bit start values; [1]: Q6_K, second half of the group */
    int32_t lift[CHUNK_GROUPS];                             /* formats with min: what undoes the zero point, zero * s */
    float d[CHUNK_GROUPS];
    float ds[CHUNK_GROUPS];                                 /* d * s, formats with min */
} token_chunk;

typedef struct gemm_scratch {
    panel_chunk panels[CHUNK_PANELS];
    token_chunk tokens[CHUNK_TOKENS];
} gemm_scratch;

_Static_assert(sizeof(gemm_scratch) <= KIPU_GEMM_SCRATCH, "the chunk must fit the scratch");

/* Q6_K keeps twice as many integers in flight. */
KIPU_INLINE int tile_tokens(int type) { return type == KIPU_Q6_K ? 2 : TILE_TOKENS; }

/* The zero point of the tile: also codes with a min are centred, if they need it to fit 16 bits. */
KIPU_INLINE int tile_zero(int type) { return has_fifth_bit(type) ? 16 : zero_point(type); }

/* Bytes of four k of 16 rows. */
KIPU_INLINE int k4_bytes(int type) { return type == KIPU_Q8_0 ? 2 * WORD : WORD; }

typedef __m256i tile_sums[SIDES][TILE_TOKENS];

/* 16-bit sums over words first .. first + count - 1 of group g. */
KIPU_INLINE void tile_pairs(int type, int nt, tile_sums sum, const panel_chunk *panel, const token_chunk *tokens, int g, int first, int count) {
    const uint8_t *codes = panel->codes + (g * K4 + first) * WORD;
    const int8_t *q = tokens->q + g * KIPU_GROUP + 4 * first;
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
        __m256i code0 = load_word(codes + i * WORD, 0), code1 = load_word(codes + i * WORD, 1);
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++) {
            __m256i b = broadcast4(q + t * sizeof(token_chunk) + 4 * i);
            __m256i x0 = _mm256_maddubs_epi16(code0, b), x1 = _mm256_maddubs_epi16(code1, b);
            if (i == 0 && tile_zero(type)) {
                __m256i seed = _mm256_set1_epi32(tokens[t].seed[first / 4][g]);
                x0 = _mm256_add_epi16(x0, seed);
                x1 = _mm256_add_epi16(x1, seed);
            }
            sum[0][t] = in_order(i == 0 ? x0 : _mm256_add_epi16(sum[0][t], x0));
            sum[1][t] = in_order(i == 0 ? x1 : _mm256_add_epi16(sum[1][t], x1));
        }
    }
}

/* Q8_0: 32-bit sums over group g. */
KIPU_INLINE void tile_wide(int nt, tile_sums sum, const panel_chunk *panel, const token_chunk *tokens, int g) {
    const uint8_t *codes = panel->codes + g * 2 * K4 * WORD;
    const int8_t *q = tokens->q + g * 2 * KIPU_GROUP;
#pragma GCC unroll 16
    for (int i = 0; i < 2 * K4; i++) {
        __m256i code0 = load_word(codes + i * WORD, 0), code1 = load_word(codes + i * WORD, 1);
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++) {
            __m256i b = broadcast4(q + t * sizeof(token_chunk) + 4 * i);
            __m256i x0 = _mm256_madd_epi16(code0, b), x1 = _mm256_madd_epi16(code1, b);
            sum[0][t] = in_order(i == 0 ? x0 : _mm256_add_epi32(sum[0][t], x0));
            sum[1][t] = in_order(i == 0 ? x1 : _mm256_add_epi32(sum[1][t], x1));
        }
    }
}

KIPU_INLINE __m256i load_half_scale(const panel_chunk *panel, int g, int half, int side) {
    return _mm256_loadu_si256((const __m256i *)&panel->half_scale[g][half][side * SIDE_ROWS]);
}

/* dot = the integer sums of group g. */
KIPU_INLINE void tile_dots(int type, int nt, tile_sums dot, const panel_chunk *panel, const token_chunk *tokens, int g) {
    if (type == KIPU_Q8_0) {
        tile_wide(nt, dot, panel, tokens, g);
        return;
    }
    int halves = type == KIPU_Q6_K ? 2 : 1;
#pragma GCC unroll 2
    for (int h = 0; h < halves; h++) {
        tile_sums sum;
        tile_pairs(type, nt, sum, panel, tokens, g, h * (K4 / 2), K4 / halves);
#pragma GCC unroll 2
        for (int side = 0; side < SIDES; side++) {
            __m256i factor = halves == 2 ? load_half_scale(panel, g, h, side) : _mm256_set1_epi16(1);
#pragma GCC unroll 4
            for (int t = 0; t < nt; t++) {
                __m256i x = _mm256_madd_epi16(sum[side][t], factor);
                dot[side][t] = h == 0 ? x : _mm256_add_epi32(dot[side][t], x);
            }
        }
    }
}

/* y += scale * d * dot (+ min * ds) */
KIPU_INLINE void tile_group(int type, int nt, float *y, const panel_chunk *panel, const token_chunk *tokens, int g) {
    tile_sums dot;
    tile_dots(type, nt, dot, panel, tokens, g);
#pragma GCC unroll 2
    for (int side = 0; side < SIDES; side++) {
        __m256 scale = _mm256_loadu_ps(&panel->scale[g][side * SIDE_ROWS]);
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++) {
            float *out = y + t * KIPU_PANEL_ROWS + side * SIDE_ROWS;
            __m256i sum = dot[side][t];
            if (has_min(type) && tile_zero(type))
                sum = _mm256_add_epi32(sum, _mm256_set1_epi32(tokens[t].lift[g]));
            __m256 acc = _mm256_mul_ps(scale, _mm256_set1_ps(tokens[t].d[g]));
            acc = _mm256_fmadd_ps(acc, _mm256_cvtepi32_ps(sum), _mm256_loadu_ps(out));
            if (has_min(type))
                acc = _mm256_fmadd_ps(_mm256_loadu_ps(&panel->min[g][side * SIDE_ROWS]), _mm256_set1_ps(tokens[t].ds[g]), acc);
            _mm256_storeu_ps(out, acc);
        }
    }
}

/* y[token][16] += panel . tokens over n_groups groups. */
KIPU_INLINE void tile_of(int type, int nt, float *y, const panel_chunk *panel, const token_chunk *tokens, int n_groups) {
    for (int g = 0; g < n_groups; g++)
        tile_group(type, nt, y, panel, tokens, g);
}

#endif
