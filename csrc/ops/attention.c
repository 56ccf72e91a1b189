#include "ops/attention.h"

#include <math.h>
#include <string.h>
#include "ops/attention_plan.h"
#include "ops/attention_split.h"
#include "ops/attention_walk.h"

/* Online softmax of some rows: largest score, sum of weights, weighted sum of V. */
typedef struct attn_state {
    float *m, *l;   /* (n_rows) */
    float *o;       /* (n_rows, d_v) */
} attn_state;

typedef struct attn_scratch {
    void *kernel;
    char *gather;
    float *q;                     /* (block rows, d_k) */
    attn_state piece, whole;
    uint64_t *mask;               /* (block rows) */
    kipu_attn_task *task;
    int32_t *order;               /* (n_tokens) */
} attn_scratch;

/* ---------------------------------------------------------------------------------------------- scratch */

static void *take(char *base, size_t *used, size_t bytes) {
    size_t at = *used;
    *used += (bytes + 63) / 64 * 64;
    return base ? base + at : NULL;
}

static attn_state take_state(char *base, size_t *used, size_t rows, int32_t d_v) {
    attn_state s;
    s.m = take(base, used, rows * sizeof(float));
    s.l = take(base, used, rows * sizeof(float));
    s.o = take(base, used, rows * d_v * sizeof(float));
    return s;
}

/* Returns the bytes needed; base NULL: only that. */
static size_t lay_out(attn_scratch *s, char *base, int32_t n_tokens, const kipu_attn_head *head) {
    size_t used = 0, rows = (size_t)kipu_attn_block_rows(head);
    s->kernel = take(base, &used, KIPU_ATTN_SCRATCH);
    s->q = take(base, &used, rows * head->d_k * sizeof(float));
    s->piece = take_state(base, &used, rows, head->d_v);
    s->whole = take_state(base, &used, rows, head->d_v);
    s->mask = take(base, &used, rows * sizeof(uint64_t));
    s->gather = take(base, &used, kipu_attn_gather_bytes(head));
    s->task = take(base, &used, KIPU_ATTN_SPLIT_TASKS * sizeof(kipu_attn_task));
    s->order = take(base, &used, (size_t)n_tokens * sizeof(int32_t));
    return used;
}

size_t kipu_attention_scratch(int32_t max_tokens, const kipu_attn_head *head) {
    attn_scratch s;
    return lay_out(&s, NULL, max_tokens, head);
}

size_t kipu_attention_partials(int32_t max_tokens, int32_t n_head, int32_t d_v, int64_t n_positions) {
    size_t tokens = max_tokens < KIPU_ATTN_SPLIT_TOKENS ? max_tokens : KIPU_ATTN_SPLIT_TOKENS;
    return tokens * n_head * kipu_attn_slot_floats(1, d_v) * (size_t)kipu_attn_split_pieces(n_positions) * sizeof(float);
}

/* ---------------------------------------------------------------------------------------------- one block */

static void clear_state(const attn_state *s, int32_t n_rows, int32_t d_v) {
    for (int32_t r = 0; r < n_rows; r++) s->m[r] = -INFINITY;
    memset(s->l, 0, n_rows * sizeof(float));
    memset(s->o, 0, (size_t)n_rows * d_v * sizeof(float));
}

/* The block's query rows, one behind the other. */
static const float *collect_q(const kipu_attn_plan *p, const kipu_attn_block *b, int32_t kv_head, float *room) {
    const kipu_attention *a = p->a;
    size_t d_k = a->head.d_k;
    for (int32_t r = 0; r < b->n_rows; r++) {
        int32_t head = kv_head * p->heads_per_kv + (b->row + r) % p->heads_per_kv;
        memcpy(room + r * d_k, a->q + ((size_t)kipu_attn_row_token(p, b, r) * a->n_head + head) * d_k, d_k * sizeof(float));
    }
    return room;
}

static int64_t clamp_lane(int64_t lane) { return lane < 0 ? 0 : lane > KIPU_CHUNK ? KIPU_CHUNK : lane; }

/* Bits 0 .. n-1, n = 0 .. 64. */
static uint64_t low_bits(int64_t n) { return n < KIPU_CHUNK ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0; }

