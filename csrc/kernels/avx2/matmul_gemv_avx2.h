/* One token, or a few, times quantised panels: limited by memory bandwidth, so a panel is read in address order, with prefetch, and
 * decoded in registers. Always inlined with a constant format and number of tokens.
 *
 * Pairs of products are added in 16 bits as long as they cannot overflow: a run. Codes below 16 allow the whole group (8 words of four
 * activations: 8 * 2 * 15 * 127 = 30480), those below 32 half of it, those below 64 two words, Q8_0 only one. vpmaddwd then adds the two
 * sums of each lane in 32 bits; for Q6_K it multiplies by the scale of the half group in the same instruction. */
#ifndef KIPU_KERNELS_AVX2_MATMUL_GEMV_AVX2_H
#define KIPU_KERNELS_AVX2_MATMUL_GEMV_AVX2_H

#include "kernels/avx2/matmul_codes_avx2.h"

enum {
    PREFETCH_AHEAD = 1024,   /* bytes; past the end of the panels it touches nothing (a prefetch cannot fault) */
    FEW_TOKENS = 4           /* most tokens of one pass */
};

/* Tokens of one pass. Where decoding is long, gemm does better to keep the codes for more than two. */
KIPU_INLINE int few_tokens(int type) { return is_k_quant(type) || has_fifth_bit(type) ? 2 : FEW_TOKENS; }

/* Words of a step whose products are one run. */
KIPU_INLINE int run_words(int type) {
    return type == KIPU_Q8_0 ? 1 : type == KIPU_Q6_K ? 2 : has_fifth_bit(type) ? step_words(type) / 2 : step_words(type);
}

/* Some tokens from group g on: token t lies k codes and k / 32 groups behind token t - 1. */
typedef struct few_acts {
    const int8_t *q;
    const float *d;
    const int32_t *s;
    int64_t k;
} few_acts;

KIPU_INLINE few_acts acts_from(const kipu_acts *a, int token) {
    int64_t groups = a->k / KIPU_GROUP;
    return (few_acts){a->q + (int64_t)token * a->k, a->d + token * groups, a->s + token * groups, a->k};
}

KIPU_INLINE few_acts acts_behind(few_acts a, int64_t groups) {
    return (few_acts){a.q + KIPU_GROUP * groups, a.d + groups, a.s + groups, a.k};
}

/* The share of word w of step `step` in prefetching a later block: spread evenly, since a burst would fill the queue of misses. */
KIPU_INLINE void prefetch_share(int type, const uint8_t *block, int step, int w) {
    int slots = block_steps(type) * step_words(type), slot = step * step_words(type) + w;
    int lines = (block_bytes(type) + 63) / 64, end = (slot + 1) * lines / slots;
#pragma GCC unroll 4
    for (int i = slot * lines / slots; i < end; i++)
        _mm_prefetch((const char *)block + PREFETCH_AHEAD + 64 * i, _MM_HINT_T0);
}

/* Q6_K: what takes the zero point away needs the scales of the rows: -32 (sc_0 s_0 + sc_1 s_1), s_0 and s_1 the sums over the halves of
 * the group. One vpmaddwd of (-16 s_0, -16 s_1), which fits 16 bits, and (2 sc_0, 2 sc_1). Here the first pair, for four groups. */
KIPU_INLINE __m128i half_seeds_of_4(const int8_t *q) {
    __m256i sum[4], one = _mm256_set1_epi8(1);
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++) {
        __m256i pairs = _mm256_maddubs_epi16(one, _mm256_loadu_si256((const __m256i *)(q + KIPU_GROUP * g)));
        sum[g] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));   /* half 0 in the lower four lanes, half 1 in the upper */
    }
    __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[0], sum[1]), _mm256_hadd_epi32(sum[2], sum[3]));
    all = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(all, 4));
    return _mm_blend_epi16(_mm256_castsi256_si128(all), _mm_slli_epi32(_mm256_extracti128_si256(all, 1), 16), 0xaa);
}

KIPU_INLINE void half_seeds(int32_t seeds[8], const int8_t *q) {
    _mm_storeu_si128((__m128i *)seeds, half_seeds_of_4(q));
    _mm_storeu_si128((__m128i *)(seeds + 4), half_seeds_of_4(q + 4 * KIPU_GROUP));
}

/* Start values that take the zero point away: -zero * s. */
KIPU_INLINE __m256i zero_seeds(int type, __m256i s) {
    if (zero_point(type) == 0)
        return _mm256_setzero_si256();
    return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(s, __builtin_ctz((unsigned)zero_point(type))));
}

/* Integer sums of one side of a step: sum[t][g], g counts inside the step. */
typedef __m256i step_sums[4];

KIPU_INLINE void start_sums(int type, int nt, step_sums sum[], const uint8_t *block, int first, int side, const int32_t halves[][8],
                            few_acts a) {
#pragma GCC unroll 4
    for (int g = 0; g < step_groups(type); g++) {
        int i = first + g;
        __m256i scales = _mm256_setzero_si256();
        if (type == KIPU_Q6_K) {
            scales = _mm256_blend_epi16(half_scale(block, 2 * i, side), half_scale(block, 2 * i + 1, side), 0xaa);
            scales = _mm256_slli_epi16(scales, 1);
        }
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++) {
            if (type == KIPU_Q6_K)
                sum[t][g] = _mm256_madd_epi16(_mm256_set1_epi32(halves[t][i]), scales);
            else
                sum[t][g] = zero_seeds(type, _mm256_set1_epi32(a.s[t * (a.k / KIPU_GROUP) + i]));
        }
    }
}

