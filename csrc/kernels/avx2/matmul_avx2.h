/* Matrix products with AVX2. The entries hold gemv, gemm and gemm_panels; decode, pack and unpack are NULL: table_avx2.c
 * takes them from ref. */
#ifndef KIPU_KERNELS_AVX2_MATMUL_AVX2_H
#define KIPU_KERNELS_AVX2_MATMUL_AVX2_H

#include "kernels/kernels.h"

extern const kipu_matmul_kernels kipu_matmul_f32__avx2, kipu_matmul_f16__avx2, kipu_matmul_bf16__avx2;
extern const kipu_matmul_kernels kipu_matmul_q4_0__avx2, kipu_matmul_q4_1__avx2, kipu_matmul_q5_0__avx2, kipu_matmul_q5_1__avx2,
    kipu_matmul_q8_0__avx2;
extern const kipu_matmul_kernels kipu_matmul_q4_k__avx2, kipu_matmul_q5_k__avx2, kipu_matmul_q6_k__avx2;

#endif
