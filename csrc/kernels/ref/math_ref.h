/* exp and tanh of the kernels: one float each, the same operations in every tier.
 *
 * kipu_exp(x), for x in [KIPU_EXP_MIN, KIPU_EXP_MAX]:
 *
 *     n = (x * LOG2E + MAGIC) - MAGIC     product and both sums rounded: x * LOG2E to the nearest integer, ties to even.
 *                                         A round-to-nearest-even instruction (vroundps 0, vrndscaleps 0, frintn) gives the same n.
 *     r = fma(-n, LN2_HI, x)              exact: LN2_HI has 16 bits, |n| <= 128
 *     r = fma(-n, LN2_LO, r)              |r| <= 0.3466
 *     p = C5;  p = fma(p, r, C4);  ... C3, C2, C1;  p = fma(p, r, 1)          0.707 < p < 1.415
 *     result = bits(p) + (int(n) << 23)   p * 2^n
 *
 * The last step is exact for every x of the range, which ends where it is: n runs from -126 to 128; at n = -126 p is at least 1 (smallest
 * normal float), at n = 128 below 1 (largest binade). So the result is always a normal number and one integer addition serves all n;
 * AVX-512 may use vscalefps instead (equal bits). Two steps, p * 2^(n-1) * 2, would lose n = -126, where 2^(n-1) is subnormal.
 *
 *     x > KIPU_EXP_MAX: +infinity      x < KIPU_EXP_MIN: +0      NaN: a NaN (payload free)
 *
 * SIMD computes the lanes outside of the range too (any bits come out, nothing traps) and selects these values over them.
 * exp(0) is exactly 1. Relative error below 1.7e-7 over the whole range (tests/kernels/test_math.py). */
#ifndef KIPU_KERNELS_REF_MATH_REF_H
#define KIPU_KERNELS_REF_MATH_REF_H

#include <math.h>
#include <stdint.h>
#include "base/half.h"

#define KIPU_EXP_MAX    0x1.62e42ep+6f   /*  88.72283, just below 128 ln 2 */
#define KIPU_EXP_MIN   -0x1.5d589ep+6f   /* -87.33654, just above -126 ln 2 */
#define KIPU_EXP_LOG2E  0x1.715476p+0f
#define KIPU_EXP_LN2_HI 0x1.62e4p-1f
#define KIPU_EXP_LN2_LO 0x1.7f7d1cp-20f
#define KIPU_EXP_MAGIC  0x1.8p+23f
/* Minimax for exp(r) / 1 on |r| <= ln(2)/2 with constant term 1, each coefficient rounded before the next was fitted: 9.2e-8. */
#define KIPU_EXP_C1 0x1.fffff6p-1f
#define KIPU_EXP_C2 0x1.fffdc4p-2f
#define KIPU_EXP_C3 0x1.555a82p-3f
#define KIPU_EXP_C4 0x1.573adp-5f
#define KIPU_EXP_C5 0x1.0f9f62p-7f

static inline float kipu_exp(float x) {
    if (x > KIPU_EXP_MAX) return INFINITY;
    if (x < KIPU_EXP_MIN) return 0.0f;
    if (x != x) return x;
    float n = (x * KIPU_EXP_LOG2E + KIPU_EXP_MAGIC) - KIPU_EXP_MAGIC;
    float r = fmaf(-n, KIPU_EXP_LN2_HI, x);
    r = fmaf(-n, KIPU_EXP_LN2_LO, r);
    float p = KIPU_EXP_C5;
    p = fmaf(p, r, KIPU_EXP_C4);
    p = fmaf(p, r, KIPU_EXP_C3);
    p = fmaf(p, r, KIPU_EXP_C2);
    p = fmaf(p, r, KIPU_EXP_C1);
    p = fmaf(p, r, 1.0f);
    return kipu_bits_to_float(kipu_float_to_bits(p) + ((uint32_t)(int32_t)n << 23));
}

/* Absolute error below 2e-7; tanh(+-infinity) is exactly +-1. */
static inline float kipu_tanh(float x) { return 1.0f - 2.0f / (kipu_exp(2.0f * x) + 1.0f); }

/* Sum of 16 lanes in the order of kernels.h. */
static inline float kipu_tree16(const float t[16]) {
    float u[8];
    for (int i = 0; i < 8; i++) u[i] = t[i] + t[i + 8];
    for (int i = 0; i < 4; i++) u[i] = u[i] + u[i + 4];
    return (u[0] + u[2]) + (u[1] + u[3]);
}

#endif
