/* From recorded nodes to steps and memory: what the executor walks.
 *
 * 1. Rows: values that only reach the result are computed for output rows alone; a KIPU_OP_ROWS node is put in where a full value
 *    enters that part (in the last layer: behind K and V).
 * 2. Steps: one main operation each (embed, gather, matrix products of one input, attention) with the row operations before it (its
 *    chain) and, in the fused form, the operations finished inside it (gated unit, residual, soft cap). The plain form has one node per
 *    step. Both compute the same bits.
 * 3. Arena: values that outlive their step get a place; lifetimes are counted in steps. */
#ifndef KIPU_ENGINE_PLAN_H
#define KIPU_ENGINE_PLAN_H

#include <stdbool.h>
#include "engine/model.h"
#include "engine/program.h"

enum { KIPU_STEP_CHAIN_MAX = 12, KIPU_STEP_LINEAR_MAX = 4 };

typedef enum kipu_step_kind { KIPU_STEP_EMBED, KIPU_STEP_ROWS, KIPU_STEP_MATMUL, KIPU_STEP_ATTENTION, KIPU_STEP_CHAIN } kipu_step_kind;

typedef struct kipu_step {
    kipu_step_kind kind;
    int32_t n_chain, chain[KIPU_STEP_CHAIN_MAX];       /* row operations, in order */
    int32_t main;                                      /* embed, rows or attention node; -1 */
    int32_t n_linear, linear[KIPU_STEP_LINEAR_MAX];    /* linear nodes of one input */
    int32_t input;                                     /* that input */
    int32_t glu, add, softcap;                         /* nodes finished inside a matmul step, -1 none */
    bool need_codes, need_wide, need_floats;           /* kinds of activations its weights take: groups of 32, of 256, floats */
} kipu_step;

#define KIPU_NOWHERE SIZE_MAX

typedef struct kipu_plan {
    kipu_node *nodes;           /* the program's nodes, ROWS nodes put in, sources renumbered */
    int32_t n_nodes;
    bool *out_rows;             /* per node: has a row per output, not per token */
    size_t *place;              /* per node: floats per row before it in the arena, or KIPU_NOWHERE */
    int32_t *slot;              /* per node: its index in its step's chain, -1 */
    bool *is_result;            /* per node: lies in the output buffer */
    int32_t result;             /* the node whose rows are the logits, -1 */
    kipu_step *steps;
    int32_t n_steps;
    size_t row_floats;          /* arena floats per row; times the largest ubatch */
    int32_t max_chain_width, max_input_width;
    int32_t n_attention;        /* attention steps */
} kipu_plan;

kipu_status kipu_plan_new(kipu_plan **out, const kipu_model *model, bool fused, kipu_error *err);
void kipu_plan_free(kipu_plan *p);

#endif
