#include "engine/batch.h"

#include <limits.h>
#include <stdlib.h>
#include "base/memory_alloc.h"

/* Invalid input: the reason into err; kipu_batch_check turns the status into code -1. */
#define REFUSE_UNLESS(condition, ...)                                                                                                    \
    do {                                                                                                                                 \
        if (!(condition)) return kipu_fail(err, KIPU_E_ARG, __VA_ARGS__);                                                                \
    } while (0)

/* ------------------------------------------------------------------------------------------------ tokens and sequence sets */

static kipu_status check_tokens(const kipu_batch *b, int32_t n_vocab, kipu_error *err) {
    for (int32_t i = 0; b->token && i < b->n_tokens; i++)
        REFUSE_UNLESS(b->token[i] >= 0 && b->token[i] < n_vocab, "batch.token[%d] is %d, expected 0..%d", i, b->token[i], n_vocab - 1);
    return KIPU_OK;
}

static kipu_status read_ids(const kipu_batch *b, int32_t i, uint64_t *set, int32_t *first, kipu_error *err) {
    int32_t n = b->n_seq_id ? b->n_seq_id[i] : 1;
    *set = 1;
    *first = 0;
    if (!b->seq_id) return KIPU_OK;
    REFUSE_UNLESS(n >= 1 && n <= KIPU_MAX_SEQ, "batch.n_seq_id[%d] is %d, expected 1..%d", i, n, KIPU_MAX_SEQ);
    *set = 0;
    for (int32_t j = 0; j < n; j++) {
        int32_t id = b->seq_id[i][j];
        REFUSE_UNLESS(id >= 0 && id < KIPU_MAX_SEQ, "batch.seq_id[%d][%d] is %d, expected 0..%d", i, j, id, KIPU_MAX_SEQ - 1);
        REFUSE_UNLESS(!(*set >> id & 1), "batch.seq_id[%d] names sequence %d twice", i, id);
        *set |= UINT64_C(1) << id;
        if (j == 0) *first = id;
    }
    return KIPU_OK;
}

static kipu_status read_sequences(kipu_batch_plan *p, const kipu_batch *b, kipu_error *err) {
    for (int32_t i = 0; i < p->n; i++) KIPU_TRY(read_ids(b, i, &p->seqs[i], &p->seq[i], err));
    return KIPU_OK;
}

/* ------------------------------------------------------------------------------------------------ positions */

static kipu_status read_positions(kipu_batch_plan *p, const kipu_batch *b, kipu_error *err) {
    for (int32_t i = 0; i < p->n; i++) {
        REFUSE_UNLESS(b->pos[i] >= 0, "batch.pos[%d] is %d, expected >= 0", i, b->pos[i]);
        p->pos[i] = b->pos[i];
    }
    return KIPU_OK;
}

/* No positions given: every token continues its first sequence, and all its sequences move on. */
static kipu_status continue_positions(kipu_batch_plan *p, const kipu_memory *memory, kipu_error *err) {
    int32_t last[KIPU_MAX_SEQ];
    for (int s = 0; s < KIPU_MAX_SEQ; s++) last[s] = kipu_memory_pos_max(memory, s);
    for (int32_t i = 0; i < p->n; i++) {
        REFUSE_UNLESS(last[p->seq[i]] < INT32_MAX, "sequence %d is at position %d: no room to continue", p->seq[i], INT32_MAX);
        p->pos[i] = last[p->seq[i]] + 1;
        for (uint64_t rest = p->seqs[i]; rest; rest &= rest - 1) last[__builtin_ctzll(rest)] = p->pos[i];
    }
    return KIPU_OK;
}

/* What a batch says of one sequence. */
typedef struct seen {
    int32_t count, low, high;
} seen;

static void look_at_sequences(const kipu_batch_plan *p, seen *of) {
    for (int s = 0; s < KIPU_MAX_SEQ; s++) of[s] = (seen){0, INT32_MAX, -1};
    for (int32_t i = 0; i < p->n; i++)
        for (uint64_t rest = p->seqs[i]; rest; rest &= rest - 1) {
            seen *q = &of[__builtin_ctzll(rest)];
            q->count++;
            if (p->pos[i] < q->low) q->low = p->pos[i];
            if (p->pos[i] > q->high) q->high = p->pos[i];
        }
}

