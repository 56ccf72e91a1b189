/* The kernel table: leaf arithmetic, one tile each.
 *
 * Contract of every kernel: no allocation, no threads, no I/O, cannot fail; reads and writes exactly the bytes of its arguments
 * (no over-read); floats may be NaN or infinite without a crash. Callers check shapes.
 *
 * One arithmetic, all tiers. Each output element is computed by the sequence of float operations written beside its kernel below;
 * SIMD puts different outputs (or the documented lanes) side by side and never changes that sequence. fma(a, b, c) rounds once;
 * every file is compiled with -ffp-contract=off and asks for fma by name. So `ref` is the specification and every tier returns its
 * bits, which is what tests/kernels/check.c asks for, and what makes results equal for one token and for 512.
 *
 * Names: kipu_OP_FORMAT[_TILE]__TIER, e.g. kipu_gemm_q4_0_16x8__avx512.
 */
#ifndef KIPU_KERNELS_KERNELS_H
#define KIPU_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include "base/cpu.h"
#include "quants/formats.h"

enum {
    KIPU_PANEL_ROWS = 16,            /* weight rows of one panel */
    KIPU_GROUP = 32,                 /* activations that share a scale */
    KIPU_WIDE = 256,                 /* activations that share one where a K format asks */
    KIPU_CHUNK = 64,                 /* cache positions of one attention step */
    KIPU_GEMM_SCRATCH = 192 * 1024,  /* bytes of scratch a gemm may use, 64-byte aligned, per thread */
    KIPU_ATTN_SCRATCH = 320 * 1024   /* bytes of scratch an attention kernel may use, 64-byte aligned, per thread */
};

/* ---------------------------------------------------------------------------------------------- matrix products
 *
 * Panel layout "P16": 16 rows of a matrix [k, rows], block by block. Inside one panel block every field of the format's block is kept as
 * a plane over the 16 rows: a 2-byte field becomes 16 values side by side; byte arrays are cut into 32-bit words, word v of rows
 * 0..15 side by side (64 bytes); single scale bytes (Q6_K) likewise 16 side by side per scale. Scales first, then codes:
 *
 *     Q4_0   | d x16 (32 B) | qs word 0 x16 (64 B) | ... | word 3 |                                    16 * 18 bytes
 *     Q4_1   | d x16 | m x16 | qs 4 words |            Q5_0   | d x16 | qh 1 word | qs 4 words |
 *     Q5_1   | d x16 | m x16 | qh 1 word | qs 4 words | Q8_0  | d x16 | qs 8 words |
 *     Q4_K   | d x16 | dmin x16 | scales 3 words | qs 32 words |
 *     Q5_K   | d x16 | dmin x16 | scales 3 words | qh 8 words | qs 32 words |
 *     Q6_K   | d x16 | scale 0 x16 (16 B) | ... | scale 15 x16 | ql 32 words | qh 16 words |
 *     F32    | k = 0: 16 floats | k = 1: ... |         F16, BF16: the same with 2-byte values
 *
 * Packed bytes = 16 * bytes of a row, always. A last panel with fewer rows is filled with zero bytes. */

/* Activations of n tokens, k values each, rows contiguous. For float weights only x is used, for quantised weights q, d, s. */
typedef struct kipu_acts {
    int32_t n, k;
    const float *x;      /* (n, k) */
    const int8_t *q;     /* (n, k)     codes, -127..127 */
    const float *d;      /* (n, k/32)  scale of each group */
    const int32_t *s;    /* (n, k/32)  sum of the 32 codes of each group */
} kipu_acts;

/* Arithmetic of one output y of row w and token a, for gemv and gemm alike; groups g (32 values) ascending from acc = +0:
 *   F32 F16 BF16   for i = 0..k-1: acc = fma(float(w_i), x_i, acc)
 *   Q4_0 Q5_0 Q8_0 acc = fma(d_w * d_a, (float) sum_i (q_w - zero) q_a, acc)          zero = 8, 16, 0;  the sum is an exact integer
 *   Q4_1 Q5_1      acc = fma(d_w * d_a, (float) sum_i q_w q_a, acc);  acc = fma(m_w, d_a * (float) s_a, acc)
 *   Q4_K Q5_K      dw = d * sc_g, mw = dmin * m_g (exact);  acc = fma(dw * d_a, (float) sum_i q_w q_a, acc);
 *                  acc = fma(-mw, d_a * (float) s_a, acc)
 *   Q6_K           acc = fma(d * d_a, (float) (sc_2g * sum over the first 16 + sc_2g+1 * sum over the last 16), acc)   (q_w - 32)
 */
