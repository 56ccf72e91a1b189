/* How the rows of one attention are cut into query blocks. Internal to attention*.c; pure arithmetic on the arguments.
 *
 * A row is one query head of one token. The tokens of a ubatch are grouped by sequence; within a group and one kv head the rows stand
 * token by token, the heads_per_kv query heads of that kv head side by side:
 *
 *     group of sequence s | token 0: head 0 .. G-1 | token 1: head 0 .. G-1 | ...        cut into blocks of block_rows rows
 *
 * One block walks the cache once for all of its rows. Where the cuts lie changes no bit of any row. */
#ifndef KIPU_OPS_ATTENTION_PLAN_H
#define KIPU_OPS_ATTENTION_PLAN_H

#include "ops/attention.h"

enum {
    KIPU_ATTN_SEQS = 64,
    KIPU_ATTN_BLOCK_ROWS = 128,   /* most rows of a block */
    KIPU_ATTN_PIECE = 512        /* positions from one fresh state to the next */
};

typedef struct kipu_attn_group {
    int32_t seq;
    int32_t first, n_tokens;     /* plan.order[first .. first + n_tokens) */
    int32_t first_block, n_blocks;
} kipu_attn_group;

typedef struct kipu_attn_plan {
    const kipu_attention *a;
    int32_t heads_per_kv;        /* G */
    int32_t block_rows;
    int32_t n_groups, n_blocks;
    kipu_attn_group group[KIPU_ATTN_SEQS];
    int32_t *order;              /* (n_tokens) token numbers, sequence by sequence, in batch order within one */
} kipu_attn_plan;

typedef struct kipu_attn_block {
    const kipu_kv_spans *spans;
    const int32_t *tokens;       /* of its group */
    int32_t row, n_rows;         /* rows [row, row + n_rows) of the group: token row / G, head row % G */
    int32_t begin, end;          /* spans that any of its rows can see */
} kipu_attn_block;

/* Most rows of a block for these head sizes: what keeps q and two states within a core's second-level cache. */
int32_t kipu_attn_block_rows(const kipu_attn_head *head);

/* Groups the tokens (order: room for n_tokens) and cuts them into blocks of the largest size. */
void kipu_attn_plan_init(kipu_attn_plan *p, const kipu_attention *a, int32_t *order);
/* Cuts finer, down to where that many workers have something to do each. */
void kipu_attn_plan_refine(kipu_attn_plan *p, int n_workers);
/* Block number i of n_blocks. */
kipu_attn_block kipu_attn_plan_block(const kipu_attn_plan *p, int32_t i);

static inline int32_t kipu_attn_row_token(const kipu_attn_plan *p, const kipu_attn_block *b, int32_t r) {
    return b->tokens[(b->row + r) / p->heads_per_kv];
}

#endif
