/* Attention, avx2 tier. Arguments and arithmetic: kernels.h. */
#ifndef KIPU_KERNELS_AVX2_ATTENTION_AVX2_H
#define KIPU_KERNELS_AVX2_ATTENTION_AVX2_H

#include "kernels/kernels.h"

void kipu_attention__avx2(float *m, float *l, float *o, const float *q, const uint64_t *mask, int n_rows, const kipu_attn_head *head,
                            const kipu_attn_chunk *chunk, void *scratch);
void kipu_attention_merge__avx2(float *m, float *l, float *o, const float *m2, const float *l2, const float *o2, int n_rows,
                                 int32_t d_v);

#endif
