#include "ops/attention_split.h"

static int count_lanes(uint32_t lanes) {
    if (lanes == 0xffff) return KIPU_BLOCK_CELLS;
    int n = 0;
    for (; lanes; lanes &= lanes - 1) n++;
    return n;
}

static bool add_task(kipu_attn_split *s, const kipu_attn_plan *p, kipu_attn_task task) {
    if (s->n_tasks == KIPU_ATTN_SPLIT_TASKS) return false;
    const kipu_attn_task *last = s->n_tasks ? &s->task[s->n_tasks - 1] : NULL;
    if (last) task.offset = last->offset + kipu_attn_slot_floats(last->n_rows, p->a->head.d_v) * p->a->n_head_kv;
    s->task[s->n_tasks++] = task;
    return true;
}

/* The pieces of one block. False: too many for the room, or thinner than the partial results are sized for. */
static bool add_block(kipu_attn_split *s, const kipu_attn_plan *p, int32_t block) {
    kipu_attn_block b = kipu_attn_plan_block(p, block);
    const kipu_kv_span *span = b.spans->span;
    int64_t n_cells = 0;
    int32_t first_task = s->n_tasks;
    for (int32_t i = b.begin; i < b.end;) {
        kipu_attn_task task = {.block = block, .begin = i, .n_rows = b.n_rows};
        int32_t piece = span[i].pos / KIPU_ATTN_PIECE;
        for (; i < b.end && span[i].pos / KIPU_ATTN_PIECE == piece; i++) n_cells += count_lanes(span[i].lanes);
        task.end = i;
        if (!add_task(s, p, task)) return false;
    }
    return s->n_tasks - first_task <= kipu_attn_split_pieces(n_cells);
}

bool kipu_attn_split_init(kipu_attn_split *s, const kipu_attn_plan *p, int n_workers, kipu_attn_task *room) {
    int64_t jobs = (int64_t)p->n_blocks * p->a->n_head_kv;
    *s = (kipu_attn_split){.task = room};
    if (n_workers == 1 || !p->n_blocks || p->a->n_tokens > KIPU_ATTN_SPLIT_TOKENS || jobs >= 4 * (int64_t)n_workers) return false;
    for (int32_t block = 0; block < p->n_blocks; block++)
        if (!add_block(s, p, block)) return false;
    int32_t pieces = s->n_tasks / p->n_blocks;
    return jobs % n_workers ? pieces >= 2 : pieces >= 8;   /* heads alone fill the workers: only a long cache repays the barrier */
}
