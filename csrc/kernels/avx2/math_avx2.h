/* exp, tanh and sums of ref/math_ref.h, eight lanes at a time: the same operations, the same bits. Also loads and stores of array ends.
 * Only for files of this tier. */
#ifndef KIPU_KERNELS_AVX2_MATH_AVX2_H
#define KIPU_KERNELS_AVX2_MATH_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/ref/math_ref.h"

enum { KIPU_NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

/* Lanes of the last vector of an array: all ones in the first `left` (0..8) lanes. */
static inline __m256i kipu_lanes_avx2(int64_t left) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The next eight values of an array that has `left` more of them; 0 beyond its end, which is not touched. left may be 0 or less. */
static inline __m256 kipu_load_avx2(const float *x, int64_t left) {
    if (left >= 8) return _mm256_loadu_ps(x);
    return left > 0 ? _mm256_maskload_ps(x, kipu_lanes_avx2(left)) : _mm256_setzero_ps();
}

static inline void kipu_store_avx2(float *y, __m256 v, int64_t left) {
    if (left >= 8) _mm256_storeu_ps(y, v);
    else if (left > 0) _mm256_maskstore_ps(y, kipu_lanes_avx2(left), v);
}

/* exp(x) where x is at least KIPU_EXP_MIN or NaN, else 0. For x <= KIPU_EXP_MAX. */
static inline __m256 kipu_exp_below_avx2(__m256 x) {
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(KIPU_EXP_LOG2E)), KIPU_NEAREST);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(KIPU_EXP_LN2_HI), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(KIPU_EXP_LN2_LO), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(KIPU_EXP_C5), r, _mm256_set1_ps(KIPU_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KIPU_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KIPU_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KIPU_EXP_C1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);   /* of NaN: 0, so p stays NaN */
    p = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    return _mm256_and_ps(p, _mm256_cmp_ps(x, _mm256_set1_ps(KIPU_EXP_MIN), _CMP_NLT_UQ));
}

static inline __m256 kipu_exp_avx2(__m256 x) {
    __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(KIPU_EXP_MAX), _CMP_GT_OQ);
    return _mm256_blendv_ps(kipu_exp_below_avx2(x), _mm256_set1_ps(INFINITY), above);
}

static inline __m256 kipu_tanh_avx2(__m256 x) {
    __m256 one = _mm256_set1_ps(1.0f), two = _mm256_set1_ps(2.0f);
    return _mm256_sub_ps(one, _mm256_div_ps(two, _mm256_add_ps(kipu_exp_avx2(_mm256_mul_ps(two, x)), one)));
}

/* Lanes 0..7 and 8..15. */
static inline float kipu_tree16_avx2(__m256 low, __m256 high) {
    __m256 u = _mm256_add_ps(low, high);
    __m128 w = _mm_add_ps(_mm256_castps256_ps128(u), _mm256_extractf128_ps(u, 1));
    w = _mm_add_ps(w, _mm_movehl_ps(w, w));
    return _mm_cvtss_f32(_mm_add_ss(w, _mm_movehdup_ps(w)));
}

/* Largest lane; no lane may be NaN. */
static inline float kipu_max8_avx2(__m256 x) {
    __m128 w = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    w = _mm_max_ps(w, _mm_movehl_ps(w, w));
    return _mm_cvtss_f32(_mm_max_ss(w, _mm_movehdup_ps(w)));
}

#endif
