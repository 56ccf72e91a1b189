/* Formats with blocks of 256. */
#include "kernels/avx2/matmul_avx2.h"
#include "kernels/avx2/matmul_gemm_avx2.h"

/* ---------------------------------------------------------------------------------------------- Q4_K */
static void kipu_gemv_q4_k__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_body(KIPU_Q4_K, y, panels, n_panels, a, token);
}

static void kipu_gemm_q4_k__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_body(KIPU_Q4_K, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_q4_k__avx2 = {
    .gemv = kipu_gemv_q4_k__avx2, .gemm = kipu_gemm_q4_k__avx2, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- Q5_K */
static void kipu_gemv_q5_k__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_body(KIPU_Q5_K, y, panels, n_panels, a, token);
}

static void kipu_gemm_q5_k__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_body(KIPU_Q5_K, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_q5_k__avx2 = {
    .gemv = kipu_gemv_q5_k__avx2, .gemm = kipu_gemm_q5_k__avx2, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- Q6_K */
static void kipu_gemv_q6_k__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_body(KIPU_Q6_K, y, panels, n_panels, a, token);
}

static void kipu_gemm_q6_k__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_body(KIPU_Q6_K, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_q6_k__avx2 = {
    .gemv = kipu_gemv_q6_k__avx2, .gemm = kipu_gemm_q6_k__avx2, .gemm_panels = CHUNK_PANELS
};
