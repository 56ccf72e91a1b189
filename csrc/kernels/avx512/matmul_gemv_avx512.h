/* One token times quantised panels: limited by memory bandwidth, so panels are read once, in address order, with prefetch, and decoded in
 * registers. The groups in flight hide the latency of vpdpbusd (their integer sums are independent); only the one float chain of each
 * output is serial, one or two fma per group. Always inlined with a constant format. */
#ifndef KIPU_KERNELS_AVX512_MATMUL_GEMV_AVX512_H
#define KIPU_KERNELS_AVX512_MATMUL_GEMV_AVX512_H

#include "kernels/avx512/matmul_codes_avx512.h"

enum { PREFETCH_AHEAD = 2048 };   /* bytes; past the end of the panels it touches nothing (a prefetch cannot fault) */

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

/* Sums of one step: sum[g][0] over k4 0..3, sum[g][1] over k4 4..7 of its group g. */
KIPU_INLINE void step_sums(int type, __m512i sum[4][2], const uint8_t *block, int step, const int8_t *q) {
#pragma GCC unroll 8
    for (int w = 0; w < step_words(type); w++) {
        __m512i code[4];
        prefetch_share(type, block, step, w);
        decode_word(type, code, block, step, w);
#pragma GCC unroll 4
        for (int c = 0; c < word_codes(type); c++) {
            int g = code_group(type, c), k4 = code_k4(type, w, c);
            sum[g][k4 / 4] = dot4(sum[g][k4 / 4], code[c], q + KIPU_GROUP * g + 4 * k4);
        }
    }
}

/* acc after group g of the block; sum: its two integer half sums; d, s: the activations' scale and code sum. */
KIPU_INLINE __m512 add_group(int type, __m512 acc, const block_scales *scales, const uint8_t *block, int g, const __m512i sum[2], float d, int32_t s) {
    __m512 da = _mm512_set1_ps(d), dd = _mm512_mul_ps(group_scale(type, scales, g), da), dot;
    if (type == KIPU_Q6_K) {
        /* Both products and their sum stay below 2^24, so the float arithmetic is the exact integer arithmetic. */
        dot = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[1]), half_scale(block, 2 * g + 1));
        dot = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[0]), half_scale(block, 2 * g), dot);
    } else {
        dot = _mm512_cvtepi32_ps(_mm512_add_epi32(sum[0], sum[1]));
    }
    acc = _mm512_fmadd_ps(dd, dot, acc);
    if (has_min(type)) {
        __m512 ds = _mm512_mul_ps(da, _mm512_cvtepi32_ps(_mm512_set1_epi32(s)));
        acc = _mm512_fmadd_ps(group_min(type, scales, g), ds, acc);
    }
    return acc;
}

KIPU_INLINE __m512 gemv_block(int type, __m512 acc, const uint8_t *block, const int8_t *q, const float *d, const int32_t *s) {
    block_scales scales = load_scales(type, block);
    int32_t halves[64];
    if (type == KIPU_Q6_K)
        half_sums(halves, q);
#pragma GCC unroll 4
    for (int step = 0; step < block_groups(type) / step_groups(type); step++) {
        int first = step * step_groups(type);
        __m512i sum[4][2];
#pragma GCC unroll 4
        for (int g = 0; g < step_groups(type); g++) {
            sum[g][0] = zero_seeds(type, _mm512_set1_epi32(type == KIPU_Q6_K ? halves[8 * (first + g)] : s[first + g]));
            sum[g][1] = type == KIPU_Q6_K ? zero_seeds(type, _mm512_set1_epi32(halves[8 * (first + g) + 4])) : _mm512_setzero_si512();
        }
        step_sums(type, sum, block, step, q + KIPU_GROUP * first);
#pragma GCC unroll 4
        for (int g = 0; g < step_groups(type); g++)
            acc = add_group(type, acc, &scales, block, first + g, sum[g], d[first + g], s[first + g]);
    }
    return acc;
}

/* The body of every quantised gemv of kernels.h. */
KIPU_INLINE void gemv_body(int type, float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    int64_t n_groups = a->k / KIPU_GROUP, n_blocks = n_groups / block_groups(type);
    const int8_t *q = a->q + (int64_t)token * a->k;
    const float *d = a->d + token * n_groups;
    const int32_t *s = a->s + token * n_groups;
    const uint8_t *block = panels;
    for (int p = 0; p < n_panels; p++) {
        __m512 acc = _mm512_setzero_ps();
        for (int64_t b = 0; b < n_blocks; b++, block += block_bytes(type)) {
            int64_t g = b * block_groups(type);
            acc = gemv_block(type, acc, block, q + KIPU_GROUP * g, d + g, s + g);
        }
        _mm512_storeu_ps(y + (size_t)KIPU_PANEL_ROWS * p, acc);
    }
}

#endif
