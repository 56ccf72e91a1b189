#include "kernels/avx2/rows_avx2.h"

#include <stdbool.h>
#include "kernels/avx2/math_avx2.h"
#include "kernels/kernels.h"

/* Every loop takes 8 elements per turn (rms_norm 16); loads and stores know how many are left. */

/* ---------------------------------------------------------------------------------------------- quantize */

/* Bits of |x|: as integers they order like the floats, NaN above infinity. */
static inline __m256i absolute(__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff)); }

static inline uint32_t largest_of_8(__m256i x) {
    __m128i w = _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    w = _mm_max_epu32(w, _mm_shuffle_epi32(w, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(w, _mm_shuffle_epi32(w, 0xb1)));
}

static inline int32_t sum_of_8(__m256i x) {
    __m128i w = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    w = _mm_add_epi32(w, _mm_shuffle_epi32(w, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(w, _mm_shuffle_epi32(w, 0xb1)));
}

/* 8 codes: x * id, to the nearest integer, clamped to +-127 before the conversion (id may be infinite), NaN to 0. */
static inline __m256i to_codes(__m256 x, __m256 id) {
    __m256 v = _mm256_mul_ps(x, id), number = _mm256_cmp_ps(v, v, _CMP_ORD_Q);
    v = _mm256_max_ps(_mm256_min_ps(v, _mm256_set1_ps(127.0f)), _mm256_set1_ps(-127.0f));
    v = _mm256_round_ps(_mm256_and_ps(v, number), KIPU_NEAREST);
    return _mm256_cvtps_epi32(v);
}

/* 4 x 8 integers -> 32 bytes. Packing works within 128-bit lanes and leaves words of four codes in the order a0 b0 c0 d0 a4 b4 c4 d4. */
static inline __m256i pack_codes(const __m256i c[4]) {
    __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
    return _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The scale amax / 127 and, in all lanes, its inverse 127 / amax: one division for both.
 * Where amax is not finite the scale is NaN and the inverse 0, so that all codes become 0 by themselves. */
static inline float scale_of(uint32_t amax, __m256 *id) {
    __m128 top = _mm_castsi128_ps(_mm_cvtsi32_si128((int)amax)), full = _mm_set_ss(127.0f);
    __m128 quotients = _mm_div_ps(_mm_unpacklo_ps(top, full), _mm_unpacklo_ps(full, top));
    bool finite = amax < 0x7f800000;
    *id = finite && amax ? _mm256_broadcastss_ps(_mm_movehdup_ps(quotients)) : _mm256_setzero_ps();
    return finite ? _mm_cvtss_f32(quotients) : NAN;
}

static inline __m256i larger_of_four(const float *x) {
    __m256i a[4];
    for (int i = 0; i < 4; i++) a[i] = absolute(_mm256_loadu_ps(x + 8 * i));
    return _mm256_max_epu32(_mm256_max_epu32(a[0], a[1]), _mm256_max_epu32(a[2], a[3]));
}

/* 32 codes with a given inverse scale, and their sum. */
static inline void group_codes(int8_t *q, int32_t *s, const float *x, __m256 id) {
    __m256i c[4];
    for (int i = 0; i < 4; i++) c[i] = to_codes(_mm256_loadu_ps(x + 8 * i), id);
    _mm256_storeu_si256((__m256i *)q, pack_codes(c));
    *s = sum_of_8(_mm256_add_epi32(_mm256_add_epi32(c[0], c[1]), _mm256_add_epi32(c[2], c[3])));
}

static inline void quantize_group(int8_t *q, float *d, int32_t *s, const float *x) {
    __m256 id;
    *d = scale_of(largest_of_8(larger_of_four(x)), &id);
    group_codes(q, s, x, id);
}

void kipu_quantize_wide__avx2(int8_t *q, float *d, int32_t *s, const float *x, int64_t k) {
    enum { GROUPS = KIPU_WIDE / KIPU_GROUP };
    for (int64_t g = 0; g < k / KIPU_GROUP; g += GROUPS) {
        __m256i top = _mm256_setzero_si256();
        __m256 id;
        for (int i = 0; i < GROUPS; i++) top = _mm256_max_epu32(top, larger_of_four(x + (g + i) * KIPU_GROUP));
        float scale = scale_of(largest_of_8(top), &id);
        for (int i = 0; i < GROUPS; i++) {
            group_codes(q + (g + i) * KIPU_GROUP, &s[g + i], x + (g + i) * KIPU_GROUP, id);
            d[g + i] = scale;
        }
    }
}

void kipu_quantize__avx2(int8_t *q, float *d, int32_t *s, const float *x, int64_t k) {
    for (int64_t g = 0; g < k / KIPU_GROUP; g++) quantize_group(q + g * KIPU_GROUP, d + g, s + g, x + g * KIPU_GROUP);
}

/* ---------------------------------------------------------------------------------------------- norm and rope */

/* The 16 sums of the contract are two vectors. Beyond the end fma(0, 0, t) = t. */
void kipu_rms_norm__avx2(float *y, const float *x, const float *w, int64_t n, float eps) {
    __m256 t0 = _mm256_setzero_ps(), t1 = t0;
    for (int64_t i = 0; i < n; i += 16) {
        __m256 v0 = kipu_load_avx2(x + i, n - i), v1 = kipu_load_avx2(x + i + 8, n - i - 8);
        t0 = _mm256_fmadd_ps(v0, v0, t0);
        t1 = _mm256_fmadd_ps(v1, v1, t1);
    }
    __m256 r = _mm256_set1_ps(1.0f / sqrtf(kipu_tree16_avx2(t0, t1) / (float)n + eps));
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(kipu_load_avx2(x + i, n - i), r);
        if (w) v = _mm256_mul_ps(v, kipu_load_avx2(w + i, n - i));
        kipu_store_avx2(y + i, v, n - i);
    }
}

/* Both results of four pairs: even lanes x0 c - x1 s, odd lanes x0 s + x1 c; c and s hold four values each. */
static inline __m256 rotate_pairs(__m256 x, __m128 c, __m128 s) {
    __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s)), sc = _mm256_permute_ps(cs, 0xb1);
    return _mm256_fmaddsub_ps(_mm256_moveldup_ps(x), cs, _mm256_mul_ps(_mm256_movehdup_ps(x), sc));
}

