/* Attention steps over random chunks, and the merge of two pieces. */
#include "check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/half.h"

typedef struct shape {
    int d_k, d_v, type_k, type_v, n_rows;
    float scale, softcap;
    bool special;            /* now and then NaN, an infinity or a subnormal among q, K and V */
    check_place place;
} shape;

static float random_value(const shape *s) { return s->special && check_below(40) == 0 ? check_special() : check_gauss(); }

static size_t element(int type) { return type == KIPU_F32 ? 4 : 2; }

static void put(void *p, int type, size_t i, float x) {
    if (type == KIPU_F32) ((float *)p)[i] = x;
    else ((uint16_t *)p)[i] = kipu_float_to_half(x);
}

/* ------------------------------------------------------------------------------- a chunk: four blocks of K and of V */

typedef struct chunk_buffers {
    kipu_attn_chunk chunk;
    check_buffer k[4], v[4];
} chunk_buffers;

/* [d_k][16]; lanes that are not present hold NaN. */
static check_buffer new_k(const shape *s, unsigned lanes) {
    check_buffer b = check_alloc((size_t)s->d_k * 16 * element(s->type_k), s->place);
    for (int i = 0; i < s->d_k * 16; i++) put(b.data, s->type_k, (size_t)i, lanes >> i % 16 & 1 ? random_value(s) : NAN);
    check_read_only(&b);
    return b;
}

/* 16 rows v_stride bytes apart; what lies between them, and absent rows, is NaN. The block ends with the last value of row 15. */
static check_buffer new_v(const shape *s, unsigned lanes, size_t v_stride) {
    size_t row = v_stride / element(s->type_v), n = 15 * row + (size_t)s->d_v;
    check_buffer b = check_alloc(n * element(s->type_v), s->place);
    for (size_t i = 0; i < n; i++)
        put(b.data, s->type_v, i, lanes >> i / row & 1 && i % row < (size_t)s->d_v ? random_value(s) : NAN);
    check_read_only(&b);
    return b;
}

/* Some chunks full, some with holes, some with whole blocks missing (then NULL). */
static uint64_t random_present(void) {
    uint64_t present = check_random();
    switch (check_below(4)) {
    case 0: return ~(uint64_t)0;
    case 1: return present | (uint64_t)1 << check_below(64);
    case 2: return (present & 0xffff0000ffff) | (uint64_t)1 << (32 + check_below(16));
    default: return (uint64_t)1 << check_below(64);
    }
}

static chunk_buffers new_chunk(const shape *s) {
    chunk_buffers c = {0};
    c.chunk.present = random_present();
    c.chunk.v_stride = ((size_t)s->d_v + (size_t)check_below(3) * 8) * element(s->type_v);
    for (int i = 0; i < 4; i++) {
        unsigned lanes = (unsigned)(c.chunk.present >> 16 * i & 0xffff);
        if (!lanes) continue;
        c.k[i] = new_k(s, lanes);
        c.v[i] = new_v(s, lanes, c.chunk.v_stride);
        c.chunk.k[i] = c.k[i].data;
        c.chunk.v[i] = c.v[i].data;
    }
    return c;
}

static void free_chunk(chunk_buffers *c) {
    for (int i = 0; i < 4; i++) {
        if (!c->chunk.k[i]) continue;
        check_free(&c->k[i]);
        check_free(&c->v[i]);
    }
}

/* ------------------------------------------------------------------------------- the state of all rows */

typedef struct state {
    check_buffer m, l, o;
} state;

static state new_state(const shape *s) {
    size_t n = (size_t)s->n_rows;
    state st = {check_alloc(4 * n, s->place), check_alloc(4 * n, s->place), check_alloc(4 * n * (size_t)s->d_v, s->place)};
    for (size_t r = 0; r < n; r++) {
        ((float *)st.m.data)[r] = -INFINITY;
        ((float *)st.l.data)[r] = 0;
    }
    memset(st.o.data, 0, st.o.size);
    return st;
}

static void copy_state(state *to, const state *from) {
    memcpy(to->m.data, from->m.data, from->m.size);
    memcpy(to->l.data, from->l.data, from->l.size);
    memcpy(to->o.data, from->o.data, from->o.size);
}

static bool same_state(const state *got, const state *want) {
    return check_floats("m", got->m.data, want->m.data, want->m.size / 4) && check_floats("l", got->l.data, want->l.data, want->l.size / 4)
        && check_floats("o", got->o.data, want->o.data, want->o.size / 4) && check_canary("m", &got->m) && check_canary("l", &got->l)
        && check_canary("o", &got->o);
}

static void free_state(state *st) {
    check_free(&st->m);
    check_free(&st->l);
    check_free(&st->o);
}

/* ------------------------------------------------------------------------------- steps */

static uint64_t random_mask(uint64_t present) {
    switch (check_below(5)) {
    case 0: return 0;
    case 1: return ~present;                                     /* sees nothing, though bits are set */
    case 2: return check_random();
    case 3: return ((uint64_t)2 << check_below(63)) - 1;         /* causal edge */
    default: return ~(uint64_t)0;
    }
}

