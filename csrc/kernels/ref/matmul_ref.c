/* The products of quantised formats, block by block: a block is taken apart once and meets all tokens. */
#include "kernels/ref/matmul_ref.h"
#include <math.h>
#include <string.h>

void kipu_quant_decode(const kipu_quant *f, float *out, const void *row, int64_t k) {
    const char *in = row;
    for (int64_t e = 0; e < k; e += f->layout.block, in += f->layout.bytes) {
        kipu_any_block block;   /* a copy: rows of a file may lie at any address */
        kipu_group g[8];
        memcpy(&block, in, f->layout.bytes);
        f->groups(g, &block);
        for (int i = 0; i < f->layout.block; i++) {
            const kipu_group *gi = &g[i / 32];
            float w = gi->d * (float)gi->scale[i % 32 / 16] * (float)gi->q[i % 32];
            out[e + i] = f->has_min ? w + gi->m : w;
        }
    }
}

static int32_t dot16(const int8_t *a, const int8_t *b) {
    int32_t sum = 0;
    for (int i = 0; i < 16; i++) sum += a[i] * b[i];
    return sum;
}

/* One group of a row times one group of a token, added to acc. */
static float add_group(float acc, const kipu_group *g, bool has_min, const int8_t *q, float d, int32_t s) {
    int32_t sum = g->scale[0] * dot16(g->q, q) + g->scale[1] * dot16(g->q + 16, q + 16);
    acc = fmaf(g->d * d, (float)sum, acc);
    return has_min ? fmaf(g->m, d * (float)s, acc) : acc;
}

/* One block of row `lane`, from element e of the row, times tokens t0 .. t0 + nt - 1. */
static void add_block(const kipu_quant *f, float *y, const kipu_group *g, const kipu_acts *a, int64_t e, int t0, int nt) {
    for (int t = 0; t < nt; t++) {
        int64_t at = (int64_t)(t0 + t) * a->k + e;
        float acc = y[t * KIPU_PANEL_ROWS];
        for (int j = 0; j < f->layout.block / 32; j++, at += 32)
            acc = add_group(acc, &g[j], f->has_min, a->q + at, a->d[at / 32], a->s[at / 32]);
        y[t * KIPU_PANEL_ROWS] = acc;
    }
}

void kipu_quant_gemm(const kipu_quant *f, float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt) {
    const char *in = panels;
    for (int p = 0; p < n_panels; p++, y += nt * KIPU_PANEL_ROWS) {
        memset(y, 0, sizeof(float) * nt * KIPU_PANEL_ROWS);
        for (int64_t e = 0; e < a->k; e += f->layout.block, in += KIPU_PANEL_ROWS * f->layout.bytes) {
            for (int lane = 0; lane < KIPU_PANEL_ROWS; lane++) {
                kipu_any_block block;
                kipu_group g[8];
                kipu_panel_unpack_block(&f->layout, &block, in, lane);
                f->groups(g, &block);
                add_block(f, y + lane, g, a, e, t0, nt);
            }
        }
    }
}