/* Continues the memory: one behind the last position; embeddings may also repeat the last one. */
static kipu_status check_start(const seen *q, int s, bool repeat, const kipu_memory *memory, kipu_error *err) {
    int64_t last = kipu_memory_pos_max(memory, s);     /* wide: behind the last position there may be none */
    bool follows = last < 0 || q->low == last + 1 || (repeat && q->low == last);
    REFUSE_UNLESS(follows, "sequence %d: the batch starts at position %d, the memory ends at %lld: expected %lld", s, q->low,
                  (long long)last, (long long)last + 1);
    return KIPU_OK;
}

/* Positions of one sequence: no gap; twice only for embeddings. `marks`: (high - low + 1) bytes, zero. */
static kipu_status check_gaps(const kipu_batch_plan *p, const seen *q, int s, uint8_t *marks, kipu_error *err) {
    int64_t span = (int64_t)q->high - q->low + 1;
    REFUSE_UNLESS(span <= q->count, "sequence %d: the batch's positions %d..%d have gaps (%d tokens)", s, q->low, q->high, q->count);
    for (int64_t i = 0; i < span; i++) marks[i] = 0;
    int64_t distinct = 0;
    for (int32_t i = 0; i < p->n; i++) {
        if (!(p->seqs[i] >> s & 1)) continue;
        uint8_t *mark = &marks[p->pos[i] - q->low];
        REFUSE_UNLESS(!*mark || p->embd, "sequence %d: the batch has position %d twice", s, p->pos[i]);
        distinct += !*mark;
        *mark = 1;
    }
    REFUSE_UNLESS(distinct == span, "sequence %d: the batch's positions %d..%d have gaps", s, q->low, q->high);
    return KIPU_OK;
}

/* Sequences that share a token must hold the same span of positions. */
static kipu_status check_coupled(const kipu_batch_plan *p, const kipu_memory *memory, kipu_error *err) {
    for (int32_t i = 0; i < p->n; i++)
        for (uint64_t rest = p->seqs[i] & (p->seqs[i] - 1); rest; rest &= rest - 1) {
            int a = __builtin_ctzll(p->seqs[i]), b = __builtin_ctzll(rest);
            bool same = kipu_memory_pos_min(memory, a) == kipu_memory_pos_min(memory, b)
                     && kipu_memory_pos_max(memory, a) == kipu_memory_pos_max(memory, b);
            REFUSE_UNLESS(same, "token %d belongs to sequences %d and %d, which hold different positions", i, a, b);
        }
    return KIPU_OK;
}

static kipu_status check_positions(const kipu_batch_plan *p, const kipu_memory *memory, kipu_error *err) {
    seen of[KIPU_MAX_SEQ];
    look_at_sequences(p, of);
    uint8_t *marks = kipu_alloc(p->n);
    KIPU_REQUIRE(marks, err, KIPU_E_MEMORY, "no memory for a batch of %d tokens", p->n);
    kipu_status status = KIPU_OK;
    for (int s = 0; s < KIPU_MAX_SEQ && status == KIPU_OK; s++) {
        if (!of[s].count) continue;
        status = check_start(&of[s], s, p->embd != NULL, memory, err);
        if (status == KIPU_OK) status = check_gaps(p, &of[s], s, marks, err);
    }
    kipu_free(marks);
    return status == KIPU_OK ? check_coupled(p, memory, err) : status;
}

/* ------------------------------------------------------------------------------------------------ outputs, order, ubatches */

static void choose_outputs(kipu_batch_plan *p, const kipu_batch *b) {
    for (int32_t i = 0; i < p->n; i++) {
        bool out = b->logits ? b->logits[i] != 0 : i == p->n - 1;
        p->row_of_batch[i] = out ? p->n_outputs++ : -1;
    }
}

/* Is every sequence's tokens order already ascending? */
static bool is_ascending(const kipu_batch_plan *p) {
    int32_t last[KIPU_MAX_SEQ];
    for (int s = 0; s < KIPU_MAX_SEQ; s++) last[s] = -1;
    for (int32_t i = 0; i < p->n; i++)
        for (uint64_t rest = p->seqs[i]; rest; rest &= rest - 1) {
            int s = __builtin_ctzll(rest);
            if (p->pos[i] < last[s]) return false;
            last[s] = p->pos[i];
        }
    return true;
}

typedef struct sort_key { int32_t pos, index; } sort_key;

static int by_position(const void *a, const void *b) {
    const sort_key *x = a, *y = b;
    return x->pos != y->pos ? (x->pos < y->pos ? -1 : 1) : x->index < y->index ? -1 : 1;
}

