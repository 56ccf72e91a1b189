/* One or few tokens over a long cache: each piece of 512 positions becomes a task of its own, and the pieces' results are joined
 * afterwards. Internal to attention*.c. */
#ifndef KIPU_OPS_ATTENTION_SPLIT_H
#define KIPU_OPS_ATTENTION_SPLIT_H

#include "ops/attention_plan.h"

enum {
    KIPU_ATTN_SPLIT_TOKENS = 4,    /* most tokens of a ubatch that is split: bounds the memory for partial results */
    KIPU_ATTN_SPLIT_TASKS = 2048
};

/* The spans [begin, end) of one piece, for one block. */
typedef struct kipu_attn_task {
    int32_t block, begin, end;
    int32_t n_rows;
    size_t offset;                 /* floats; where the results of kv head 0 lie among the partial results */
} kipu_attn_task;

typedef struct kipu_attn_split {
    int32_t n_tasks;
    kipu_attn_task *task;          /* (KIPU_ATTN_SPLIT_TASKS) block by block, pieces ascending */
} kipu_attn_split;

/* Floats of one block's partial result for one kv head:  o (n_rows, d_v) | m (n_rows) | l (n_rows) | up to a full cache line */
static inline size_t kipu_attn_slot_floats(int32_t n_rows, int32_t d_v) { return (((size_t)n_rows * ((size_t)d_v + 2)) + 15) / 16 * 16; }

/* Largest number of pieces of one sequence of n_cells cells that is split: a dense one has no more. */
static inline int64_t kipu_attn_split_pieces(int64_t n_cells) { return n_cells / KIPU_ATTN_PIECE + 2; }

/* Lists the tasks and returns true if splitting pays: more jobs are wanted, and there are pieces to make them of. Decides from the
 * sizes alone, so that all workers agree. */
bool kipu_attn_split_init(kipu_attn_split *s, const kipu_attn_plan *p, int n_workers, kipu_attn_task *room);

#endif
