/* Kernels over vectors, ref tier. Arguments and arithmetic: kernels.h. */
#ifndef KIPU_KERNELS_REF_VECTOR_REF_H
#define KIPU_KERNELS_REF_VECTOR_REF_H

#include <stdint.h>

void kipu_quantize__ref(int8_t *q, float *d, int32_t *s, const float *x, int64_t k);
void kipu_quantize_wide__ref(int8_t *q, float *d, int32_t *s, const float *x, int64_t k);
void kipu_rms_norm__ref(float *y, const float *x, const float *w, int64_t n, float eps);
void kipu_rope_norm__ref(float *x, const float *cos, const float *sin, int n_rot);
void kipu_rope_neox__ref(float *x, const float *cos, const float *sin, int n_rot);
void kipu_swiglu__ref(float *y, const float *gate, const float *up, int64_t n);
void kipu_geglu__ref(float *y, const float *gate, const float *up, int64_t n);
void kipu_add__ref(float *y, const float *a, const float *b, int64_t n);
void kipu_scale__ref(float *y, const float *x, float s, int64_t n);
void kipu_softcap__ref(float *y, const float *x, float c, int64_t n);
void kipu_to_half__ref(uint16_t *y, const float *x, int64_t n);
void kipu_from_half__ref(float *y, const uint16_t *x, int64_t n);
int64_t kipu_argmax__ref(const float *x, int64_t n);

#endif