typedef struct kipu_matmul_kernels {
    /* One row of blocks in file order -> k floats. Same float operations as ggml's dequantisation (bit-equal to gguf.dequantize). */
    void (*decode)(float *out, const void *row, int64_t k);
    /* n_rows (1..16) rows in file order, row_bytes apart -> one panel. */
    void (*pack)(void *panel, const void *rows, int n_rows, int64_t k);
    /* Row `lane` of a panel -> file order. Exact inverse of pack. */
    void (*unpack)(void *row, const void *panel, int lane, int64_t k);
    /* One token: y[16 * n_panels]; panels lie one behind the other. `token` selects the row of `a`. */
    void (*gemv)(float *y, const void *panels, int n_panels, const kipu_acts *a, int token);
    /* nt tokens t0.. of `a` times n_panels panels: y[panel][token - t0][16]. scratch: KIPU_GEMM_SCRATCH bytes. Any nt >= 1. */
    void (*gemm)(float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch);
    int gemm_panels;     /* panels one gemm call likes best */
} kipu_matmul_kernels;

/* ---------------------------------------------------------------------------------------------- attention
 *
 * One step: up to 64 lanes = the cells of 64 consecutive positions (multiple of 64 first) of one sequence, one kv head.
 * K of 16 lanes is [d_k][16], V of one lane is d_v values. The state (m, l, o) of each query row is carried from step to step. */
typedef struct kipu_attn_chunk {
    const void *k[4];    /* lanes 16i..16i+15: [d_k][16]; NULL where none of the sixteen is present */
    const void *v[4];    /* lane 16i; lane 16i+j lies j * v_stride bytes behind it; NULL as k */
    size_t v_stride;
    uint64_t present;    /* bit = lane: holds a cell of this sequence; other lanes may hold anything, NaN included */
} kipu_attn_chunk;

typedef struct kipu_attn_head {
    int32_t d_k, d_v;    /* any value >= 1; multiples of 16 are fast */
    int32_t type_k, type_v;  /* KIPU_F16 or KIPU_F32 */
    float scale;         /* of q.k */
    float softcap;       /* 0: none */
} kipu_attn_head;

/* For each row r with mask[r] & present != 0 (others: state untouched, bits and all):
 *   s_j = +0; for i = 0..d_k-1: s_j = fma(q[r][i], k_j[i], s_j);  s_j = s_j * scale;  if softcap: s_j = softcap * kipu_tanh(s_j / softcap)
 *   c = max over visible lanes of s_j;  m' = max(m, c) (max starts at -inf and passes over NaN);  a = kipu_exp(m - m') (0 if m is -inf)
 *   p_j = kipu_exp(s_j - m') for visible lanes, +0 for others
 *   t[i] = (p[i] + p[16+i]) + (p[32+i] + p[48+i]) for i < 16;  sum = tree16(t);  l = fma(l, a, sum)
 *   o[i] = o[i] * a;  then for visible lanes j ascending: o[i] = fma(p_j, v_j[i], o[i]);  m = m'
 * Visible = mask[r] & present. Invisible lanes are selected away, never multiplied by 0.
 * tree16(t): u[i] = t[i] + t[i+8] (i<8); u[i] = u[i] + u[i+4] (i<4); u[i] + u[i+2] (i<2); u[0] + u[1]. */
typedef void (*kipu_attn_kernel)(float *m, float *l, float *o /* (n_rows, d_v) */, const float *q /* (n_rows, d_k) */, const uint64_t *mask,
                                 int n_rows, const kipu_attn_head *head, const kipu_attn_chunk *chunk, void *scratch);

