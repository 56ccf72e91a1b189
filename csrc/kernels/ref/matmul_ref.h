/* Matrix products of the ref tier: one entry of the kernel table per format. Entries have static storage. */
#ifndef KIPU_KERNELS_REF_MATMUL_REF_H
#define KIPU_KERNELS_REF_MATMUL_REF_H

#include "kernels/kernels.h"
#include "kernels/ref/groups_ref.h"

/* Bodies shared by all quantised formats; the arguments of kipu_matmul_kernels behind the format. */
void kipu_quant_decode(const kipu_quant *f, float *out, const void *row, int64_t k);
void kipu_quant_gemm(const kipu_quant *f, float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt);

extern const kipu_matmul_kernels kipu_matmul_f32__ref, kipu_matmul_f16__ref, kipu_matmul_bf16__ref;
extern const kipu_matmul_kernels kipu_matmul_q4_0__ref, kipu_matmul_q4_1__ref, kipu_matmul_q5_0__ref, kipu_matmul_q5_1__ref;
extern const kipu_matmul_kernels kipu_matmul_q8_0__ref, kipu_matmul_q4_k__ref, kipu_matmul_q5_k__ref, kipu_matmul_q6_k__ref;

#endif
