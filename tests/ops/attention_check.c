/* Checks kipu_attention_run and kipu_kv_store against a float64 model that reads the same cache, over random caches: several sequences,
 * shared cells, scattered cells, repeated positions, gaps, windows, ubatches of 1..70 tokens with interleaved sequences. All cells and
 * lanes that do not belong to a row's sequence hold NaN. Then the bits: the same rows in other company, order, placement, worker count, and
 * tier must come out equal.
 *
 * usage: attention_check [first seed] [seeds] [fault]     exit code 0: all well; 1: something differed.
 * fault: one of the names in faulty() below, to see that it is found. */
#define _GNU_SOURCE   /* setenv */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "base/memory_alloc.h"
#include "base/pool.h"
#include "ops/attention.h"

enum { MAX_SEQ = 4, MAX_CELLS = 12288, MAX_UBATCH = 70, MAX_SPANS = MAX_CELLS };

/* ---------------------------------------------------------------------------------------------- random numbers */

static uint64_t random_state;

static uint32_t random_bits(void) {   /* splitmix64 */
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}
static int random_below(int n) { return (int)(random_bits() % (uint32_t)n); }
static bool one_in(int n) { return random_below(n) == 0; }
static float random_float(void) { return (float)random_bits() * 0x1p-31f - 1.0f; }
static int pick(const int *from, int n) { return from[random_below(n)]; }

/* ---------------------------------------------------------------------------------------------- what is to be remembered */

/* One cell's worth of content: a position, its sequences, K and V rows. Listed in order of writing. */
typedef struct item {
    int32_t pos;
    uint32_t seqs;
    int32_t token;      /* number in the ubatch, -1: was there before */
} item;

typedef struct scene {
    kipu_attention a;   /* sizes; pointers are set per run */
    int32_t n_items, n_seq;
    item items[MAX_CELLS];
    float *k, *v;       /* (n_items, n_embd) */
    float *q;           /* (n_tokens, n_head, d_k) */
    int32_t pos[MAX_UBATCH], seq[MAX_UBATCH], item_of[MAX_UBATCH];
} scene;

static int n_embd_k(const scene *s) { return s->a.n_head_kv * s->a.head.d_k; }
static int n_embd_v(const scene *s) { return s->a.n_head_kv * s->a.head.d_v; }

static float *random_array(size_t n, float size) {
    float *x = kipu_alloc(n * sizeof(float) + 64);
    for (size_t i = 0; i < n; i++) x[i] = random_float() * size;
    return x;
}

static void add_item(scene *s, int32_t pos, uint32_t seqs, int32_t token) {
    if (s->n_items < MAX_CELLS) s->items[s->n_items++] = (item){pos, seqs, token};
}

/* A prefix that all sequences share, a history of each sequence's own with gaps and repeated positions, then the ubatch. */
static void make_history(scene *s, int length, int32_t last[MAX_SEQ]) {
    bool gaps = one_in(3), repeats = one_in(3);
    int32_t shared = random_below(length + 1) / (s->n_seq > 1 ? 1 : 2), jump = one_in(6) ? 3000 : 0;
    for (int32_t p = 0; p < shared; p++) add_item(s, p, (1u << s->n_seq) - 1, -1);
    for (int q = 0; q < s->n_seq; q++) {
        int32_t own = (length - shared) / (q + 1), p = shared + jump * q;
        for (int i = 0; i < own; i++, p++) {
            if (gaps && one_in(10)) p += random_below(90);
            add_item(s, p, 1u << q, -1);
            if (repeats && one_in(20))
                for (int n = 1 + random_below(3); n; n--) add_item(s, p, 1u << q, -1);
        }
        last[q] = p;
    }
}

static void make_ubatch(scene *s, int n_tokens, int32_t next[MAX_SEQ]) {
    bool interleave = one_in(2);
    s->a.n_tokens = n_tokens;
    for (int t = 0, q = 0; t < n_tokens; t++) {
        q = interleave ? random_below(s->n_seq) : t * s->n_seq / n_tokens;
        s->pos[t] = next[q]++;
        s->seq[t] = q;
        s->item_of[t] = s->n_items;
        add_item(s, s->pos[t], 1u << q, t);
    }
}