/* pairs[t][g] of one run: words w .. w + run_words - 1. */
KIPU_INLINE void run_pairs(int type, int nt, step_sums pairs[], const uint8_t *block, int step, int first_word, int side, few_acts a) {
#pragma GCC unroll 8
    for (int w = first_word; w < first_word + run_words(type); w++) {
        __m256i code[4];
        if (side == 0)
            prefetch_share(type, block, step, w);
        decode_word(type, code, block, step, w, side);
#pragma GCC unroll 4
        for (int c = 0; c < word_codes(type); c++) {
            int g = code_group(type, c);
            bool starts = w == first_word && (is_k_quant(type) || c == 0);
            const int8_t *q = a.q + KIPU_GROUP * (step * step_groups(type) + g) + 4 * code_k4(type, w, c);
#pragma GCC unroll 4
            for (int t = 0; t < nt; t++) {
                __m256i x = pair_products(type, code[c], broadcast4(q + t * a.k));
                pairs[t][g] = in_order(starts ? x : _mm256_add_epi16(pairs[t][g], x));
            }
        }
    }
}

KIPU_INLINE void add_products(int type, int nt, step_sums sum[], const uint8_t *block, int step, int side, few_acts a) {
#pragma GCC unroll 8
    for (int w = 0; w < step_words(type); w += run_words(type)) {
        step_sums pairs[FEW_TOKENS];
        run_pairs(type, nt, pairs, block, step, w, side, a);
#pragma GCC unroll 4
        for (int g = 0; g < step_groups(type); g++) {
            __m256i factor = _mm256_set1_epi16(1);
            if (type == KIPU_Q6_K)
                factor = half_scale(block, 2 * (step * step_groups(type) + g) + w / 4, side);
#pragma GCC unroll 4
            for (int t = 0; t < nt; t++)
                sum[t][g] = in_order(_mm256_add_epi32(sum[t][g], _mm256_madd_epi16(pairs[t][g], factor)));
        }
    }
}

/* acc[t] after group g of the block, whose integer sums are sum[t][i]. */
KIPU_INLINE void add_group(int type, int nt, __m256 acc[], const block_scales *scales, int g, step_sums sum[], int i, few_acts a) {
    __m256 dw = group_scale(type, scales, g), mw = has_min(type) ? group_min(type, scales, g) : dw;
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++) {
        int64_t at = t * (a.k / KIPU_GROUP) + g;
        __m256 d = _mm256_set1_ps(a.d[at]);
        acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(dw, d), _mm256_cvtepi32_ps(sum[t][i]), acc[t]);
        if (has_min(type))
            acc[t] = _mm256_fmadd_ps(mw, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_set1_epi32(a.s[at]))), acc[t]);
    }
}

/* One side of a block; acc[t] are its 8 rows. */
KIPU_INLINE void gemv_side(int type, int nt, __m256 acc[], const uint8_t *block, int side, const int32_t halves[][8], few_acts a) {
    block_scales scales = load_scales(type, block, side);
#pragma GCC unroll 4
    for (int step = 0; step < block_steps(type); step++) {
        step_sums sum[FEW_TOKENS];
        int first = step * step_groups(type);
        start_sums(type, nt, sum, block, first, side, halves, a);
        add_products(type, nt, sum, block, step, side, a);
#pragma GCC unroll 4
        for (int i = 0; i < step_groups(type); i++)
            add_group(type, nt, acc, &scales, first + i, sum, i, a);
    }
}

KIPU_INLINE void gemv_block(int type, int nt, __m256 acc[SIDES][FEW_TOKENS], const uint8_t *block, few_acts a) {
    int32_t halves[FEW_TOKENS][8];
    if (type == KIPU_Q6_K) {
        for (int t = 0; t < nt; t++)
            half_seeds(halves[t], a.q + t * a.k);
    }
#pragma GCC unroll 2
    for (int side = 0; side < SIDES; side++)
        gemv_side(type, nt, acc[side], block, side, halves, a);
}

/* One panel times nt tokens: y[token][16]. */
KIPU_INLINE void gemv_panel(int type, int nt, float *y, const uint8_t *block, few_acts a) {
    __m256 acc[SIDES][FEW_TOKENS];
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++)
        acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (int64_t n = a.k / KIPU_GROUP / block_groups(type); n > 0; n--, block += block_bytes(type), a = acts_behind(a, block_groups(type)))
        gemv_block(type, nt, acc, block, a);
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++) {
        _mm256_storeu_ps(y + t * KIPU_PANEL_ROWS, acc[0][t]);
        _mm256_storeu_ps(y + t * KIPU_PANEL_ROWS + SIDE_ROWS, acc[1][t]);
    }
}

/* The body of every quantised gemv of kernels.h. */
KIPU_INLINE void gemv_body(int type, float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    size_t panel_bytes = (size_t)(a->k / KIPU_GROUP / block_groups(type)) * block_bytes(type);
    for (int p = 0; p < n_panels; p++)
        gemv_panel(type, 1, y + p * KIPU_PANEL_ROWS, (const uint8_t *)panels + p * panel_bytes, acts_from(a, token));
}

#endif
