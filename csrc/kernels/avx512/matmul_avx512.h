/* Matrix products with AVX-512 VNNI. The entries hold gemv, gemm and gemm_panels; decode, pack and unpack are NULL: table_avx512.c
 * takes them from ref. */
#ifndef KIPU_KERNELS_AVX512_MATMUL_AVX512_H
#define KIPU_KERNELS_AVX512_MATMUL_AVX512_H

#include "kernels/kernels.h"

extern const kipu_matmul_kernels kipu_matmul_f32__avx512, kipu_matmul_f16__avx512, kipu_matmul_bf16__avx512;
extern const kipu_matmul_kernels kipu_matmul_q4_0__avx512, kipu_matmul_q4_1__avx512, kipu_matmul_q5_0__avx512, kipu_matmul_q5_1__avx512,
    kipu_matmul_q8_0__avx512;
extern const kipu_matmul_kernels kipu_matmul_q4_k__avx512, kipu_matmul_q5_k__avx512, kipu_matmul_q6_k__avx512;

#endif
