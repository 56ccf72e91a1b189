#include "kernels/ref/vector_ref.h"
#include "kernels/kernels.h"
#include "kernels/ref/math_ref.h"

/* Largest |x|. Bits of a float without its sign order like the float, with NaN above infinity: so NaN wins. */
static float largest(const float *x, int n) {
    uint32_t amax = 0;
    for (int i = 0; i < n; i++) {
        uint32_t a = kipu_float_to_bits(x[i]) & 0x7fffffff;
        if (a > amax) amax = a;
    }
    return kipu_bits_to_float(amax);
}

/* Nearest integer, ties to even, clamped to +-127 before the conversion. v is NaN for 0 * infinity: zero. */
static int8_t to_code(float v) {
    if (v != v) return 0;
    if (v > 127.0f) return 127;
    if (v < -127.0f) return -127;
    return (int8_t)((v + KIPU_EXP_MAGIC) - KIPU_EXP_MAGIC);
}

/* Groups of 32 codes; `share` values have one scale. */
static void quantize(int8_t *q, float *d, int32_t *s, const float *x, int64_t k, int share) {
    for (int64_t i = 0; i < k; i += KIPU_GROUP) {
        float amax = largest(x + i / share * share, share);
        bool finite = amax < INFINITY;
        float id = finite && amax > 0 ? 127.0f / amax : 0.0f;
        int32_t sum = 0;
        for (int64_t j = i; j < i + KIPU_GROUP; j++) sum += q[j] = finite ? to_code(x[j] * id) : 0;
        d[i / KIPU_GROUP] = finite ? amax / 127.0f : NAN;
        s[i / KIPU_GROUP] = sum;
    }
}

void kipu_quantize__ref(int8_t *q, float *d, int32_t *s, const float *x, int64_t k) { quantize(q, d, s, x, k, KIPU_GROUP); }
void kipu_quantize_wide__ref(int8_t *q, float *d, int32_t *s, const float *x, int64_t k) { quantize(q, d, s, x, k, KIPU_WIDE); }

void kipu_rms_norm__ref(float *y, const float *x, const float *w, int64_t n, float eps) {
    float t[16] = {0};
    for (int64_t i = 0; i < n; i++) t[i % 16] = fmaf(x[i], x[i], t[i % 16]);
    float r = 1.0f / sqrtf(kipu_tree16(t) / (float)n + eps);
    for (int64_t i = 0; i < n; i++) y[i] = w ? x[i] * r * w[i] : x[i] * r;
}

static void rotate(float *x0, float *x1, float c, float s) {
    float y0 = fmaf(*x0, c, -(*x1 * s)), y1 = fmaf(*x0, s, *x1 * c);
    *x0 = y0;
    *x1 = y1;
}

void kipu_rope_norm__ref(float *x, const float *cos, const float *sin, int n_rot) {
    for (int i = 0; i < n_rot / 2; i++) rotate(&x[2 * i], &x[2 * i + 1], cos[i], sin[i]);
}

void kipu_rope_neox__ref(float *x, const float *cos, const float *sin, int n_rot) {
    for (int i = 0; i < n_rot / 2; i++) rotate(&x[i], &x[i + n_rot / 2], cos[i], sin[i]);
}

void kipu_swiglu__ref(float *y, const float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = gate[i] / (1.0f + kipu_exp(-gate[i])) * up[i];
}

void kipu_geglu__ref(float *y, const float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float g = gate[i], z = 0.79788456f * (g * fmaf(0.044715f * g, g, 1.0f));
        y[i] = g / (1.0f + kipu_exp(-2.0f * z)) * up[i];
    }
}

void kipu_add__ref(float *y, const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void kipu_scale__ref(float *y, const float *x, float s, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * s;
}

void kipu_softcap__ref(float *y, const float *x, float c, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = c * kipu_tanh(x[i] / c);
}

void kipu_to_half__ref(uint16_t *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = kipu_float_to_half(x[i]);
}

void kipu_from_half__ref(float *y, const uint16_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = kipu_half_to_float(x[i]);
}

int64_t kipu_argmax__ref(const float *x, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (best < 0 ? x[i] == x[i] : x[i] > x[best]) best = i;
    return best < 0 ? 0 : best;
}
