/* exp, tanh and sums of ref/math_ref.h, sixteen lanes at a time: the same operations, the same bits. Only for files of this tier. */
#ifndef KIPU_KERNELS_AVX512_MATH_AVX512_H
#define KIPU_KERNELS_AVX512_MATH_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/ref/math_ref.h"

enum { KIPU_NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

/* Lanes of the last vector of an array: min(left, 16) bits. */
static inline __mmask16 kipu_lanes_avx512(int64_t left) { return left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1); }

/* exp(x) in lanes of `in` that are >= KIPU_EXP_MIN or NaN, 0 in the others. For x <= KIPU_EXP_MAX. */
static inline __m512 kipu_exp_below_avx512(__mmask16 in, __m512 x) {
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(KIPU_EXP_LOG2E)), KIPU_NEAREST);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(KIPU_EXP_LN2_HI), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(KIPU_EXP_LN2_LO), r);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(KIPU_EXP_C5), r, _mm512_set1_ps(KIPU_EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KIPU_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KIPU_EXP_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KIPU_EXP_C1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    in = _mm512_mask_cmp_ps_mask(in, x, _mm512_set1_ps(KIPU_EXP_MIN), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(in, p, n);
}

static inline __m512 kipu_exp_avx512(__m512 x) {
    __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(KIPU_EXP_MAX), _CMP_GT_OQ);
    return _mm512_mask_mov_ps(kipu_exp_below_avx512(0xffff, x), above, _mm512_set1_ps(INFINITY));
}

static inline __m512 kipu_tanh_avx512(__m512 x) {
    __m512 one = _mm512_set1_ps(1.0f), two = _mm512_set1_ps(2.0f);
    return _mm512_sub_ps(one, _mm512_div_ps(two, _mm512_add_ps(kipu_exp_avx512(_mm512_mul_ps(two, x)), one)));
}

static inline float kipu_tree16_avx512(__m512 t) {
    __m256 u = _mm256_add_ps(_mm512_castps512_ps256(t), _mm512_extractf32x8_ps(t, 1));
    __m128 w = _mm_add_ps(_mm256_castps256_ps128(u), _mm256_extractf128_ps(u, 1));
    w = _mm_add_ps(w, _mm_movehl_ps(w, w));
    return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}

/* One level of sixteen reductions at once. */
static inline __m512i kipu_join_avx512(__m512i a, __m512i b, bool max) { return max ? _mm512_max_epu32(a, b) : _mm512_add_epi32(a, b); }

/* Lane r of the result: the largest (as unsigned) or the sum of the 16 integers of row r. Each level joins halves of two vectors, so that
 * every lane works:
 *
 *     row a, row b          -> a0+a8 .. a7+a15 | b0+b8 .. b7+b15                      16 vectors -> 8
 *     rows a b, rows c d    -> 4 lanes each of a b c d                                8 -> 4
 *     a b c d, e f g h      -> 2 lanes each of a e | b f | c g | d h                  4 -> 2
 *     8 rows, 8 rows        -> a e i m | b f j n | c g k o | d h l p                  2 -> 1
 *
 * Rows enter in the order that makes the last line ascend: a is row 0, e row 1, i row 2, m row 3, b row 4 ... */
static inline __attribute__((always_inline)) __m512i kipu_reduce16_avx512(const __m512i row[16], bool max) {
    __m512i x[16];
    for (int k = 0; k < 16; k++) x[k] = row[4 * (k % 4) + k / 4];
    for (int k = 0; k < 8; k++) {
        __m512i a = x[2 * k], b = x[2 * k + 1];
        x[k] = kipu_join_avx512(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee), max);
    }
    for (int k = 0; k < 4; k++) {
        __m512i a = x[2 * k], b = x[2 * k + 1];
        x[k] = kipu_join_avx512(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd), max);
    }
    for (int k = 0; k < 2; k++) {
        __m512i a = x[2 * k], b = x[2 * k + 1];
        x[k] = kipu_join_avx512(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b), max);
    }
    __m512 a = _mm512_castsi512_ps(x[0]), b = _mm512_castsi512_ps(x[1]);
    __m512i even = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)), odd = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd));
    return kipu_join_avx512(even, odd, max);
}

#endif
