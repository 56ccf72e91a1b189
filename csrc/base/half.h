/* Half precision to float and back, in portable C: the specification of every conversion in the engine. */
#ifndef KIPU_BASE_HALF_H
#define KIPU_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float kipu_bits_to_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t kipu_float_to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

/* IEEE binary16 -> binary32, exact (as the F16C instruction: NaN becomes quiet). */
static inline float kipu_half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff;
    if (exponent == 31) return kipu_bits_to_float(sign | 0x7f800000 | (fraction ? 0x400000 | fraction << 13 : 0));
    if (exponent) return kipu_bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
    return kipu_bits_to_float(sign | kipu_float_to_bits((float)fraction * 0x1p-24f));
}

/* binary32 -> binary16, round to nearest even, overflow to infinity, NaN stays NaN (quiet, as F16C). */
static inline uint16_t kipu_float_to_half(float f) {
    uint32_t u = kipu_float_to_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x47800000) return (uint16_t)(sign | 0x7c00);                  /* 2^16 and above, infinity */
    if (a < 0x38800000) {                                                   /* below 2^-14: subnormal, let the adder round */
        float r = kipu_bits_to_float(a) + 0.5f;                             /* 2^-24 is the last bit of 0.5f */
        return (uint16_t)(sign | (kipu_float_to_bits(r) - 0x3f000000));
    }
    uint32_t odd = a >> 13 & 1;
    return (uint16_t)(sign | (a + 0xfff + odd - 0x38000000) >> 13);         /* a carry runs into the exponent, as it should */
}

static inline float kipu_bf16_to_float(uint16_t h) { return kipu_bits_to_float((uint32_t)h << 16); }

#endif
