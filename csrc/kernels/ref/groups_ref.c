/* Blocks taken apart, as drawn in quants/blocks.h. */
#include "kernels/ref/groups_ref.h"
#include <string.h>
#include "base/half.h"

static void set_scale(kipu_group *g, float d, float m) {
    g->scale[0] = g->scale[1] = 1;
    g->d = d;
    g->m = m;
}

/* ------------------------------------------------------------------------------- groups of 32 with half scales */

static void nibbles(int8_t q[32], const uint8_t qs[16]) {
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t)(qs[j] & 15);
        q[j + 16] = (int8_t)(qs[j] >> 4);
    }
}

static void fifth_bits(int8_t q[32], const uint8_t qh[4]) {
    for (int i = 0; i < 32; i++) q[i] = (int8_t)(q[i] | (qh[i / 8] >> i % 8 & 1) << 4);
}

static void subtract(int8_t q[32], int zero) {
    for (int i = 0; i < 32; i++) q[i] = (int8_t)(q[i] - zero);
}

static void q4_0_groups(kipu_group *g, const kipu_any_block *block) {
    const kipu_block_q4_0 *b = &block->q4_0;
    nibbles(g->q, b->qs);
    subtract(g->q, 8);
    set_scale(g, kipu_half_to_float(b->d), 0);
}

static void q4_1_groups(kipu_group *g, const kipu_any_block *block) {
    const kipu_block_q4_1 *b = &block->q4_1;
    nibbles(g->q, b->qs);
    set_scale(g, kipu_half_to_float(b->d), kipu_half_to_float(b->m));
}

static void q5_0_groups(kipu_group *g, const kipu_any_block *block) {
    const kipu_block_q5_0 *b = &block->q5_0;
    nibbles(g->q, b->qs);
    fifth_bits(g->q, b->qh);
    subtract(g->q, 16);
    set_scale(g, kipu_half_to_float(b->d), 0);
}

static void q5_1_groups(kipu_group *g, const kipu_any_block *block) {
    const kipu_block_q5_1 *b = &block->q5_1;
    nibbles(g->q, b->qs);
    fifth_bits(g->q, b->qh);
    set_scale(g, kipu_half_to_float(b->d), kipu_half_to_float(b->m));
}

static void q8_0_groups(kipu_group *g, const kipu_any_block *block) {
    const kipu_block_q8_0 *b = &block->q8_0;
    memcpy(g->q, b->qs, 32);
    set_scale(g, kipu_half_to_float(b->d), 0);
}

/* ------------------------------------------------------------------------------- K-quants: 256 elements */

/* Scale s and minimum m (6 bits) of group j. */
static void scale_and_min(const uint8_t scales[12], int j, int *s, int *m) {
    if (j < 4) {
        *s = scales[j] & 63;
        *m = scales[j + 4] & 63;
    } else {
        *s = (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
        *m = scales[j + 4] >> 4 | (scales[j] >> 6) << 4;
    }
}

/* Group j: low (even j) or high nibbles of 32 bytes. */
static void nibbles_k(int8_t q[32], const uint8_t qs[128], int j) {
    for (int l = 0; l < 32; l++) q[l] = (int8_t)(qs[j / 2 * 32 + l] >> 4 * (j % 2) & 15);
}

static void set_scale_k(kipu_group *g, const uint8_t scales[12], int j, uint16_t d, uint16_t dmin) {
    int s, m;
    scale_and_min(scales, j, &s, &m);
    set_scale(g, kipu_half_to_float(d) * (float)s, -(kipu_half_to_float(dmin) * (float)m));
}

static void q4_k_groups(kipu_group *g, const kipu_any_block *block) {
    const kipu_block_q4_k *b = &block->q4_k;
    for (int j = 0; j < 8; j++) {
        nibbles_k(g[j].q, b->qs, j);
        set_scale_k(&g[j], b->scales, j, b->d, b->dmin);
    }
}

static void q5_k_groups(kipu_group *g, const kipu_any_block *block) {
    const kipu_block_q5_k *b = &block->q5_k;
    for (int j = 0; j < 8; j++) {
        nibbles_k(g[j].q, b->qs, j);
        for (int l = 0; l < 32; l++) g[j].q[l] = (int8_t)(g[j].q[l] | (b->qh[l] >> j & 1) << 4);
        set_scale_k(&g[j], b->scales, j, b->d, b->dmin);
    }
}

static void q6_k_groups(kipu_group *g, const kipu_any_block *block) {
    const kipu_block_q6_k *b = &block->q6_k;
    for (int j = 0; j < 8; j++) {
        const uint8_t *ql = b->ql + j / 4 * 64 + j % 2 * 32, *qh = b->qh + j / 4 * 32;
        int shift = j % 4 / 2 * 4;
        for (int l = 0; l < 32; l++) g[j].q[l] = (int8_t)(((ql[l] >> shift & 15) | (qh[l] >> j % 4 * 2 & 3) << 4) - 32);
        memcpy(g[j].scale, b->scales + 2 * j, 2);
        g[j].d = kipu_half_to_float(b->d);
        g[j].m = 0;
    }
}

/* ------------------------------------------------------------------------------- planes: {offset, width, count} in panel order */

const kipu_quant kipu_quant_q4_0 = {{32, 18, {{0, 2, 1}, {2, 4, 4}}}, false, q4_0_groups};
const kipu_quant kipu_quant_q4_1 = {{32, 20, {{0, 2, 2}, {4, 4, 4}}}, true, q4_1_groups};
const kipu_quant kipu_quant_q5_0 = {{32, 22, {{0, 2, 1}, {2, 4, 5}}}, false, q5_0_groups};
const kipu_quant kipu_quant_q5_1 = {{32, 24, {{0, 2, 2}, {4, 4, 5}}}, true, q5_1_groups};
const kipu_quant kipu_quant_q8_0 = {{32, 34, {{0, 2, 1}, {2, 4, 8}}}, false, q8_0_groups};
const kipu_quant kipu_quant_q4_k = {{256, 144, {{0, 2, 2}, {4, 4, 35}}}, true, q4_k_groups};
const kipu_quant kipu_quant_q5_k = {{256, 176, {{0, 2, 2}, {4, 4, 43}}}, true, q5_k_groups};
const kipu_quant kipu_quant_q6_k = {{256, 210, {{208, 2, 1}, {192, 1, 16}, {0, 4, 32}, {128, 4, 16}}}, false, q6_k_groups};