static void name_case(const kipu_kernels *k, const char *what, const shape *s, int step) {
    check_case("%s %s d_k=%d d_v=%d K=%s V=%s rows=%d scale=%g softcap=%g special=%d step=%d", kipu_tier_name(k->tier), what, s->d_k,
               s->d_v, kipu_format_of(s->type_k)->name, kipu_format_of(s->type_v)->name, s->n_rows, s->scale, s->softcap, s->special, step);
}

/* One chunk through both tiers, each carrying its own state on. */
static void check_step(const kipu_kernels *k, const kipu_kernels *ref, const shape *s, const check_buffer *q, state *got, state *want,
                       int step) {
    kipu_attn_head head = {s->d_k, s->d_v, s->type_k, s->type_v, s->scale, s->softcap};
    chunk_buffers c = new_chunk(s);
    check_buffer mask = check_alloc(8 * (size_t)s->n_rows, s->place), scratch = check_alloc(KIPU_ATTN_SCRATCH, s->place);
    for (int r = 0; r < s->n_rows; r++) ((uint64_t *)mask.data)[r] = random_mask(c.chunk.present);
    check_read_only(&mask);
    name_case(k, "attention", s, step);
    ref->attention(want->m.data, want->l.data, want->o.data, q->data, mask.data, s->n_rows, &head, &c.chunk, scratch.data);
    k->attention(got->m.data, got->l.data, got->o.data, q->data, mask.data, s->n_rows, &head, &c.chunk, scratch.data);
    check_end(same_state(got, want));
    free_chunk(&c);
    check_free(&mask);
    check_free(&scratch);
}

static void check_steps(const kipu_kernels *k, const kipu_kernels *ref, const shape *s) {
    check_buffer q = check_alloc(4 * (size_t)s->n_rows * (size_t)s->d_k, s->place);
    for (size_t i = 0; i < q.size / 4; i++) ((float *)q.data)[i] = random_value(s);
    check_read_only(&q);
    state got = new_state(s), want = new_state(s);
    for (int step = 0; step < 3; step++) check_step(k, ref, s, &q, &got, &want, step);
    check_free(&q);
    free_state(&got);
    free_state(&want);
}

/* ------------------------------------------------------------------------------- merge */

static void fill_piece(state *st, int n_rows, int d_v) {
    for (int r = 0; r < n_rows; r++) {
        ((float *)st->m.data)[r] = check_below(4) ? check_gauss() * (check_below(5) ? 3 : 100) : -INFINITY;
        ((float *)st->l.data)[r] = 1 + fabsf(check_gauss());
    }
    check_fill_gauss(st->o.data, (size_t)n_rows * (size_t)d_v);
}

static void check_merge(const kipu_kernels *k, const kipu_kernels *ref, const shape *s) {
    state got = new_state(s), want = new_state(s), later = new_state(s);
    fill_piece(&want, s->n_rows, s->d_v);
    fill_piece(&later, s->n_rows, s->d_v);
    copy_state(&got, &want);
    check_read_only(&later.m);
    check_read_only(&later.l);
    check_read_only(&later.o);
    name_case(k, "attention_merge", s, 0);
    ref->attention_merge(want.m.data, want.l.data, want.o.data, later.m.data, later.l.data, later.o.data, s->n_rows, s->d_v);
    k->attention_merge(got.m.data, got.l.data, got.o.data, later.m.data, later.l.data, later.o.data, s->n_rows, s->d_v);
    check_end(same_state(&got, &want));
    free_state(&got);
    free_state(&want);
    free_state(&later);
}

/* ------------------------------------------------------------------------------- all shapes */

static const int sizes[] = {1, 2, 3, 8, 16, 17, 20, 31, 64, 80, 96, 128, 256};
static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 33, 70};
enum { SIZES = sizeof sizes / sizeof sizes[0], ROWS = sizeof rows / sizeof rows[0] };

static shape shape_of(int i_size, int i_rows, int types) {
    int d = sizes[i_size];
    shape s = {d, d, types & 1 ? KIPU_F32 : KIPU_F16, types & 2 ? KIPU_F32 : KIPU_F16, rows[i_rows], 0, 0, false, CHECK_AT_END};
    s.special = check_below(8) == 0;
    if (check_below(3) == 0) s.d_v = sizes[check_below(SIZES)];
    s.scale = 1 / sqrtf((float)d) * (check_below(4) ? 1 : 40);   /* sometimes so steep that exp underflows */
    s.softcap = check_below(3) ? 0 : 30;
    s.place = check_below(2) ? CHECK_AT_START : CHECK_AT_END;
    return s;
}

void check_attention(const kipu_kernels *k, const kipu_kernels *ref) {
    for (int i = 0; i < SIZES * ROWS * 4; i++) {
        int types = i & 3, i_rows = i / 4 % ROWS, i_size = i / 4 / ROWS;
        if (sizes[i_size] > 100 && i_rows % 3) continue;         /* large heads: fewer row counts, ref is slow */
        shape s = shape_of(i_size, i_rows, types);
        if (check_wants(k, "attention")) check_steps(k, ref, &s);
        if (types == 0 && check_wants(k, "attention_merge")) check_merge(k, ref, &s);
    }
}