/* The lanes of a chunk at first_pos that a token at pos sees. */
static uint64_t visible_lanes(const kipu_attention *a, int64_t pos, int64_t first_pos) {
    int64_t end = a->causal ? clamp_lane(pos + 1 - first_pos) : KIPU_CHUNK;
    int64_t begin = a->n_swa > 0 ? clamp_lane(pos + 1 - a->n_swa - first_pos) : 0;
    return low_bits(end) & ~low_bits(begin);
}

static void fill_masks(const kipu_attn_plan *p, const kipu_attn_block *b, int32_t first_pos, uint64_t *mask) {
    int32_t head = b->row % p->heads_per_kv;
    const int32_t *token = b->tokens + b->row / p->heads_per_kv;
    for (int32_t r = 0; r < b->n_rows; token++, head = 0) {
        uint64_t lanes = visible_lanes(p->a, p->a->pos[*token], first_pos);
        for (; head < p->heads_per_kv && r < b->n_rows; head++) mask[r++] = lanes;
    }
}

/* Joins the finished piece into the whole (the first one is taken as it is) and starts a new one. */
static void finish_piece(kipu_op_worker *ow, attn_scratch *s, int32_t n_rows, int32_t d_v, bool first) {
    if (first) {
        attn_state t = s->whole;
        s->whole = s->piece;
        s->piece = t;
    } else {
        ow->k->attention_merge(s->whole.m, s->whole.l, s->whole.o, s->piece.m, s->piece.l, s->piece.o, n_rows, d_v);
    }
}

/* Between pieces: worker 0 polls; true: leave, the results are thrown away. */
static bool stopped(kipu_op_worker *ow) {
    if (ow->w.index == 0 && ow->poll) ow->poll(ow->poll_arg);
    return atomic_load_explicit(ow->stop, memory_order_relaxed);
}

/* All pieces of spans [b->begin, b->end) into s->whole. */
static void attend(kipu_op_worker *ow, const kipu_attn_plan *p, const kipu_attn_block *b, int32_t kv_head, attn_scratch *s) {
    const kipu_attention *a = p->a;
    const float *q = collect_q(p, b, kv_head, s->q);
    kipu_attn_walk w = kipu_attn_walk_start(a->layer, &a->head, kv_head, b->spans, b->begin, b->end, s->gather);
    int32_t piece = -1;
    bool first = true;
    clear_state(&s->piece, b->n_rows, a->head.d_v);
    while (kipu_attn_walk_next(&w)) {
        if (piece >= 0 && w.pos / KIPU_ATTN_PIECE != piece) {
            finish_piece(ow, s, b->n_rows, a->head.d_v, first);
            first = false;
            clear_state(&s->piece, b->n_rows, a->head.d_v);
            if (stopped(ow)) break;
        }
        piece = w.pos / KIPU_ATTN_PIECE;
        fill_masks(p, b, w.pos, s->mask);
        ow->k->attention(s->piece.m, s->piece.l, s->piece.o, q, s->mask, b->n_rows, &a->head, &w.chunk, s->kernel);
    }
    finish_piece(ow, s, b->n_rows, a->head.d_v, first);
}

static void write_out(kipu_op_worker *ow, const kipu_attn_plan *p, const kipu_attn_block *b, int32_t kv_head, const attn_state *s) {
    const kipu_attention *a = p->a;
    size_t d_v = a->head.d_v;
    for (int32_t r = 0; r < b->n_rows; r++) {
        int32_t head = kv_head * p->heads_per_kv + (b->row + r) % p->heads_per_kv;
        float *out = a->out + ((size_t)kipu_attn_row_token(p, b, r) * a->n_head + head) * d_v;
        if (s->l[r] == 0) memset(out, 0, d_v * sizeof(float));   /* nothing was visible */
        else ow->k->scale(out, s->o + r * d_v, 1.0f / s->l[r], (int64_t)d_v);
    }
}

/* ---------------------------------------------------------------------------------------------- whole blocks */

