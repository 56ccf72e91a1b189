/* Kernels with planted faults, to test the checker itself: tier avx2 is ref with the fault that KIPU_CHECK_FAULT names.
 * Linked in place of csrc/kernels/kernels.c (build_check.py --main). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "kernels/tiers.h"

static volatile char sink;

static const kipu_matmul_kernels *good(void) { return kipu_kernels_ref()->matmul[KIPU_Q4_0]; }

static void reads_behind_weights(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    good()->gemm(y, panels, n_panels, a, t0, nt, scratch);
    sink = ((const char *)panels)[(size_t)n_panels * 16 * kipu_row_bytes(KIPU_Q4_0, a->k)];
}

/* Only where seven tokens are left. */
static void reads_behind_activations(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    good()->gemm(y, panels, n_panels, a, t0, nt, scratch);
    if (nt == 7) sink = a->q[(size_t)(t0 + nt) * (size_t)a->k];
}

static void writes_before_y(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    good()->gemm(y, panels, n_panels, a, t0, nt, scratch);
    y[-1] = 0;
}

/* The last bit of one output, for one number of tokens. */
static void flips_a_bit(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    good()->gemm(y, panels, n_panels, a, t0, nt, scratch);
    if (nt == 33) y[5] = kipu_bits_to_float(kipu_float_to_bits(y[5]) ^ 1);
}

static void pads_with_ones(void *panel, const void *rows, int n_rows, int64_t k) {
    good()->pack(panel, rows, n_rows, k);
    if (n_rows < 16) ((char *)panel)[31] = 1;
}

static void touches_blind_rows(float *m, float *l, float *o, const float *q, const uint64_t *mask, int n_rows, const kipu_attn_head *head,
                               const kipu_attn_chunk *chunk, void *scratch) {
    kipu_kernels_ref()->attention(m, l, o, q, mask, n_rows, head, chunk, scratch);
    for (int r = 0; r < n_rows; r++)
        if (!(mask[r] & chunk->present)) l[r] *= 1.0000001f;
}

static void exp_of_libm(float *y, const float *gate, const float *up, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

static int64_t last_maximum(const float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] >= x[best]) best = i;
    return best;
}

static void plant(kipu_kernels *k, kipu_matmul_kernels *q4_0, const char *fault) {
    if (!strcmp(fault, "reads_behind_weights")) q4_0->gemm = reads_behind_weights;
    if (!strcmp(fault, "reads_behind_activations")) q4_0->gemm = reads_behind_activations;
    if (!strcmp(fault, "writes_before_y")) q4_0->gemm = writes_before_y;
    if (!strcmp(fault, "flips_a_bit")) q4_0->gemm = flips_a_bit;
    if (!strcmp(fault, "pads_with_ones")) q4_0->pack = pads_with_ones;
    if (!strcmp(fault, "touches_blind_rows")) k->attention = touches_blind_rows;
    if (!strcmp(fault, "exp_of_libm")) k->swiglu = exp_of_libm;
    if (!strcmp(fault, "last_maximum")) k->argmax = last_maximum;
    if (!strcmp(fault, "forgets_q4_0")) k->matmul[KIPU_Q4_0] = NULL;
}

const kipu_kernels *kipu_kernels_of(kipu_tier tier) {
    static kipu_kernels k;
    static kipu_matmul_kernels q4_0;
    const char *fault = getenv("KIPU_CHECK_FAULT");
    if (tier != KIPU_TIER_AVX2) return tier == KIPU_TIER_REF ? kipu_kernels_ref() : NULL;
    k = *kipu_kernels_ref();
    k.tier = tier;
    q4_0 = *good();
    k.matmul[KIPU_Q4_0] = &q4_0;
    plant(&k, &q4_0, fault ? fault : "");
    return &k;
}
