#include "kernels/avx512/rows_avx512.h"

#include <stdbool.h>
#include "kernels/avx512/math_avx512.h"
#include "kernels/kernels.h"

/* Every loop takes 16 elements per turn under a mask that is full except in the last turn. */

/* ---------------------------------------------------------------------------------------------- quantize */

/* Bits of |x|: as integers they order like the floats, NaN above infinity. */
static inline __m512i absolute(__m512 x) { return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)); }

/* 16 codes: x * id, to the nearest integer, clamped to +-127 before the conversion (id may be infinite), NaN to 0. */
static inline __m512i to_codes(__m512 x, __m512 id) {
    __m512 v = _mm512_mul_ps(x, id);
    __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    v = _mm512_max_ps(_mm512_min_ps(v, _mm512_set1_ps(127.0f)), _mm512_set1_ps(-127.0f));
    return _mm512_maskz_cvt_roundps_epi32(number, v, KIPU_NEAREST);
}

/* The scale amax / 127 and, in all lanes, its inverse 127 / amax: one division for both.
 * Where amax is not finite the scale is NaN and the inverse 0, so that all codes become 0 by themselves. */
static inline float scale_of(uint32_t amax, __m512 *id) {
    __m128 top = _mm_castsi128_ps(_mm_cvtsi32_si128((int)amax)), full = _mm_set_ss(127.0f);
    __m128 quotients = _mm_div_ps(_mm_unpacklo_ps(top, full), _mm_unpacklo_ps(full, top));
    bool finite = amax < 0x7f800000;
    *id = _mm512_maskz_broadcastss_ps(finite && amax ? 0xffff : 0, _mm_movehdup_ps(quotients));
    return finite ? _mm_cvtss_f32(quotients) : NAN;
}

static inline __m512i larger_of_two(const float *x) {
    return _mm512_max_epu32(absolute(_mm512_loadu_ps(x)), absolute(_mm512_loadu_ps(x + 16)));
}

/* 32 codes with a given inverse scale, and their sum. */
static inline void group_codes(int8_t *q, int32_t *s, const float *x, __m512 id) {
    __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
    __m512i q0 = to_codes(x0, id), q1 = to_codes(x1, id);
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(q0));
    _mm_storeu_si128((__m128i *)(q + 16), _mm512_cvtepi32_epi8(q1));
    *s = _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1));
}

static inline void quantize_group(int8_t *q, float *d, int32_t *s, const float *x) {
    __m512 id;
    *d = scale_of(_mm512_reduce_max_epu32(larger_of_two(x)), &id);
    group_codes(q, s, x, id);
}

/* 16 codes where x * id is a number within +-127.5 for sure. */
static inline __m512i plain_codes(const float *x, __m512 id) {
    return _mm512_cvt_roundps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), id), KIPU_NEAREST);
}

/* Codes of two groups; their sums over lanes i and i + 16 go to sum[0] and sum[1]. Packing works within 128-bit lanes and leaves
 * words of four codes in the order  a0 a4 b0 b4 | a1 a5 b1 b5 | a2 a6 b2 b6 | a3 a7 b3 b7. */
static inline void quantize_two(int8_t *q, __m512i sum[2], const float *x, const float *id) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i a0 = plain_codes(x, _mm512_set1_ps(id[0])), a1 = plain_codes(x + 16, _mm512_set1_ps(id[0]));
    __m512i b0 = plain_codes(x + 32, _mm512_set1_ps(id[1])), b1 = plain_codes(x + 48, _mm512_set1_ps(id[1]));
    __m512i codes = _mm512_packs_epi16(_mm512_packs_epi32(a0, a1), _mm512_packs_epi32(b0, b1));
    _mm512_storeu_si512(q, _mm512_permutexvar_epi32(order, codes));
    sum[0] = _mm512_add_epi32(a0, a1);
    sum[1] = _mm512_add_epi32(b0, b1);
}