static void run_blocks(kipu_op_worker *ow, const kipu_attn_plan *p, attn_scratch *s, kipu_jobs *jobs) {
    int32_t n_kv = p->a->n_head_kv, count = p->n_blocks * n_kv;
    for (int job; (job = kipu_next_job(ow, jobs, count)) >= 0;) {
        int32_t kv_head = job / p->n_blocks;                                          /* one after the other: its K and V stay in cache */
        kipu_attn_block b = kipu_attn_plan_block(p, p->n_blocks - 1 - job % p->n_blocks);   /* late blocks see most: they go first */
        attend(ow, p, &b, kv_head, s);
        write_out(ow, p, &b, kv_head, &s->whole);
    }
}

/* ---------------------------------------------------------------------------------------------- pieces, then joining */

static attn_state partial_state(const kipu_attn_plan *p, const kipu_attn_task *t, int32_t kv_head, float *partials) {
    attn_state s;
    s.o = partials + t->offset + kv_head * kipu_attn_slot_floats(t->n_rows, p->a->head.d_v);
    s.m = s.o + (size_t)t->n_rows * p->a->head.d_v;
    s.l = s.m + t->n_rows;
    return s;
}

static void run_pieces(kipu_op_worker *ow, const kipu_attn_plan *p, const kipu_attn_split *split, attn_scratch *s, float *partials,
                       kipu_jobs *jobs) {
    int32_t n_kv = p->a->n_head_kv, count = split->n_tasks * n_kv;
    for (int job; (job = kipu_next_job(ow, jobs, count)) >= 0;) {
        const kipu_attn_task *t = &split->task[job / n_kv];
        kipu_attn_block b = kipu_attn_plan_block(p, t->block);
        attn_scratch local = *s;
        b.begin = t->begin;
        b.end = t->end;
        local.piece = partial_state(p, t, job % n_kv, partials);   /* a single piece: it becomes the whole as it is, in place */
        attend(ow, p, &b, job % n_kv, &local);
    }
}

/* Into the block's first piece, in place. A block that sees nothing has no piece: `empty` is what it gets. */
static attn_state join_block(kipu_op_worker *ow, const kipu_attn_plan *p, const kipu_attn_split *split, int32_t block, int32_t kv_head,
                             float *partials, attn_state empty) {
    const kipu_attn_task *t = split->task, *end = split->task + split->n_tasks;
    while (t < end && t->block != block) t++;
    if (t == end) return empty;
    attn_state whole = partial_state(p, t, kv_head, partials);
    for (t++; t < end && t->block == block; t++) {
        attn_state piece = partial_state(p, t, kv_head, partials);
        ow->k->attention_merge(whole.m, whole.l, whole.o, piece.m, piece.l, piece.o, t->n_rows, p->a->head.d_v);
    }
    return whole;
}

static void join_pieces(kipu_op_worker *ow, const kipu_attn_plan *p, const kipu_attn_split *split, attn_scratch *s, float *partials,
                        kipu_jobs *jobs) {
    int32_t n_kv = p->a->n_head_kv, count = p->n_blocks * n_kv;
    clear_state(&s->whole, p->block_rows, p->a->head.d_v);
    for (int job; (job = kipu_next_job(ow, jobs, count)) >= 0;) {
        kipu_attn_block b = kipu_attn_plan_block(p, job / n_kv);
        attn_state whole = join_block(ow, p, split, job / n_kv, job % n_kv, partials, s->whole);
        write_out(ow, p, &b, job % n_kv, &whole);
    }
}

void kipu_attention_run(kipu_op_worker *ow, const kipu_attention *a, void *partials, kipu_jobs jobs[2]) {
    kipu_attn_plan plan;
    kipu_attn_split split;
    attn_scratch s;
    lay_out(&s, ow->scratch, a->n_tokens, &a->head);
    kipu_attn_plan_init(&plan, a, s.order);
    if (kipu_attn_split_init(&split, &plan, ow->w.count, s.task)) {
        run_pieces(ow, &plan, &split, &s, partials, &jobs[0]);
        kipu_barrier(&ow->w);
        join_pieces(ow, &plan, &split, &s, partials, &jobs[1]);
    } else {
        kipu_attn_plan_refine(&plan, ow->w.count);
        run_blocks(ow, &plan, &s, &jobs[0]);
    }
}