static void make_scene(scene *s, uint64_t seed) {
    static const int groups[] = {1, 2, 3, 4, 8, 9, 71}, dims[] = {1, 7, 16, 24, 32, 64, 80, 128};
    static const int lengths[] = {0, 3, 40, 130, 600, 1100, 2600, 5000};
    int32_t next[MAX_SEQ];
    random_state = seed * 1000003 + 17;
    memset(s, 0, sizeof *s);
    s->n_seq = 1 + random_below(MAX_SEQ);
    s->a.n_head_kv = 1 + random_below(3);
    int group = pick(groups, one_in(8) ? 7 : 5), length = pick(lengths, 8);
    s->a.n_head = s->a.n_head_kv * group;
    s->a.head.d_k = pick(dims, 8);
    s->a.head.d_v = one_in(3) ? pick(dims, 8) : s->a.head.d_k;
    s->a.head.type_k = one_in(3) ? KIPU_F32 : KIPU_F16;
    s->a.head.type_v = one_in(3) ? KIPU_F32 : KIPU_F16;
    s->a.head.scale = 1.0f / sqrtf((float)s->a.head.d_k);
    s->a.head.softcap = one_in(4) ? 5.0f : 0.0f;
    s->a.causal = !one_in(4);
    s->a.n_swa = one_in(3) ? 1 + random_below(700) : 0;
    make_history(s, length, next);
    /* enough tokens to cross block borders, not so many that ref takes long */
    int64_t work = (int64_t)s->a.n_head * (s->a.head.d_k + s->a.head.d_v) * (length + 40);
    int most = one_in(2) ? 4 : (int)(12000000 / work);
    s->a.n_tokens = 1 + random_below(most < 1 ? 1 : most > MAX_UBATCH ? MAX_UBATCH : most);
    make_ubatch(s, s->a.n_tokens, next);
    s->k = random_array((size_t)s->n_items * n_embd_k(s), 2.0f);
    s->v = random_array((size_t)s->n_items * n_embd_v(s), 1.0f);
    s->q = random_array((size_t)s->a.n_tokens * s->a.n_head * s->a.head.d_k, 2.0f);
}

static void free_scene(scene *s) {
    kipu_free(s->k);
    kipu_free(s->v);
    kipu_free(s->q);
}

/* ---------------------------------------------------------------------------------------------- a cache that holds it */

typedef struct cache {
    kipu_kv_layer layer;
    char *slabs[MAX_CELLS / KIPU_SLAB_CELLS];
    size_t slab_bytes;
    int32_t cell[MAX_CELLS];      /* of each item, -1: not stored */
    bool taken[MAX_CELLS];
    int first_block;              /* no block before it is empty */
    kipu_kv_spans spans[64];
    kipu_kv_span *span_room;
} cache;

/* A slab of NaN in both types: what stale and foreign cells may look like. */
static void new_slab(cache *c, int i) {
    c->slabs[i] = kipu_alloc(c->slab_bytes);
    memset(c->slabs[i], 0xff, c->slab_bytes);
}

static void cache_init(cache *c, const scene *s) {
    memset(c, 0, sizeof *c);
    kipu_kv_layer *l = &c->layer;
    *l = (kipu_kv_layer){.slab = c->slabs, .n_embd_k = n_embd_k(s), .n_embd_v = n_embd_v(s)};
    l->type_k = s->a.head.type_k;
    l->type_v = s->a.head.type_v;
    l->k_offset = 128;
    l->v_offset = l->k_offset + KIPU_SLAB_CELLS * (size_t)l->n_embd_k * kipu_kv_element(l->type_k) + 64;
    c->slab_bytes = l->v_offset + KIPU_SLAB_CELLS * (size_t)l->n_embd_v * kipu_kv_element(l->type_v);
    for (int i = 0; i < MAX_CELLS; i++) c->cell[i] = -1;
    c->span_room = kipu_alloc(MAX_SEQ * MAX_SPANS * sizeof(kipu_kv_span));
}

static void cache_free(cache *c) {
    for (int i = 0; i < MAX_CELLS / KIPU_SLAB_CELLS; i++) kipu_free(c->slabs[i]);
    kipu_free(c->span_room);
}

