/* The table entries of the quantised formats: each names its format and calls the shared body. */
#include "kernels/ref/matmul_ref.h"

/* ------------------------------------------------------------------------------- Q4_0 */

static void kipu_decode_q4_0__ref(float *out, const void *row, int64_t k) { kipu_quant_decode(&kipu_quant_q4_0, out, row, k); }
static void kipu_pack_q4_0__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&kipu_quant_q4_0.layout, panel, rows, n_rows, k);
}
static void kipu_unpack_q4_0__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&kipu_quant_q4_0.layout, row, panel, lane, k);
}
static void kipu_gemm_q4_0__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    kipu_quant_gemm(&kipu_quant_q4_0, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_q4_0__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    kipu_quant_gemm(&kipu_quant_q4_0, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_q4_0__ref = {
    kipu_decode_q4_0__ref, kipu_pack_q4_0__ref, kipu_unpack_q4_0__ref, kipu_gemv_q4_0__ref, kipu_gemm_q4_0__ref, 1,
};

/* ------------------------------------------------------------------------------- Q4_1 */

static void kipu_decode_q4_1__ref(float *out, const void *row, int64_t k) { kipu_quant_decode(&kipu_quant_q4_1, out, row, k); }
static void kipu_pack_q4_1__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&kipu_quant_q4_1.layout, panel, rows, n_rows, k);
}
static void kipu_unpack_q4_1__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&kipu_quant_q4_1.layout, row, panel, lane, k);
}
static void kipu_gemm_q4_1__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    kipu_quant_gemm(&kipu_quant_q4_1, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_q4_1__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    kipu_quant_gemm(&kipu_quant_q4_1, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_q4_1__ref = {
    kipu_decode_q4_1__ref, kipu_pack_q4_1__ref, kipu_unpack_q4_1__ref, kipu_gemv_q4_1__ref, kipu_gemm_q4_1__ref, 1,
};

/* ------------------------------------------------------------------------------- Q5_0 */

static void kipu_decode_q5_0__ref(float *out, const void *row, int64_t k) { kipu_quant_decode(&kipu_quant_q5_0, out, row, k); }
static void kipu_pack_q5_0__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&kipu_quant_q5_0.layout, panel, rows, n_rows, k);
}
static void kipu_unpack_q5_0__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&kipu_quant_q5_0.layout, row, panel, lane, k);
}
static void kipu_gemm_q5_0__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    kipu_quant_gemm(&kipu_quant_q5_0, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_q5_0__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    kipu_quant_gemm(&kipu_quant_q5_0, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_q5_0__ref = {
    kipu_decode_q5_0__ref, kipu_pack_q5_0__ref, kipu_unpack_q5_0__ref, kipu_gemv_q5_0__ref, kipu_gemm_q5_0__ref, 1,
};

/* ------------------------------------------------------------------------------- Q5_1 */

static void kipu_decode_q5_1__ref(float *out, const void *row, int64_t k) { kipu_quant_decode(&kipu_quant_q5_1, out, row, k); }
static void kipu_pack_q5_1__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&kipu_quant_q5_1.layout, panel, rows, n_rows, k);
}
static void kipu_unpack_q5_1__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&kipu_quant_q5_1.layout, row, panel, lane, k);
}
static void kipu_gemm_q5_1__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    kipu_quant_gemm(&kipu_quant_q5_1, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_q5_1__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    kipu_quant_gemm(&kipu_quant_q5_1, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_q5_1__ref = {
    kipu_decode_q5_1__ref, kipu_pack_q5_1__ref, kipu_unpack_q5_1__ref, kipu_gemv_q5_1__ref, kipu_gemm_q5_1__ref, 1,
};

/* ------------------------------------------------------------------------------- Q8_0 */

static void kipu_decode_q8_0__ref(float *out, const void *row, int64_t k) { kipu_quant_decode(&kipu_quant_q8_0, out, row, k); }
static void kipu_pack_q8_0__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&kipu_quant_q8_0.layout, panel, rows, n_rows, k);
}
static void kipu_unpack_q8_0__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&kipu_quant_q8_0.layout, row, panel, lane, k);
}
static void kipu_gemm_q8_0__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    kipu_quant_gemm(&kipu_quant_q8_0, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_q8_0__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    kipu_quant_gemm(&kipu_quant_q8_0, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_q8_0__ref = {
    kipu_decode_q8_0__ref, kipu_pack_q8_0__ref, kipu_unpack_q8_0__ref, kipu_gemv_q8_0__ref, kipu_gemm_q8_0__ref, 1,
};

/* ------------------------------------------------------------------------------- Q4_K */

static void kipu_decode_q4_k__ref(float *out, const void *row, int64_t k) { kipu_quant_decode(&kipu_quant_q4_k, out, row, k); }
static void kipu_pack_q4_k__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&kipu_quant_q4_k.layout, panel, rows, n_rows, k);
}
static void kipu_unpack_q4_k__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&kipu_quant_q4_k.layout, row, panel, lane, k);
}
static void kipu_gemm_q4_k__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    kipu_quant_gemm(&kipu_quant_q4_k, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_q4_k__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    kipu_quant_gemm(&kipu_quant_q4_k, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_q4_k__ref = {
    kipu_decode_q4_k__ref, kipu_pack_q4_k__ref, kipu_unpack_q4_k__ref, kipu_gemv_q4_k__ref, kipu_gemm_q4_k__ref, 1,
};

/* ------------------------------------------------------------------------------- Q5_K */

static void kipu_decode_q5_k__ref(float *out, const void *row, int64_t k) { kipu_quant_decode(&kipu_quant_q5_k, out, row, k); }
static void kipu_pack_q5_k__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&kipu_quant_q5_k.layout, panel, rows, n_rows, k);
}
static void kipu_unpack_q5_k__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&kipu_quant_q5_k.layout, row, panel, lane, k);
}
static void kipu_gemm_q5_k__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    kipu_quant_gemm(&kipu_quant_q5_k, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_q5_k__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    kipu_quant_gemm(&kipu_quant_q5_k, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_q5_k__ref = {
    kipu_decode_q5_k__ref, kipu_pack_q5_k__ref, kipu_unpack_q5_k__ref, kipu_gemv_q5_k__ref, kipu_gemm_q5_k__ref, 1,
};

/* ------------------------------------------------------------------------------- Q6_K */

static void kipu_decode_q6_k__ref(float *out, const void *row, int64_t k) { kipu_quant_decode(&kipu_quant_q6_k, out, row, k); }
static void kipu_pack_q6_k__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&kipu_quant_q6_k.layout, panel, rows, n_rows, k);
}
static void kipu_unpack_q6_k__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&kipu_quant_q6_k.layout, row, panel, lane, k);
}
static void kipu_gemm_q6_k__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    kipu_quant_gemm(&kipu_quant_q6_k, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_q6_k__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    kipu_quant_gemm(&kipu_quant_q6_k, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_q6_k__ref = {
    kipu_decode_q6_k__ref, kipu_pack_q6_k__ref, kipu_unpack_q6_k__ref, kipu_gemv_q6_k__ref, kipu_gemm_q6_k__ref, 1,
};