/* ---------------------------------------------------------------------------------------------- the table */
typedef struct kipu_kernels {
    kipu_tier tier;
    const kipu_matmul_kernels *matmul[KIPU_TYPE_COUNT];   /* NULL: format not supported */

    /* Groups of 32: amax = max |x_i|; d = amax / 127; id = amax > 0 ? 127 / amax : 0; q_i = round-half-even(x_i * id), clamped to +-127;
     * s = sum q_i. id may overflow to infinity (amax < 2^-121): the clamp makes 127 of it, and 0 * inf -> 0.
     * A group with any infinite or NaN element gets d = NaN, q = 0, s = 0. k is a multiple of 32. */
    void (*quantize)(int8_t *q, float *d, int32_t *s, const float *x, int64_t k);
    /* The same with one amax, d and id for 256 values (k a multiple of 256); d[] still has an entry, equal eight times, for every 32. For
     * K formats, whose own blocks are that long: the resolution llama.cpp gives them, and what lets integer sums run over a block. */
    void (*quantize_wide)(int8_t *q, float *d, int32_t *s, const float *x, int64_t k);

    /* t[j] = fma(x_i, x_i, t[j]) for i = j, j+16, ...; r = 1 / sqrt(tree16(t) / n + eps); y_i = (x_i * r) * w_i (w NULL: x_i * r).
     * y may be x. */
    void (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps);

    /* In place on one head: pairs (2i, 2i+1) or (i, i + n_rot/2); y0 = fma(x0, c, -(x1 * s)); y1 = fma(x0, s, x1 * c). i < n_rot/2. */
    void (*rope_norm)(float *x, const float *cos, const float *sin, int n_rot);
    void (*rope_neox)(float *x, const float *cos, const float *sin, int n_rot);

    /* y_i = (g_i / (1 + exp(-g_i))) * u_i */
    void (*swiglu)(float *y, const float *gate, const float *up, int64_t n);
    /* z = 0.79788456f * (g * fma(0.044715f * g, g, 1)); y_i = (g / (1 + exp(-2 z))) * u_i   (tanh form of GELU) */
    void (*geglu)(float *y, const float *gate, const float *up, int64_t n);

    void (*add)(float *y, const float *a, const float *b, int64_t n);          /* y may be a or b */
    void (*scale)(float *y, const float *x, float s, int64_t n);               /* y_i = x_i * s */
    void (*softcap)(float *y, const float *x, float c, int64_t n);             /* y_i = c * kipu_tanh(x_i / c) */
    void (*to_half)(uint16_t *y, const float *x, int64_t n);
    void (*from_half)(float *y, const uint16_t *x, int64_t n);
    /* Index of the first maximum; NaN never wins; 0 if all are NaN. */
    int64_t (*argmax)(const float *x, int64_t n);

    kipu_attn_kernel attention;
    /* Joins a later piece (m2, l2, o2) into (m, l, o), row by row. m2 = -inf (it saw nothing): untouched; else m = -inf: a copy; else
     * M = m > m2 ? m : m2;  a = kipu_exp(m - M), b = kipu_exp(m2 - M);  l = fma(l, a, l2 * b);  o[i] = fma(o[i], a, o2[i] * b);  m = M. */
    void (*attention_merge)(float *m, float *l, float *o /* (n_rows, d_v) */, const float *m2, const float *l2, const float *o2, int n_rows,
                            int32_t d_v);
} kipu_kernels;

/* kipu_exp(x): x > 88.72283f -> inf; x < -87.33654f -> 0; NaN -> NaN; else n = round-half-even(x * log2e), r = fma(-n, ln2_hi, x),
 * r = fma(-n, ln2_lo, r), p = Horner with fma, result p * 2^n (exact, always normal: n added to the exponent bits).
 * Constants and reasons: ref/math_ref.h. n = (x * log2e + 1.5 * 2^23) - 1.5 * 2^23 gives the same n; the product is rounded first (no fma).
 * kipu_tanh(x) = 1 - 2 / (kipu_exp(2x) + 1). */

/* The table of a tier, or NULL if this build or machine has not got it. Static storage; any thread. */
const kipu_kernels *kipu_kernels_of(kipu_tier tier);

/* The table in use: the best tier, or the one KIPU_CPU names (read at the first call).
 * KIPU_E_ARG: unknown name; KIPU_E_UNSUPPORTED: not here. */
kipu_status kipu_kernels_get(const kipu_kernels **out, kipu_error *err);

#endif
