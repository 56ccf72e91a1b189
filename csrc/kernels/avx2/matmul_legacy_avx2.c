/* Formats with blocks of 32. */
#include "kernels/avx2/matmul_avx2.h"
#include "kernels/avx2/matmul_gemm_avx2.h"

/* ---------------------------------------------------------------------------------------------- Q4_0 */
static void kipu_gemv_q4_0__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_body(KIPU_Q4_0, y, panels, n_panels, a, token);
}

static void kipu_gemm_q4_0__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_body(KIPU_Q4_0, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_q4_0__avx2 = {
    .gemv = kipu_gemv_q4_0__avx2, .gemm = kipu_gemm_q4_0__avx2, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- Q4_1 */
static void kipu_gemv_q4_1__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_body(KIPU_Q4_1, y, panels, n_panels, a, token);
}

static void kipu_gemm_q4_1__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_body(KIPU_Q4_1, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_q4_1__avx2 = {
    .gemv = kipu_gemv_q4_1__avx2, .gemm = kipu_gemm_q4_1__avx2, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- Q5_0 */
static void kipu_gemv_q5_0__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_body(KIPU_Q5_0, y, panels, n_panels, a, token);
}

static void kipu_gemm_q5_0__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_body(KIPU_Q5_0, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_q5_0__avx2 = {
    .gemv = kipu_gemv_q5_0__avx2, .gemm = kipu_gemm_q5_0__avx2, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- Q5_1 */
static void kipu_gemv_q5_1__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_body(KIPU_Q5_1, y, panels, n_panels, a, token);
}

static void kipu_gemm_q5_1__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_body(KIPU_Q5_1, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_q5_1__avx2 = {
    .gemv = kipu_gemv_q5_1__avx2, .gemm = kipu_gemm_q5_1__avx2, .gemm_panels = CHUNK_PANELS
};

/* ---------------------------------------------------------------------------------------------- Q8_0 */
static void kipu_gemv_q8_0__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemv_body(KIPU_Q8_0, y, panels, n_panels, a, token);
}

static void kipu_gemm_q8_0__avx2(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    gemm_body(KIPU_Q8_0, y, panels, n_panels, a, t0, nt, scratch);
}

const kipu_matmul_kernels kipu_matmul_q8_0__avx2 = {
    .gemv = kipu_gemv_q8_0__avx2, .gemm = kipu_gemm_q8_0__avx2, .gemm_panels = CHUNK_PANELS
};