/* Batch order if that ascends for every sequence, else by position. Rewrites pos, seqs and seq into that order. */
static kipu_status put_in_order(kipu_batch_plan *p, kipu_error *err) {
    for (int32_t i = 0; i < p->n; i++) p->order[i] = i;
    if (!is_ascending(p)) {
        sort_key *keys = kipu_alloc_array(p->n, sizeof *keys);
        uint64_t *seqs = kipu_alloc_array(p->n, sizeof *seqs);
        int32_t *seq = kipu_alloc_array(p->n, sizeof *seq);
        bool ok = keys && seqs && seq;
        for (int32_t i = 0; ok && i < p->n; i++) keys[i] = (sort_key){p->pos[i], i}, seqs[i] = p->seqs[i], seq[i] = p->seq[i];
        if (ok) qsort(keys, p->n, sizeof *keys, by_position);
        for (int32_t i = 0; ok && i < p->n; i++) {
            p->order[i] = keys[i].index;
            p->pos[i] = keys[i].pos;
            p->seqs[i] = seqs[keys[i].index];
            p->seq[i] = seq[keys[i].index];
        }
        kipu_free(keys);
        kipu_free(seqs);
        kipu_free(seq);
        KIPU_REQUIRE(ok, err, KIPU_E_MEMORY, "no memory for a batch of %d tokens", p->n);
    }
    for (int32_t i = 0; i < p->n; i++) p->row[i] = p->row_of_batch[p->order[i]];
    return KIPU_OK;
}

static void cut_ubatches(kipu_batch_plan *p, int32_t n_ubatch) {
    for (int32_t from = 0; from < p->n; from += n_ubatch)
        p->ubatches[p->n_ubatches++] =
            (kipu_memory_ubatch){.n = p->n - from < n_ubatch ? p->n - from : n_ubatch, .pos = p->pos + from, .seqs = p->seqs + from};
}

/* ------------------------------------------------------------------------------------------------ all of it */

static kipu_status allocate(kipu_batch_plan *p, int32_t n_ubatch, kipu_error *err) {
    size_t n = p->n, cuts = (n + n_ubatch - 1) / n_ubatch;
    char *at = p->block = kipu_alloc(n * (sizeof(uint64_t) + 5 * sizeof(int32_t)) + cuts * sizeof *p->ubatches);
    KIPU_REQUIRE(at, err, KIPU_E_MEMORY, "no memory for a batch of %zu tokens", n);
    p->ubatches = (void *)at, at += cuts * sizeof *p->ubatches;
    p->seqs = (void *)at, at += n * sizeof *p->seqs;
    int32_t **arrays[] = {&p->order, &p->pos, &p->seq, &p->row, &p->row_of_batch};
    for (int i = 0; i < 5; i++) *arrays[i] = (void *)at, at += n * sizeof(int32_t);
    return KIPU_OK;
}

static kipu_status check_all(kipu_batch_plan *p, const kipu_batch *b, const kipu_memory *memory, int32_t n_vocab, kipu_error *err) {
    KIPU_TRY(check_tokens(b, n_vocab, err));
    KIPU_TRY(read_sequences(p, b, err));
    KIPU_TRY(b->pos ? read_positions(p, b, err) : continue_positions(p, memory, err));
    return check_positions(p, memory, err);
}

kipu_status kipu_batch_check(kipu_batch_plan *p, const kipu_batch *b, const kipu_memory *memory, int32_t n_vocab, uint32_t n_ubatch,
                             int32_t *code, kipu_error *err) {
    *p = (kipu_batch_plan){.n = b->n_tokens, .token = b->token, .embd = b->embd};
    *code = 0;
    if (b->n_tokens == 0) {
        *code = -1;
        kipu_fail(err, KIPU_E_ARG, "batch.n_tokens is 0, expected >= 1");
        return KIPU_OK;
    }
    KIPU_REQUIRE(b->n_tokens > 0, err, KIPU_E_ARG, "batch.n_tokens is %d, expected >= 1", b->n_tokens);
    KIPU_REQUIRE(!b->token != !b->embd, err, KIPU_E_ARG, "batch: %s token and embd are set, expected exactly one of them",
                 b->token ? "both" : "neither");
    kipu_status status = allocate(p, n_ubatch, err);
    if (status == KIPU_OK) status = check_all(p, b, memory, n_vocab, err);
    if (status == KIPU_OK) {
        choose_outputs(p, b);
        status = put_in_order(p, err);
        cut_ubatches(p, n_ubatch);
    }
    if (status == KIPU_OK) return KIPU_OK;
    kipu_batch_plan_free(p);
    *code = status == KIPU_E_MEMORY ? -2 : -1;
    return KIPU_OK;
}

void kipu_batch_plan_free(kipu_batch_plan *p) {
    kipu_free(p->block);
    *p = (kipu_batch_plan){0};
}