/* Sixteen groups with two divisions in all. False, and nothing done: one of them has no plain scale (zero, tiny, infinite or NaN). */
static inline bool quantize_sixteen(int8_t *q, float *d, int32_t *s, const float *x) {
    const __m512 full = _mm512_set1_ps(127.0f);
    __m512i row[16];
    float id[16];
    for (int g = 0; g < 16; g++)
        row[g] = larger_of_two(x + g * KIPU_GROUP);
    __m512 amax = _mm512_castsi512_ps(kipu_reduce16_avx512(row, true));
    __mmask16 plain = _mm512_cmp_ps_mask(amax, _mm512_set1_ps(1e-35f), _CMP_GE_OQ);
    if (_mm512_mask_cmp_ps_mask(plain, amax, _mm512_set1_ps(INFINITY), _CMP_LT_OQ) != 0xffff) return false;
    _mm512_storeu_ps(d, _mm512_div_ps(amax, full));
    _mm512_storeu_ps(id, _mm512_div_ps(full, amax));
    for (int g = 0; g < 16; g += 2) quantize_two(q + g * KIPU_GROUP, row + g, x + g * KIPU_GROUP, id + g);
    _mm512_storeu_si512(s, kipu_reduce16_avx512(row, false));
    return true;
}

void kipu_quantize__avx512(int8_t *q, float *d, int32_t *s, const float *x, int64_t k) {
    int64_t groups = k / KIPU_GROUP, g = 0;
    while (g < groups) {
        if (groups - g >= 16 && quantize_sixteen(q + g * KIPU_GROUP, d + g, s + g, x + g * KIPU_GROUP)) {
            g += 16;
            continue;
        }
        for (int64_t end = groups - g < 16 ? groups : g + 16; g < end; g++)
            quantize_group(q + g * KIPU_GROUP, d + g, s + g, x + g * KIPU_GROUP);
    }
}

void kipu_quantize_wide__avx512(int8_t *q, float *d, int32_t *s, const float *x, int64_t k) {
    enum { GROUPS = KIPU_WIDE / KIPU_GROUP };
    for (int64_t g = 0; g < k / KIPU_GROUP; g += GROUPS) {
        __m512i top = _mm512_setzero_si512();
        __m512 id;
        for (int i = 0; i < GROUPS; i++) top = _mm512_max_epu32(top, larger_of_two(x + (g + i) * KIPU_GROUP));
        float scale = scale_of(_mm512_reduce_max_epu32(top), &id);
        for (int i = 0; i < GROUPS; i++) {
            group_codes(q + (g + i) * KIPU_GROUP, &s[g + i], x + (g + i) * KIPU_GROUP, id);
            d[g + i] = scale;
        }
    }
}

/* ---------------------------------------------------------------------------------------------- norm and rope */

void kipu_rms_norm__avx512(float *y, const float *x, const float *w, int64_t n, float eps) {
    __m512 t = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        __m512 v = _mm512_maskz_loadu_ps(in, x + i);
        t = _mm512_mask3_fmadd_ps(v, v, t, in);
    }
    __m512 r = _mm512_set1_ps(1.0f / sqrtf(kipu_tree16_avx512(t) / (float)n + eps));
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, x + i), r);
        if (w) v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(in, w + i));
        _mm512_mask_storeu_ps(y + i, in, v);
    }
}

static inline void rotate(__m512 *x0, __m512 *x1, __m512 c, __m512 s) {
    __m512 y0 = _mm512_fmsub_ps(*x0, c, _mm512_mul_ps(*x1, s)), y1 = _mm512_fmadd_ps(*x0, s, _mm512_mul_ps(*x1, c));
    *x0 = y0;
    *x1 = y1;
}

/* x0 x1 x0 x1 ...: 16 pairs fill two vectors, taken apart and put together again by permutations. */
void kipu_rope_norm__avx512(float *x, const float *cos, const float *sin, int n_rot) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    int pairs = n_rot / 2;
    for (int i = 0; i < pairs; i += 16) {
        __mmask16 in = kipu_lanes_avx512(pairs - i), in0 = kipu_lanes_avx512(2 * (pairs - i)), in1 = 0;
        if (pairs - i > 8) in1 = kipu_lanes_avx512(2 * (pairs - i) - 16);
        __m512 a = _mm512_maskz_loadu_ps(in0, x + 2 * i), b = _mm512_maskz_loadu_ps(in1, x + 2 * i + 16);
        __m512 x0 = _mm512_permutex2var_ps(a, even, b), x1 = _mm512_permutex2var_ps(a, odd, b);
        rotate(&x0, &x1, _mm512_maskz_loadu_ps(in, cos + i), _mm512_maskz_loadu_ps(in, sin + i));
        _mm512_mask_storeu_ps(x + 2 * i, in0, _mm512_permutex2var_ps(x0, low, x1));
        _mm512_mask_storeu_ps(x + 2 * i + 16, in1, _mm512_permutex2var_ps(x0, high, x1));
    }
}

