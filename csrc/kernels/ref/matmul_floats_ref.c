/* Products of plain floats: F32, and F16 and BF16 widened (exactly) before use. */
#include "kernels/ref/matmul_ref.h"
#include <math.h>
#include <string.h>
#include "base/half.h"

static const kipu_panel_layout layout_4 = {1, 4, {{0, 4, 1}}};
static const kipu_panel_layout layout_2 = {1, 2, {{0, 2, 1}}};

/* n values of any address -> floats. */
typedef void (*widen)(float *out, const void *in, int64_t n);

static void widen_f32(float *out, const void *in, int64_t n) { memcpy(out, in, (size_t)n * 4); }

static void widen_f16(float *out, const void *in, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)in + 2 * i, 2);
        out[i] = kipu_half_to_float(h);
    }
}

static void widen_bf16(float *out, const void *in, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)in + 2 * i, 2);
        out[i] = kipu_bf16_to_float(h);
    }
}

/* One column of a panel meets element i of all tokens: every output is one chain over i. */
static void gemm(widen load, size_t width, float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt) {
    const char *in = panels;
    for (int p = 0; p < n_panels; p++, y += nt * KIPU_PANEL_ROWS) {
        memset(y, 0, sizeof(float) * nt * KIPU_PANEL_ROWS);
        for (int64_t i = 0; i < a->k; i++, in += KIPU_PANEL_ROWS * width) {
            float w[KIPU_PANEL_ROWS];
            load(w, in, KIPU_PANEL_ROWS);
            for (int t = 0; t < nt; t++) {
                float x = a->x[(int64_t)(t0 + t) * a->k + i], *acc = y + t * KIPU_PANEL_ROWS;
                for (int lane = 0; lane < KIPU_PANEL_ROWS; lane++) acc[lane] = fmaf(w[lane], x, acc[lane]);
            }
        }
    }
}

/* ------------------------------------------------------------------------------- F32 */

static void kipu_decode_f32__ref(float *out, const void *row, int64_t k) { widen_f32(out, row, k); }
static void kipu_pack_f32__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&layout_4, panel, rows, n_rows, k);
}
static void kipu_unpack_f32__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&layout_4, row, panel, lane, k);
}
static void kipu_gemm_f32__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    gemm(widen_f32, 4, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_f32__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemm(widen_f32, 4, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_f32__ref = {
    kipu_decode_f32__ref, kipu_pack_f32__ref, kipu_unpack_f32__ref, kipu_gemv_f32__ref, kipu_gemm_f32__ref, 1,
};

/* ------------------------------------------------------------------------------- F16 */

static void kipu_decode_f16__ref(float *out, const void *row, int64_t k) { widen_f16(out, row, k); }
static void kipu_pack_f16__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&layout_2, panel, rows, n_rows, k);
}
static void kipu_unpack_f16__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&layout_2, row, panel, lane, k);
}
static void kipu_gemm_f16__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    gemm(widen_f16, 2, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_f16__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemm(widen_f16, 2, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_f16__ref = {
    kipu_decode_f16__ref, kipu_pack_f16__ref, kipu_unpack_f16__ref, kipu_gemv_f16__ref, kipu_gemm_f16__ref, 1,
};

/* ------------------------------------------------------------------------------- BF16 */

static void kipu_decode_bf16__ref(float *out, const void *row, int64_t k) { widen_bf16(out, row, k); }
static void kipu_pack_bf16__ref(void *panel, const void *rows, int n_rows, int64_t k) {
    kipu_panel_pack(&layout_2, panel, rows, n_rows, k);
}
static void kipu_unpack_bf16__ref(void *row, const void *panel, int lane, int64_t k) {
    kipu_panel_unpack(&layout_2, row, panel, lane, k);
}
static void kipu_gemm_bf16__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    (void)scratch;
    gemm(widen_bf16, 2, y, panels, n_panels, a, t0, nt);
}
static void kipu_gemv_bf16__ref(float *y, const void *panels, int n_panels, const kipu_acts *a, int token) {
    gemm(widen_bf16, 2, y, panels, n_panels, a, token, 1);
}

const kipu_matmul_kernels kipu_matmul_bf16__ref = {
    kipu_decode_bf16__ref, kipu_pack_bf16__ref, kipu_unpack_bf16__ref, kipu_gemv_bf16__ref, kipu_gemm_bf16__ref, 1,
};