/* The block that holds 16 positions of these sequences already and has this lane free, or an empty block, or -1. */
static int find_block(cache *c, const scene *s, const item *it) {
    for (int i = s->n_items - 1; i >= 0; i--) {
        int block = c->cell[i] / KIPU_BLOCK_CELLS;
        bool same = c->cell[i] >= 0 && s->items[i].seqs == it->seqs && s->items[i].pos / 16 == it->pos / 16;
        if (same && !c->taken[block * 16 + it->pos % 16]) return block;
        if (s->items[i].pos + 200 < it->pos) break;
    }
    for (; c->first_block < MAX_CELLS / 16; c->first_block++) {
        bool empty = true;
        for (int i = 0; i < 16; i++) empty &= !c->taken[c->first_block * 16 + i];
        if (empty) return c->first_block;
    }
    return -1;
}

static int random_cell(const cache *c) {
    int cell = random_below(MAX_CELLS / 2);
    while (c->taken[cell]) cell = (cell + 1) % MAX_CELLS;
    return cell;
}

/* Stores items [i0, i1) of sequences in `seqs`; every `scatter`-th (0: none) in any free cell. */
static void cache_fill(cache *c, const scene *s, const kipu_kernels *kernels, int i0, int i1, uint32_t seqs, int scatter) {
    for (int i = i0; i < i1; i++) {
        const item *it = &s->items[i];
        if (!(it->seqs & seqs)) continue;
        int block = scatter && one_in(scatter) ? -1 : find_block(c, s, it);
        c->cell[i] = block < 0 ? random_cell(c) : block * KIPU_BLOCK_CELLS + it->pos % KIPU_BLOCK_CELLS;
        c->taken[c->cell[i]] = true;
        if (!c->slabs[c->cell[i] / KIPU_SLAB_CELLS]) new_slab(c, c->cell[i] / KIPU_SLAB_CELLS);
    }
    for (int i = i0, n; i < i1; i += n)   /* in one call as far as possible */
        for (n = 1; c->cell[i] >= 0; n++)
            if (i + n == i1 || c->cell[i + n] < 0) {
                kipu_kv_store(kernels, &c->layer, c->cell + i, s->k + (size_t)i * n_embd_k(s), s->v + (size_t)i * n_embd_v(s), 0, n);
                break;
            }
}

/* Key of the order of spans, and of the items in one: (chunk, round, position). */
typedef struct place { int32_t pos, round, cell; } place;

static int compare_places(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->pos / 64 != y->pos / 64) return x->pos / 64 < y->pos / 64 ? -1 : 1;
    if (x->round != y->round) return x->round < y->round ? -1 : 1;
    return x->pos < y->pos ? -1 : x->pos > y->pos;
}

static void add_to_spans(kipu_kv_spans *list, kipu_kv_span *room, place p) {
    kipu_kv_span *last = list->count ? &room[list->count - 1] : NULL;
    int lane = p.pos % 16;
    if (!last || last->pos != p.pos - lane || last->round != p.round) {
        last = &room[list->count++];
        *last = (kipu_kv_span){.pos = p.pos - lane, .round = p.round, .block = p.cell / 16};
        for (int i = 0; i < 16; i++) last->cells[i] = -1;
    }
    last->cells[lane] = p.cell;
    last->lanes |= (uint16_t)(1 << lane);
    if (last->block != p.cell / 16 || p.cell % 16 != lane) last->block = -1;
}

static void cache_spans(cache *c, const scene *s) {
    static place places[MAX_CELLS];
    for (int q = 0; q < s->n_seq; q++) {
        int n = 0;
        for (int i = 0; i < s->n_items; i++) {
            if (c->cell[i] < 0 || !(s->items[i].seqs >> q & 1)) continue;
            places[n] = (place){s->items[i].pos, 0, c->cell[i]};
            for (int j = n - 1; j >= 0 && j > n - 8; j--) places[n].round += places[j].pos == places[n].pos;
            n++;
        }
        qsort(places, (size_t)n, sizeof *places, compare_places);
        kipu_kv_span *room = c->span_room + q * MAX_SPANS;
        c->spans[q] = (kipu_kv_spans){room, 0};
        for (int i = 0; i < n; i++) add_to_spans(&c->spans[q], room, places[i]);
    }
}

/* ---------------------------------------------------------------------------------------------- running */

typedef struct run {
    const kipu_kernels *kernels;
    const kipu_attention *a;
    void *partials;
    kipu_jobs jobs[2];
    atomic_int stop;
    size_t scratch;
    int workers;
} run;

