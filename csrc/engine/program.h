/* The forward pass as data: nodes recorded once by an architecture file, fused and planned in C.
 *
 * A value is a node's result: (n_tokens, width) floats. Inputs precede their users. Everything that changes from batch to batch (tokens,
 * positions, cells, mask kind, which rows are outputs) is a run-time input and not in here. */
#ifndef KIPU_ENGINE_PROGRAM_H
#define KIPU_ENGINE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef enum kipu_op {
    KIPU_OP_EMBED,      /* rows of weight by token, or the batch's vectors, times f[0]; i[0] = 0: vectors are not scaled */
    KIPU_OP_RMS_NORM,   /* src0 per row, weight, eps f[0]; i[0] = width of one norm (== width: row norm; smaller: per head) */
    KIPU_OP_LINEAR,     /* weight x src0 (+ bias) */
    KIPU_OP_ROPE,       /* src0 heads of i[0] values, rotate n_rot = i[1]; i[2] = 0 adjacent pairs, 2 halves; i[3] = frequency set */
    KIPU_OP_ATTENTION,  /* src0 q, src1 k, src2 v; il; i[0] n_head, i[1] n_head_kv, i[2] window (0/1); f[0] scale, f[1] softcap */
    KIPU_OP_ADD,        /* src0 + src1 */
    KIPU_OP_GLU,        /* act(src0) * src1; i[0] = 0 silu, 1 gelu */
    KIPU_OP_ROWS,       /* rows of src0 that are outputs */
    KIPU_OP_SOFTCAP,    /* f[0] * tanh(src0 / f[0]) */
    KIPU_OP_LOGITS      /* src0 is the result: marks the end */
} kipu_op;

typedef struct kipu_node {
    kipu_op op;
    int32_t src[3];     /* node indices, -1 none */
    int32_t weight, bias;   /* weight indices, -1 none */
    int32_t width;      /* floats per row */
    int32_t il;         /* layer, -1 outside */
    int32_t i[4];
    float f[2];
    char name[32];      /* "attn_norm", without layer */
} kipu_node;

/* Frequencies of RoPE: base and scale of one kind of layer. Context parameters override set 0 (see context.h). */
typedef struct kipu_rope_set {
    int32_t n_rot;
    float freq_base, freq_scale;
    int32_t factors;    /* weight index of per-pair divisors, or -1 */
    bool fixed;         /* context parameters (base, scale, yarn) do not apply */
} kipu_rope_set;

typedef struct kipu_program kipu_program;

kipu_status kipu_program_new(kipu_program **out, kipu_error *err);
void kipu_program_free(kipu_program *p);
/* Appends; *index is the new value. Checks indices and widths. */
kipu_status kipu_program_add(kipu_program *p, const kipu_node *node, int32_t *index, kipu_error *err);
kipu_status kipu_program_add_rope(kipu_program *p, const kipu_rope_set *set, int32_t *index, kipu_error *err);
/* After the fact: the name a later node gives to an earlier value. */
kipu_status kipu_program_name(kipu_program *p, int32_t index, const char *name, int32_t il, kipu_error *err);
int32_t kipu_program_size(const kipu_program *p);
const kipu_node *kipu_program_node(const kipu_program *p, int32_t index);
int32_t kipu_program_n_rope(const kipu_program *p);
const kipu_rope_set *kipu_program_rope(const kipu_program *p, int32_t index);

#endif