void kipu_rope_neox__avx512(float *x, const float *cos, const float *sin, int n_rot) {
    int pairs = n_rot / 2;
    for (int i = 0; i < pairs; i += 16) {
        __mmask16 in = kipu_lanes_avx512(pairs - i);
        __m512 x0 = _mm512_maskz_loadu_ps(in, x + i), x1 = _mm512_maskz_loadu_ps(in, x + pairs + i);
        rotate(&x0, &x1, _mm512_maskz_loadu_ps(in, cos + i), _mm512_maskz_loadu_ps(in, sin + i));
        _mm512_mask_storeu_ps(x + i, in, x0);
        _mm512_mask_storeu_ps(x + pairs + i, in, x1);
    }
}

/* ---------------------------------------------------------------------------------------------- gated units, softcap */

static inline __m512 negative(__m512 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }

/* g / (1 + exp(e)) * u */
static inline __m512 gated(__m512 g, __m512 e, __m512 u) {
    return _mm512_mul_ps(_mm512_div_ps(g, _mm512_add_ps(_mm512_set1_ps(1.0f), kipu_exp_avx512(e))), u);
}

void kipu_swiglu__avx512(float *y, const float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        __m512 g = _mm512_maskz_loadu_ps(in, gate + i), u = _mm512_maskz_loadu_ps(in, up + i);
        _mm512_mask_storeu_ps(y + i, in, gated(g, negative(g), u));
    }
}

void kipu_geglu__avx512(float *y, const float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        __m512 g = _mm512_maskz_loadu_ps(in, gate + i), u = _mm512_maskz_loadu_ps(in, up + i);
        __m512 z = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_set1_ps(0.044715f), g), g, _mm512_set1_ps(1.0f));
        z = _mm512_mul_ps(_mm512_set1_ps(0.79788456f), _mm512_mul_ps(g, z));
        _mm512_mask_storeu_ps(y + i, in, gated(g, _mm512_mul_ps(_mm512_set1_ps(-2.0f), z), u));
    }
}

void kipu_softcap__avx512(float *y, const float *x, float c, int64_t n) {
    __m512 cap = _mm512_set1_ps(c);
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        __m512 v = _mm512_div_ps(_mm512_maskz_loadu_ps(in, x + i), cap);
        _mm512_mask_storeu_ps(y + i, in, _mm512_mul_ps(cap, kipu_tanh_avx512(v)));
    }
}

/* ---------------------------------------------------------------------------------------------- add, scale, halves */

void kipu_add__avx512(float *y, const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        _mm512_mask_storeu_ps(y + i, in, _mm512_add_ps(_mm512_maskz_loadu_ps(in, a + i), _mm512_maskz_loadu_ps(in, b + i)));
    }
}

void kipu_scale__avx512(float *y, const float *x, float s, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        _mm512_mask_storeu_ps(y + i, in, _mm512_mul_ps(_mm512_maskz_loadu_ps(in, x + i), _mm512_set1_ps(s)));
    }
}

void kipu_to_half__avx512(uint16_t *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        _mm256_mask_storeu_epi16(y + i, in, _mm512_cvtps_ph(_mm512_maskz_loadu_ps(in, x + i), KIPU_NEAREST));
    }
}

void kipu_from_half__avx512(float *y, const uint16_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        _mm512_mask_storeu_ps(y + i, in, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(in, x + i)));
    }
}

/* ---------------------------------------------------------------------------------------------- argmax */

/* Largest value; vmaxps returns its second operand where one is NaN, so NaN never gets in. */
static float largest(const float *x, int64_t n) {
    __m512 top[4];
    int64_t i = 0;
    for (int j = 0; j < 4; j++) top[j] = _mm512_set1_ps(-INFINITY);
    for (; i + 64 <= n; i += 64)
        for (int j = 0; j < 4; j++) top[j] = _mm512_max_ps(_mm512_loadu_ps(x + i + 16 * j), top[j]);
    for (; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        top[0] = _mm512_mask_max_ps(top[0], in, _mm512_maskz_loadu_ps(in, x + i), top[0]);
    }
    return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(top[0], top[1]), _mm512_max_ps(top[2], top[3])));
}

int64_t kipu_argmax__avx512(const float *x, int64_t n) {
    __m512 top = _mm512_set1_ps(largest(x, n));
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = kipu_lanes_avx512(n - i);
        __mmask16 hit = _mm512_mask_cmp_ps_mask(in, _mm512_maskz_loadu_ps(in, x + i), top, _CMP_EQ_OQ);
        if (hit) return i + __builtin_ctz(hit);
    }
    return 0;
}