static void task(void *arg, const kipu_worker *worker) {
    run *r = arg;
    kipu_op_worker ow = {.w = *worker, .k = r->kernels, .scratch_size = r->scratch, .stop = &r->stop};
    ow.scratch = kipu_alloc(r->scratch);
    if (worker->index == 0) r->workers = worker->count;
    kipu_attention_run(&ow, r->a, r->partials, r->jobs);
    kipu_free(ow.scratch);
}

/* Tokens [t0, t1) of the scene that are of sequences in `seqs`, on a cache; rows go to their place in out. */
static void attend(float *out, const scene *s, const cache *c, const kipu_kernels *kernels, kipu_pool *pool, int workers, int t0, int t1,
                   uint32_t seqs) {
    int32_t token[MAX_UBATCH], pos[MAX_UBATCH], seq[MAX_UBATCH], n = 0;
    size_t q_row = (size_t)s->a.n_head * s->a.head.d_k, o_row = (size_t)s->a.n_head * s->a.head.d_v;
    for (int t = t0; t < t1; t++)
        if (seqs >> s->seq[t] & 1) token[n++] = t;
    if (!n) return;
    float *q = kipu_alloc(n * q_row * sizeof(float)), *o = kipu_alloc(n * o_row * sizeof(float));
    for (int i = 0; i < n; i++) {
        memcpy(q + i * q_row, s->q + token[i] * q_row, q_row * sizeof(float));
        pos[i] = s->pos[token[i]];
        seq[i] = s->seq[token[i]];
    }
    kipu_attention a = s->a;
    a.n_tokens = n; a.q = q; a.out = o; a.pos = pos; a.seq = seq; a.layer = &c->layer; a.spans = c->spans;
    run r = {.kernels = kernels, .a = &a, .scratch = kipu_attention_scratch(n, &a.head)};
    size_t partials = kipu_attention_partials(n, a.n_head, a.head.d_v, MAX_CELLS);
    r.partials = kipu_alloc(partials + 64);
    memset(r.partials, 0xff, partials + 64);
    kipu_pool_run(pool, workers, task, &r, NULL);
    if (r.workers != workers) printf("only %d of %d workers\n", r.workers, workers);
    for (size_t i = 0; i < 64; i++)
        if (((unsigned char *)r.partials)[partials + i] != 0xff) printf("partial results overflow\n"), exit(1);
    for (int i = 0; i < n; i++) memcpy(out + token[i] * o_row, o + i * o_row, o_row * sizeof(float));
    kipu_free(q);
    kipu_free(o);
    kipu_free(r.partials);
}

/* ---------------------------------------------------------------------------------------------- the model in float64 */

static double stored(float x, int type) { return type == KIPU_F16 ? kipu_half_to_float(kipu_float_to_half(x)) : x; }

static bool visible(const scene *s, int t, const item *it) {
    if (!(it->seqs >> s->seq[t] & 1)) return false;
    if (s->a.causal && it->pos > s->pos[t]) return false;
    return s->a.n_swa == 0 || s->pos[t] - it->pos < s->a.n_swa;
}

/* One row in float64, and how far a float32 result may be from it: u = 2^-24.
 * A score is d fma steps and a product: off by at most (d + 1) u times scale * sum |q k|  =: e (softcap has slope <= 1 and adds 4e-7 of
 * the cap).
 * A weight exp(s - m) is then off by a factor 1 +- (2 e + 3e-7); weights and V sums over n cells in chunks add at most
 * (70 + 4 n / 64) u relative to sum of weights * max |v|. Both numerator and denominator: twice. */