void kipu_rope_norm__avx2(float *x, const float *cos, const float *sin, int n_rot) {
    int pairs = n_rot / 2;
    for (int i = 0; i < pairs; i += 4) {
        __m128i in = _mm256_castsi256_si128(kipu_lanes_avx2(pairs - i < 4 ? pairs - i : 4));
        __m256 v = kipu_load_avx2(x + 2 * i, 2 * (pairs - i));
        v = rotate_pairs(v, _mm_maskload_ps(cos + i, in), _mm_maskload_ps(sin + i, in));
        kipu_store_avx2(x + 2 * i, v, 2 * (pairs - i));
    }
}

void kipu_rope_neox__avx2(float *x, const float *cos, const float *sin, int n_rot) {
    int pairs = n_rot / 2;
    for (int i = 0; i < pairs; i += 8) {
        int left = pairs - i;
        __m256 x0 = kipu_load_avx2(x + i, left), x1 = kipu_load_avx2(x + pairs + i, left);
        __m256 c = kipu_load_avx2(cos + i, left), s = kipu_load_avx2(sin + i, left);
        kipu_store_avx2(x + i, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)), left);
        kipu_store_avx2(x + pairs + i, _mm256_fmadd_ps(x0, s, _mm256_mul_ps(x1, c)), left);
    }
}

/* ---------------------------------------------------------------------------------------------- gated units, softcap */

static inline __m256 negative(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }

/* g / (1 + exp(e)) * u */
static inline __m256 gated(__m256 g, __m256 e, __m256 u) {
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), kipu_exp_avx2(e))), u);
}

void kipu_swiglu__avx2(float *y, const float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i += 8) {
        __m256 g = kipu_load_avx2(gate + i, n - i), u = kipu_load_avx2(up + i, n - i);
        kipu_store_avx2(y + i, gated(g, negative(g), u), n - i);
    }
}

void kipu_geglu__avx2(float *y, const float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i += 8) {
        __m256 g = kipu_load_avx2(gate + i, n - i), u = kipu_load_avx2(up + i, n - i);
        __m256 z = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(0.044715f), g), g, _mm256_set1_ps(1.0f));
        z = _mm256_mul_ps(_mm256_set1_ps(0.79788456f), _mm256_mul_ps(g, z));
        kipu_store_avx2(y + i, gated(g, _mm256_mul_ps(_mm256_set1_ps(-2.0f), z), u), n - i);
    }
}

void kipu_softcap__avx2(float *y, const float *x, float c, int64_t n) {
    __m256 cap = _mm256_set1_ps(c);
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_div_ps(kipu_load_avx2(x + i, n - i), cap);
        kipu_store_avx2(y + i, _mm256_mul_ps(cap, kipu_tanh_avx2(v)), n - i);
    }
}

/* ---------------------------------------------------------------------------------------------- add, scale, halves */

void kipu_add__avx2(float *y, const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i += 8)
        kipu_store_avx2(y + i, _mm256_add_ps(kipu_load_avx2(a + i, n - i), kipu_load_avx2(b + i, n - i)), n - i);
}

void kipu_scale__avx2(float *y, const float *x, float s, int64_t n) {
    for (int64_t i = 0; i < n; i += 8) kipu_store_avx2(y + i, _mm256_mul_ps(kipu_load_avx2(x + i, n - i), _mm256_set1_ps(s)), n - i);
}

/* There are no masks for 2-byte lanes: the last elements go one by one. */
void kipu_to_half__avx2(uint16_t *y, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), KIPU_NEAREST));
    for (; i < n; i++) y[i] = kipu_float_to_half(x[i]);
}

void kipu_from_half__avx2(float *y, const uint16_t *x, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
    for (; i < n; i++) y[i] = kipu_half_to_float(x[i]);
}

/* ---------------------------------------------------------------------------------------------- argmax */

/* Largest value; vmaxps returns its second operand where one is NaN, so NaN never gets in. */
static float largest(const float *x, int64_t n) {
    const __m256 none = _mm256_set1_ps(-INFINITY);
    __m256 top[4] = {none, none, none, none};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (int j = 0; j < 4; j++) top[j] = _mm256_max_ps(_mm256_loadu_ps(x + i + 8 * j), top[j]);
    for (; i < n; i += 8) {
        __m256 in = _mm256_castsi256_ps(kipu_lanes_avx2(n - i < 8 ? n - i : 8));
        top[0] = _mm256_max_ps(_mm256_blendv_ps(none, kipu_load_avx2(x + i, n - i), in), top[0]);
    }
    return kipu_max8_avx2(_mm256_max_ps(_mm256_max_ps(top[0], top[1]), _mm256_max_ps(top[2], top[3])));
}

int64_t kipu_argmax__avx2(const float *x, int64_t n) {
    __m256 top = _mm256_set1_ps(largest(x, n));
    for (int64_t i = 0; i < n; i += 8) {
        int hit = _mm256_movemask_ps(_mm256_cmp_ps(kipu_load_avx2(x + i, n - i), top, _CMP_EQ_OQ));
        if (n - i < 8) hit &= (1 << (n - i)) - 1;
        if (hit) return i + __builtin_ctz((unsigned)hit);
    }
    return 0;
}
