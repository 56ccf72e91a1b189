/* One token, or a few, times quantised panels: limited by memory bandwidth, so a panel is read in address order, with prefetch, and
 * decoded in registers. The groups in flight hide the latency of vpdpbusd (their integer sums are independent); only the float chain of
 * each output is serial, one or two fma per group. Always inlined with a constant format and number of tokens. */
#ifndef KIPU_KERNELS_AVX512_MATMUL_GEMV_AVX512_H
#define KIPU_KERNELS_AVX512_MATMUL_GEMV_AVX512_H

#include "kernels/avx512/matmul_codes_avx512.h"

enum {
    PREFETCH_AHEAD = 1024,   /* bytes; past the end of the panels it touches nothing (a prefetch cannot fault) */
    FEW_TOKENS = 4           /* most tokens of one pass */
};

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
    int slots = block_groups(type) / step_groups(type) * step_words(type), slot = step * step_words(type) + w;
    int lines = (block_bytes(type) + 63) / 64, end = (slot + 1) * lines / slots;
#pragma GCC unroll 4
    for (int i = slot * lines / slots; i < end; i++)
        _mm_prefetch((const char *)block + PREFETCH_AHEAD + 64 * i, _MM_HINT_T0);
}

/* Q6_K: sums of the 16 half groups of a block. Four neighbours hold the same value: half i stands at sums[4 * i]. */
KIPU_INLINE void half_sums(int32_t sums[64], const int8_t *q) {
    __m512i ones = _mm512_set1_epi8(1);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i x = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_loadu_si512(q + 64 * i));
        x = _mm512_add_epi32(x, _mm512_shuffle_epi32(x, _MM_PERM_BADC));
        x = _mm512_add_epi32(x, _mm512_shuffle_epi32(x, _MM_PERM_CDAB));
        _mm512_storeu_si512(sums + 16 * i, x);
    }
}

/* Start values that take the zero point away: -zero * s. */
KIPU_INLINE __m512i zero_seeds(int type, __m512i s) {
    if (zero_point(type) == 0)
        return _mm512_setzero_si512();
    unsigned shift = (unsigned)__builtin_ctz((unsigned)zero_point(type));
    return _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(s, shift));
}

/* Integer sums of one step: sum[g][i] belongs to group g of the step; the caller adds [0] and [1], which are chains of their own:
 * k4 0..3 and 4..7 with one token and for Q6_K, else all of k4 is [0]. */
typedef __m512i step_sums[2][2];

KIPU_INLINE bool two_chains(int type, int nt) { return nt == 1 || type == KIPU_Q6_K; }

KIPU_INLINE void start_sums(int type, int nt, step_sums sum[], int first, const int32_t halves[][64], few_acts a) {
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++) {
#pragma GCC unroll 2
        for (int g = 0; g < step_groups(type); g++) {
            int i = first + g;
            int32_t s = type == KIPU_Q6_K ? halves[t][8 * i] : a.s[t * (a.k / KIPU_GROUP) + i];
            sum[t][g][0] = zero_seeds(type, _mm512_set1_epi32(s));
            sum[t][g][1] = type == KIPU_Q6_K ? zero_seeds(type, _mm512_set1_epi32(halves[t][8 * i + 4])) : _mm512_setzero_si512();
        }
    }
}

KIPU_INLINE void add_products(int type, int nt, step_sums sum[], const uint8_t *block, int step, few_acts a) {
#pragma GCC unroll 8
    for (int w = 0; w < step_words(type); w++) {
        __m512i code[2];
        prefetch_share(type, block, step, w);
        decode_word(type, code, block, step, w);
#pragma GCC unroll 2
        for (int c = 0; c < word_codes(type); c++) {
            int g = code_group(type, c), k4 = code_k4(type, w, c), chain = two_chains(type, nt) ? k4 / 4 : 0;
            const int8_t *q = a.q + KIPU_GROUP * (step * step_groups(type) + g) + 4 * k4;
#pragma GCC unroll 4
            for (int t = 0; t < nt; t++)
                sum[t][g][chain] = dot4(sum[t][g][chain], code[c], q + t * a.k);
        }
    }
}

/* Both chains of a group as one float. */
KIPU_INLINE __m512 join_sums(int type, int nt, const __m512i sum[2], const uint8_t *block, int g) {
    if (type == KIPU_Q6_K) {
        /* Both products and their sum stay below 2^24, so the float arithmetic is the exact integer arithmetic. */
        __m512 last = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[1]), half_scale(block, 2 * g + 1));
        return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[0]), half_scale(block, 2 * g), last);
    }
    return _mm512_cvtepi32_ps(two_chains(type, nt) ? _mm512_add_epi32(sum[0], sum[1]) : sum[0]);
}

/* acc[t] after group g of the block (group i of its step). */
KIPU_INLINE void add_few_group(int type, int nt, __m512 acc[], const block_scales *scales, const uint8_t *block, int g, step_sums sum[],
                               int i, few_acts a) {
    __m512 dw = group_scale(type, scales, g), mw = has_min(type) ? group_min(type, scales, g) : dw;
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++) {
        int64_t at = t * (a.k / KIPU_GROUP) + g;
        __m512 d = _mm512_set1_ps(a.d[at]);
        acc[t] = _mm512_fmadd_ps(_mm512_mul_ps(dw, d), join_sums(type, nt, sum[t][i], block, g), acc[t]);
        if (has_min(type))
            acc[t] = _mm512_fmadd_ps(mw, _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_set1_epi32(a.s[at]))), acc[t]);
    }
}

KIPU_INLINE void gemv_block(int type, int nt, __m512 acc[], const uint8_t *block, few_acts a) {
    block_scales scales = load_scales(type, block);
    int32_t halves[FEW_TOKENS][64];
    if (type == KIPU_Q6_K) {
        for (int t = 0; t < nt; t++)
            half_sums(halves[t], a.q + t * a.k);
    }
#pragma GCC unroll 4
    for (int step = 0; step < block_groups(type) / step_groups(type); step++) {
        step_sums sum[FEW_TOKENS];
        int first = step * step_groups(type);
        start_sums(type, nt, sum, first, halves, a);
        add_products(type, nt, sum, block, step, a);
#pragma GCC unroll 2
        for (int i = 0; i < step_groups(type); i++)
            add_few_group(type, nt, acc, &scales, block, first + i, sum, i, a);
    }
}

/* One panel times nt tokens: y[token][16]. */
KIPU_INLINE void gemv_panel(int type, int nt, float *y, const uint8_t *block, few_acts a) {
    __m512 acc[FEW_TOKENS];
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++)
        acc[t] = _mm512_setzero_ps();
    for (int64_t n = a.k / KIPU_GROUP / block_groups(type); n > 0; n--, block += block_bytes(type), a = acts_behind(a, block_groups(type)))
        gemv_block(type, nt, acc, block, a);
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++)
        _mm512_storeu_ps(y + t * KIPU_PANEL_ROWS, acc[t]);
}

/* The body of every quantised gemv of kernels.h. */
KIPU_INLINE void gemv_body(int type, float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    size_t panel_bytes = (size_t)(a->k / KIPU_GROUP / block_groups(type)) * block_bytes(type);
    for (int p = 0; p < n_panels; p++)
        gemv_panel(type, 1, y + p * KIPU_PANEL_ROWS, (const uint8_t *)panels + p * panel_bytes, acts_from(a, token));
}

#endif