static double model_row(const scene *s, int t, int head, double *out) {
    static double score[MAX_CELLS];
    int h = head / (s->a.n_head / s->a.n_head_kv), d_k = s->a.head.d_k, d_v = s->a.head.d_v, n = 0;
    double top = -INFINITY, sum = 0, error = 0, largest = 0;
    for (int i = 0; i < s->n_items; i++) {
        if (!visible(s, t, &s->items[i])) continue;
        double dot = 0, size = 0;
        for (int j = 0; j < d_k; j++) {
            double k = stored(s->k[(size_t)i * n_embd_k(s) + h * d_k + j], s->a.head.type_k);
            double x = s->q[((size_t)t * s->a.n_head + head) * d_k + j] * k;
            dot += x;
            size += fabs(x);
        }
        score[i] = dot * s->a.head.scale;
        if (s->a.head.softcap > 0) score[i] = s->a.head.softcap * tanh(score[i] / s->a.head.softcap);
        top = fmax(top, score[i]);
        error = fmax(error, (d_k + 1) * 0x1p-24 * size * s->a.head.scale + s->a.head.softcap * 4e-7);
        n++;
    }
    memset(out, 0, d_v * sizeof *out);
    for (int i = 0; i < s->n_items; i++) {
        if (!visible(s, t, &s->items[i])) continue;
        double p = exp(score[i] - top);
        sum += p;
        for (int j = 0; j < d_v; j++) {
            double v = stored(s->v[(size_t)i * n_embd_v(s) + h * d_v + j], s->a.head.type_v);
            out[j] += p * v;
            largest = fmax(largest, fabs(v));
        }
    }
    for (int j = 0; j < d_v; j++) out[j] = n ? out[j] / sum : 0;
    return 2 * largest * (2 * error + 3e-7 + (70 + n / 16.0) * 0x1p-24);
}

/* ---------------------------------------------------------------------------------------------- checks */

static int failures;

static void check_model(const char *tier, const scene *s, const float *out) {
    static double row[128];
    double worst = 0;
    for (int t = 0; t < s->a.n_tokens; t++)
        for (int head = 0; head < s->a.n_head; head += 1 + random_below(4)) {
            double bound = model_row(s, t, head, row);
            for (int j = 0; j < s->a.head.d_v; j++) {
                double off = fabs(out[((size_t)t * s->a.n_head + head) * s->a.head.d_v + j] - row[j]);
                double share = off == 0 ? 0 : off / bound;
                if (!(share <= worst)) worst = share;
            }
        }
    if (!(worst <= 1)) printf("%s: %.3g times the bound away from float64\n", tier, worst), failures++;
}

static void check_bits(const char *what, const char *tier, const scene *s, const float *want, const float *got, uint32_t seqs) {
    size_t row = (size_t)s->a.n_head * s->a.head.d_v;
    for (int t = 0; t < s->a.n_tokens; t++)
        for (size_t i = 0; i < row; i++)
            if ((seqs >> s->seq[t] & 1) && memcmp(&want[t * row + i], &got[t * row + i], 4)) {
                printf("%s: %s: token %d value %zu: %a, was %a\n", tier, what, t, i, got[t * row + i], want[t * row + i]);
                failures++;
                return;
            }
}

/* As lived: each token is stored, then attended to, with nothing later in the cache. */
static void one_by_one(float *out, const scene *s, const kipu_kernels *kernels, kipu_pool *pool, int workers, int scatter) {
    cache c;
    cache_init(&c, s);
    int stored_items = 0;
    for (int t = 0; t < s->a.n_tokens; t++) {
        int upto = s->a.causal ? s->item_of[t] + 1 : s->n_items;
        if (upto > stored_items) cache_fill(&c, s, kernels, stored_items, upto, ~0u, scatter);
        if (upto > stored_items) stored_items = upto;
        cache_spans(&c, s);
        attend(out, s, &c, kernels, pool, workers, t, t + 1, ~0u);
    }
    cache_free(&c);
}

static void filled_cache(cache *c, const scene *s, const kipu_kernels *kernels, uint32_t seqs, int scatter) {
    cache_init(c, s);
    cache_fill(c, s, kernels, 0, s->n_items, seqs, scatter);
    cache_spans(c, s);
}

static void check_tier(const scene *s, const kipu_kernels *kernels, kipu_pool *pool, const float *want, float *got) {
    const char *tier = kipu_tier_name(kernels->tier);
    cache regular, scattered, alone;
    int n = s->a.n_tokens;
    filled_cache(&regular, s, kernels, ~0u, 0);
    for (int workers = 1; workers <= 3; workers++) {
        char what[32];
        snprintf(what, sizeof what, "%d workers", workers);
        attend(got, s, &regular, kernels, pool, workers, 0, n, ~0u);
        check_bits(what, tier, s, want, got, ~0u);
    }
    check_model(tier, s, got);
    int cut = random_below(n + 1);
    attend(got, s, &regular, kernels, pool, 2, 0, cut, ~0u);
    attend(got, s, &regular, kernels, pool, 2, cut, n, ~0u);
    check_bits("two ubatches", tier, s, want, got, ~0u);
    filled_cache(&scattered, s, kernels, ~0u, 3);
    attend(got, s, &scattered, kernels, pool, 2, 0, n, ~0u);
    check_bits("scattered cells", tier, s, want, got, ~0u);
    uint32_t one = 1u << random_below(s->n_seq);
    filled_cache(&alone, s, kernels, one, random_below(2) * 40);
    attend(got, s, &alone, kernels, pool, 1 + random_below(3), 0, n, one);
    check_bits("one sequence alone", tier, s, want, got, one);
    one_by_one(got, s, kernels, pool, 1 + random_below(3), random_below(2) * 30);
    check_bits("token by token", tier, s, want, got, ~0u);
    cache_free(&regular);
    cache_free(&scattered);
    cache_free(&alone);
}

