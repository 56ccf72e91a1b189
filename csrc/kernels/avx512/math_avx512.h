/* exp, tanh and sums of ref/math_ref.h, sixteen lanes at a time: the same operations, the same bits. Only for files of this tier. */
#ifndef KIPU_KERNELS_AVX512_MATH_AVX512_H
#define KIPU_KERNELS_AVX512_MATH_AVX512_H

#include <immintrin.h>
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

#endif
