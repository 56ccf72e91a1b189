/* The inner product of the quantised gemm: a decoded panel times a tile of tokens.
 *
 * K is cut into chunks of 512. A chunk of up to 8 panels is decoded into scratch (L2), then every 16 tokens (L1) meet all of them, one
 * panel (L1) and a tile of up to 4 tokens at a time. Float sums wait in y between groups and chunks, which is exact.
 *
 *     scratch 109 KiB   | panel_chunk 0 | ... | panel_chunk 7 | token_chunk 0 | ... | token_chunk 15 |
 *
 * A tile takes one side at a time: 16-bit sums, two per lane, and 32-bit sums of 4 tokens are 8 registers. Sums of pairs of true codes fit
 * 16 bits over a whole run:
 *
 *     Q4   8 words of four activations   8 * 2 * 15 * 127 = 30480
 *     Q5   the same, codes -16..15       8 * 2 * 16 * 127 = 32512
 *     Q6   4 words, codes -32..31        4 * 2 * 32 * 127 = 32512
 *
 * vpmaddubsw takes the codes unsigned, so the sums start from -zero * (the activations they will meet) and may wrap on the way: arithmetic
 * modulo 2^16 ends at the true value. Only Q8_0 has runs of a single word, whose codes stay signed. */
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
    uint8_t codes[CHUNK_K * KIPU_PANEL_ROWS];               /* [k / 4][16 rows][4], code + zero */
    float scale[CHUNK_GROUPS][KIPU_PANEL_ROWS];
    float min[CHUNK_GROUPS][KIPU_PANEL_ROWS];
    int32_t half_scale[CHUNK_GROUPS][2][KIPU_PANEL_ROWS];   /* Q6_K: scale of each half group, twice in 16 bits */
} panel_chunk;

/* 512 k of one token: an odd number of cache lines, so that several never share one L1 set. */
typedef struct token_chunk {
    int8_t q[CHUNK_K];
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

/* The zero point of the tile: also codes with a min are centred, if they need it to fit 16 bits. */
KIPU_INLINE int tile_zero(int type) { return has_fifth_bit(type) ? 16 : zero_point(type); }

/* Words of a run, of the K4 of a group. */
KIPU_INLINE int tile_run(int type) { return type == KIPU_Q8_0 ? 1 : type == KIPU_Q6_K ? K4 / 2 : K4; }

/* 16-bit sums over one run, words first .. first + tile_run - 1 of group g. */
KIPU_INLINE void tile_pairs(int type, int nt, __m256i sum[], const panel_chunk *panel, const token_chunk *tokens, int g, int first,
                            int side) {
    const uint8_t *codes = panel->codes + (g * K4 + first) * WORD;
    const int8_t *q = tokens->q + g * KIPU_GROUP + 4 * first;
#pragma GCC unroll 8
    for (int i = 0; i < tile_run(type); i++) {
        __m256i code = load_word(codes + i * WORD, side);
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++) {
            __m256i x = pair_products(type, code, broadcast4(q + t * sizeof(token_chunk) + 4 * i));
            if (i == 0 && tile_zero(type))
                x = _mm256_add_epi16(x, _mm256_set1_epi32(tokens[t].seed[first / 4][g]));
            sum[t] = in_order(i == 0 ? x : _mm256_add_epi16(sum[t], x));
        }
    }
}

/* dot = the integer sums of group g. */
KIPU_INLINE void tile_dots(int type, int nt, __m256i dot[], const panel_chunk *panel, const token_chunk *tokens, int g, int side) {
#pragma GCC unroll 8
    for (int w = 0; w < K4; w += tile_run(type)) {
        __m256i sum[TILE_TOKENS], factor = _mm256_set1_epi16(1);
        if (type == KIPU_Q6_K)
            factor = _mm256_loadu_si256((const __m256i *)&panel->half_scale[g][w / 4][side * SIDE_ROWS]);
        tile_pairs(type, nt, sum, panel, tokens, g, w, side);
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++) {
            __m256i x = _mm256_madd_epi16(sum[t], factor);
            dot[t] = in_order(w == 0 ? x : _mm256_add_epi32(dot[t], x));
        }
    }
}

/* y += scale * d * dot (+ min * ds), eight rows */
KIPU_INLINE void tile_group(int type, int nt, float *y, const panel_chunk *panel, const token_chunk *tokens, int g, int side) {
    __m256i dot[TILE_TOKENS];
    __m256 scale = _mm256_loadu_ps(&panel->scale[g][side * SIDE_ROWS]);
    tile_dots(type, nt, dot, panel, tokens, g, side);
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++) {
        float *out = y + t * KIPU_PANEL_ROWS;
        if (has_min(type) && tile_zero(type))
            dot[t] = _mm256_add_epi32(dot[t], _mm256_set1_epi32(tokens[t].lift[g]));
        __m256 acc = _mm256_mul_ps(scale, _mm256_set1_ps(tokens[t].d[g]));
        acc = _mm256_fmadd_ps(acc, _mm256_cvtepi32_ps(dot[t]), _mm256_loadu_ps(out));
        if (has_min(type))
            acc = _mm256_fmadd_ps(_mm256_loadu_ps(&panel->min[g][side * SIDE_ROWS]), _mm256_set1_ps(tokens[t].ds[g]), acc);
        _mm256_storeu_ps(out, acc);
    }
}

/* y[token][16] += panel . tokens over n_groups groups. */
KIPU_INLINE void tile_of(int type, int nt, float *y, const panel_chunk *panel, const token_chunk *tokens, int n_groups) {
    for (int g = 0; g < n_groups; g++) {
#pragma GCC unroll 2
        for (int side = 0; side < SIDES; side++)
            tile_group(type, nt, y + side * SIDE_ROWS, panel, tokens, g, side);
    }
}

#endif