/* ---------------------------------------------------------------------------------------------- planted faults */

static const kipu_kernels *sound;   /* the table that the faults are planted in */

static void sees_everything(float *m, float *l, float *o, const float *q, const uint64_t *mask, int n_rows, const kipu_attn_head *head,
                            const kipu_attn_chunk *chunk, void *scratch) {
    for (int r = 0; r < n_rows; r++, m++, l++, o += head->d_v, q += head->d_k) {
        uint64_t all = mask[r] ? ~(uint64_t)0 : 0;
        sound->attention(m, l, o, q, &all, 1, head, chunk, scratch);
    }
}

static void forgets_pieces(float *m, float *l, float *o, const float *m2, const float *l2, const float *o2, int n_rows, int32_t d_v) {
    (void)m, (void)l, (void)o, (void)m2, (void)l2, (void)o2, (void)n_rows, (void)d_v;
}

static void rounds_down(uint16_t *y, const float *x, int64_t n) {
    sound->to_half(y, x, n);
    for (int64_t i = 0; i < n; i++) y[i] &= 0xfffe;
}

static const kipu_kernels *faulty(const kipu_kernels *k, const char *fault) {
    static kipu_kernels copy;
    if (!fault) return k;
    sound = k;
    copy = *k;
    if (!strcmp(fault, "sees_everything")) copy.attention = sees_everything;
    if (!strcmp(fault, "forgets_pieces")) copy.attention_merge = forgets_pieces;
    if (!strcmp(fault, "rounds_down")) copy.to_half = rounds_down;
    return &copy;
}

static void check_seed(uint64_t seed, kipu_pool *pool, const char *fault) {
    static scene s;
    int before = failures;
    make_scene(&s, seed);
    size_t values = (size_t)s.a.n_tokens * s.a.n_head * s.a.head.d_v;
    float *want = kipu_alloc(values * sizeof(float)), *got = kipu_alloc(values * sizeof(float));
    const kipu_kernels *ref = kipu_kernels_of(KIPU_TIER_REF);
    cache c;
    filled_cache(&c, &s, ref, ~0u, 0);
    attend(want, &s, &c, ref, pool, 1, 0, s.a.n_tokens, ~0u);
    cache_free(&c);
    for (int tier = 0; tier < KIPU_TIER_COUNT; tier++)
        if (kipu_kernels_of(tier)) check_tier(&s, faulty(kipu_kernels_of(tier), fault), pool, want, got);
    if (failures > before)
        printf("seed %" PRIu64 ": %d cells, %d sequences, %d tokens, %d/%d heads, d %d/%d, types %d/%d, window %d, causal %d\n", seed,
               s.n_items, s.n_seq, s.a.n_tokens, s.a.n_head, s.a.n_head_kv, s.a.head.d_k, s.a.head.d_v, s.a.head.type_k, s.a.head.type_v,
               s.a.n_swa, s.a.causal);
    kipu_free(want);
    kipu_free(got);
    free_scene(&s);
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 40;
    kipu_pool *pool;
    setenv("KIPU_CPUS", "3", 1);
    if (kipu_pool_new(&pool, 3, NULL)) return 2;
    for (uint64_t seed = first; seed < first + count; seed++) check_seed(seed, pool, argc > 3 ? argv[3] : NULL);
    kipu_pool_free(pool);
    printf("%s: %d failures, tiers:", failures ? "FAILED" : "ok", failures);
    for (int tier = 0; tier < KIPU_TIER_COUNT; tier++)
        if (kipu_kernels_of(tier)) printf(" %s", kipu_tier_name(tier));
    printf("\n");
    return failures != 0;
}
