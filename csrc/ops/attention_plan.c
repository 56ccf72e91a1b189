#include "ops/attention_plan.h"

#include <string.h>

int32_t kipu_attn_block_rows(const kipu_attn_head *head) {
    enum { BUDGET = 192 * 1024 };                                /* bytes of q, o of the piece, o of the whole */
    int64_t row = ((int64_t)head->d_k + 2 * (int64_t)head->d_v) * (int64_t)sizeof(float);
    int64_t rows = BUDGET / row;
    return rows < 8 ? 8 : rows > KIPU_ATTN_BLOCK_ROWS ? KIPU_ATTN_BLOCK_ROWS : (int32_t)rows;
}

static int32_t ceil_div(int64_t a, int64_t b) { return (int32_t)((a + b - 1) / b); }

/* A stable counting sort of the tokens by sequence. */
static void group_tokens(kipu_attn_plan *p) {
    const kipu_attention *a = p->a;
    int32_t count[KIPU_ATTN_SEQS] = {0}, next[KIPU_ATTN_SEQS] = {0}, first = 0;
    for (int32_t t = 0; t < a->n_tokens; t++) count[a->seq[t]]++;
    for (int32_t s = 0; s < KIPU_ATTN_SEQS; s++) {
        if (!count[s]) continue;
        p->group[p->n_groups++] = (kipu_attn_group){.seq = s, .first = first, .n_tokens = count[s]};
        next[s] = first;
        first += count[s];
    }
    for (int32_t t = 0; t < a->n_tokens; t++) p->order[next[a->seq[t]]++] = t;
}

static void cut(kipu_attn_plan *p, int32_t block_rows) {
    p->block_rows = block_rows;
    p->n_blocks = 0;
    for (int32_t g = 0; g < p->n_groups; g++) {
        p->group[g].first_block = p->n_blocks;
        p->group[g].n_blocks = ceil_div((int64_t)p->group[g].n_tokens * p->heads_per_kv, block_rows);
        p->n_blocks += p->group[g].n_blocks;
    }
}

void kipu_attn_plan_init(kipu_attn_plan *p, const kipu_attention *a, int32_t *order) {
    p->a = a;
    p->heads_per_kv = a->n_head / a->n_head_kv;
    p->n_groups = 0;
    p->order = order;
    group_tokens(p);
    cut(p, kipu_attn_block_rows(&a->head));
}

/* Each cut makes the cache be read once more, so few tokens are only cut where a worker would stand idle. */
static bool worth_cutting(const kipu_attn_plan *p, int n_workers) {
    int64_t jobs = (int64_t)p->n_blocks * p->a->n_head_kv;
    return p->block_rows >= 32 ? jobs < 4 * (int64_t)n_workers : p->block_rows > 1 && jobs < n_workers;
}

void kipu_attn_plan_refine(kipu_attn_plan *p, int n_workers) {
    int64_t most = 1;
    for (int32_t g = 0; g < p->n_groups; g++) {
        int64_t rows = (int64_t)p->group[g].n_tokens * p->heads_per_kv;
        if (rows > most) most = rows;
    }
    if (most < p->block_rows) cut(p, (int32_t)most);
    while (worth_cutting(p, n_workers)) cut(p, (p->block_rows + 1) / 2);
}

/* First span of a chunk that reaches position pos or lies behind it. */
static int32_t first_span_at(const kipu_kv_spans *s, int64_t pos) {
    int32_t low = 0, high = s->count;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (s->span[mid].pos / KIPU_CHUNK < pos / KIPU_CHUNK) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* The spans between the first position that the block's first row sees and the last one of its last row. */
static void find_spans(const kipu_attn_plan *p, kipu_attn_block *b) {
    const kipu_attention *a = p->a;
    int64_t low = INT64_MAX, high = 0;
    for (int32_t r = 0; r < b->n_rows; r++) {
        int64_t pos = a->pos[kipu_attn_row_token(p, b, r)];
        if (pos < low) low = pos;
        if (pos > high) high = pos;
    }
    low = a->n_swa > 0 ? low - a->n_swa + 1 : 0;
    b->begin = low > 0 ? first_span_at(b->spans, low) : 0;
    b->end = a->causal ? first_span_at(b->spans, high + KIPU_CHUNK) : b->spans->count;
}

kipu_attn_block kipu_attn_plan_block(const kipu_attn_plan *p, int32_t i) {
    const kipu_attn_group *g = p->group;
    while (i >= g->first_block + g->n_blocks) g++;
    int64_t row = (int64_t)(i - g->first_block) * p->block_rows, left = (int64_t)g->n_tokens * p->heads_per_kv - row;
    kipu_attn_block b = {
        .spans = &p->a->spans[g->seq],
        .tokens = p->order + g->first,
        .row = (int32_t)row,
        .n_rows = left < p->block_rows ? (int32_t)left : p->block_rows,
    };
    find_spans(p, &b);
    return b;
}
