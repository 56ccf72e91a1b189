/* One chunk in two passes over tiles of up to six rows: scores and weights of all rows, then their sums of V. With more rows than one tile
 * K and V are widened to float in scratch once; a single tile widens while it reads. */
#include "kernels/avx2/attention_avx2.h"

#include <stdbool.h>
#include "kernels/avx2/attention_tile_avx2.h"
#include "kernels/avx2/math_avx2.h"

enum { BLOCK_ROWS = 64, LANES = 16, GROUPS = KIPU_CHUNK / LANES, EIGHTS = KIPU_CHUNK / 8 };

/* Lanes of K or V, as the tile reads them. */
typedef struct source {
    const char *group[GROUPS];   /* first lane of each sixteen; NULL: absent */
    size_t step;                 /* bytes from one step to the next */
    int type;
    int run;                     /* V: lanes that follow one another in steps, 16 or 64 */
} source;

/* The rows of one call that see anything, at most BLOCK_ROWS. */
typedef struct block {
    int n;
    int row[BLOCK_ROWS];
    uint64_t visible[BLOCK_ROWS];
    float m[BLOCK_ROWS];         /* the new maximum */
    float sum[BLOCK_ROWS];       /* of the weights */
    float a[BLOCK_ROWS];         /* what the old l and o are multiplied by */
    float *p;                    /* (n, KIPU_CHUNK) scores, then weights */
} block;

static size_t padded(int32_t d) { return ((size_t)d + LANES - 1) / LANES * LANES; }

/* Bit g: the sixteen lanes of group g hold a bit. */
static int groups_of(uint64_t lanes) {
    int groups = 0;
    for (int g = 0; g < GROUPS; g++) groups |= (lanes >> (LANES * g) & 0xffff ? 1 : 0) << g;
    return groups;
}

/* ---------------------------------------------------------------------------------------------- widening */

static inline __m256 widen(const uint16_t *from) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)); }

static inline void widen_lanes(float *to, const uint16_t *from) {
    _mm256_store_ps(to, widen(from));
    _mm256_store_ps(to + 8, widen(from + 8));
}

/* K: [d_k][16] halves of each group -> [d_k][64] floats. An absent group is never used: it gets another's values. */
static source widen_k(float *to, const kipu_attn_head *head, const kipu_attn_chunk *chunk) {
    source s = {.step = KIPU_CHUNK * sizeof(float), .type = KIPU_F32};
    const uint16_t *from[GROUPS], *any = NULL;
    for (int g = 0; g < GROUPS; g++)
        if (chunk->k[g]) any = chunk->k[g];
    for (int g = 0; g < GROUPS; g++) {
        s.group[g] = (const char *)(to + LANES * g);
        from[g] = chunk->k[g] ? chunk->k[g] : any;
    }
    for (int32_t i = 0; any && i < head->d_k; i++)
        for (int g = 0; g < GROUPS; g++) widen_lanes(to + KIPU_CHUNK * i + LANES * g, from[g] + LANES * i);
    return s;
}

static inline void widen_row(float *to, const uint16_t *from, int32_t d) {
    int32_t i = 0;
    for (; i + LANES <= d; i += LANES) widen_lanes(to + i, from + i);
    for (; i < d; i++) to[i] = kipu_half_to_float(from[i]);
}

/* V: rows of halves -> [64][d_v, padded] floats. */
static source widen_v(float *to, const kipu_attn_head *head, const kipu_attn_chunk *chunk) {
    size_t row = padded(head->d_v);
    source s = {.step = row * sizeof(float), .type = KIPU_F32, .run = KIPU_CHUNK};
    for (int g = 0; g < GROUPS; g++) s.group[g] = (const char *)(to + row * LANES * g);
    for (uint64_t left = chunk->present; left; left &= left - 1) {
        int j = __builtin_ctzll(left);
        const char *from = (const char *)chunk->v[j / LANES] + chunk->v_stride * (j % LANES);
        widen_row(to + row * j, (const uint16_t *)from, head->d_v);
    }
    return s;
}

static source direct_k(const kipu_attn_head *head, const kipu_attn_chunk *chunk) {
    source s = {.step = LANES * (head->type_k == KIPU_F16 ? sizeof(uint16_t) : sizeof(float)), .type = head->type_k};
    for (int g = 0; g < GROUPS; g++) s.group[g] = chunk->k[g];
    return s;
}

static source direct_v(const kipu_attn_head *head, const kipu_attn_chunk *chunk) {
    source s = {.step = chunk->v_stride, .type = head->type_v, .run = LANES};
    for (int g = 0; g < GROUPS; g++) s.group[g] = chunk->v[g];
    return s;
}

/* ---------------------------------------------------------------------------------------------- scores and weights */

/* q . k of rows [i, i + rows) into p, in the groups that any of them sees. */
static void scores(const block *b, const float *q, int i, int rows, const kipu_attn_head *head, const source *k) {
    uint64_t any = 0;
    kipu_attn_tile t = {.b_step = k->step, .b_type = k->type, .rows = rows, .steps = head->d_k, .lanes = LANES};
    for (int r = 0; r < rows; r++) {
        any |= b->visible[i + r];
        t.a[r] = q + (size_t)b->row[i + r] * head->d_k;
        t.y[r] = b->p + (i + r) * KIPU_CHUNK;
    }
    for (int groups = groups_of(any); groups; groups &= groups - 1) {
        int g = __builtin_ctz(groups);
        t.b[t.columns] = k->group[g];
        t.y_column[t.columns++] = LANES * g;
        if (t.columns < kipu_tile_columns(rows) && groups & (groups - 1)) continue;
        kipu_attn_tile_run__avx2(&t);
        t.columns = 0;
    }
}

static inline __m256 finished_score(__m256 s, const kipu_attn_head *head) {
    s = _mm256_mul_ps(s, _mm256_set1_ps(head->scale));
    if (head->softcap == 0) return s;
    __m256 cap = _mm256_set1_ps(head->softcap);
    return _mm256_mul_ps(cap, kipu_tanh_avx2(_mm256_div_ps(s, cap)));
}

/* Of zeros the first in lane order counts, as a scalar search finds it: +0 and -0 are equal, but not the same bits. */
static float first_zero(const float s[KIPU_CHUNK], uint64_t visible) {
    for (; visible; visible &= visible - 1)
        if (s[__builtin_ctzll(visible)] == 0) break;
    return s[__builtin_ctzll(visible)];
}

/* All ones in the visible lanes among 8j..8j+7. */
static inline __m256 visible_lanes(uint64_t visible, int j) {
    __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), bits = _mm256_set1_epi32((int)(visible >> (8 * j) & 0xff));
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(bits, bit), bit));
}

/* Row i: products in p become scores, 0 in invisible lanes; the new maximum. NaN never wins (vmaxps gives its second operand where one is
 * NaN). */
static inline void finish_scores(block *b, int i, float m, const kipu_attn_head *head) {
    const __m256 none = _mm256_set1_ps(-INFINITY);
    float *p = b->p + i * KIPU_CHUNK;
    __m256 top[2] = {none, none};
    for (int j = 0; j < EIGHTS; j++) {
        __m256 in = visible_lanes(b->visible[i], j), s = finished_score(_mm256_and_ps(_mm256_load_ps(p + 8 * j), in), head);
        _mm256_store_ps(p + 8 * j, s);
        top[j % 2] = _mm256_max_ps(_mm256_blendv_ps(none, s, in), top[j % 2]);
    }
    float c = kipu_max8_avx2(_mm256_max_ps(top[0], top[1]));
    if (c == 0) c = first_zero(p, b->visible[i]);
    b->m[i] = c > m ? c : m;
}

/* Row i: scores in p become weights, and their sum. */
static inline void finish_weights(block *b, int i) {
    float *p = b->p + i * KIPU_CHUNK;
    __m256 w[EIGHTS], t[2], m = _mm256_set1_ps(b->m[i]);
    for (int j = 0; j < EIGHTS; j++) {
        w[j] = _mm256_and_ps(kipu_exp_below_avx2(_mm256_sub_ps(_mm256_load_ps(p + 8 * j), m)), visible_lanes(b->visible[i], j));
        _mm256_store_ps(p + 8 * j, w[j]);
    }
    for (int j = 0; j < 2; j++) t[j] = _mm256_add_ps(_mm256_add_ps(w[j], w[j + 2]), _mm256_add_ps(w[j + 4], w[j + 6]));
    b->sum[i] = kipu_tree16_avx2(t[0], t[1]);
}

/* The rows' m and l step to this chunk; a is what o is to be multiplied by. */
static void update(block *b, float *m, float *l) {
    float old[BLOCK_ROWS];
    for (int i = 0; i < b->n; i++) old[i] = m[b->row[i]];
    for (int i = 0; i < b->n; i += 8) {
        __m256 x = kipu_load_avx2(old + i, b->n - i), had = _mm256_cmp_ps(x, _mm256_set1_ps(-INFINITY), _CMP_NEQ_UQ);
        x = kipu_exp_below_avx2(_mm256_sub_ps(x, kipu_load_avx2(b->m + i, b->n - i)));
        _mm256_storeu_ps(b->a + i, _mm256_and_ps(x, had));
    }
    for (int i = 0; i < b->n; i++) {
        l[b->row[i]] = fmaf(l[b->row[i]], b->a[i], b->sum[i]);
        m[b->row[i]] = b->m[i];
    }
}

/* ---------------------------------------------------------------------------------------------- sums of V */

static void scale_rows(const block *b, float *o, int32_t d_v) {
    for (int i = 0; i < b->n; i++) {
        float *row = o + (size_t)b->row[i] * d_v;
        if (b->a[i] == 1) continue;                    /* the usual case: the maximum stayed; x * 1 = x */
        for (int32_t j = 0; j < d_v; j += 8)
            kipu_store_avx2(row + j, _mm256_mul_ps(kipu_load_avx2(row + j, d_v - j), _mm256_set1_ps(b->a[i])), d_v - j);
    }
}

/* A tile whose rows all see lanes [j0, j1), which follow one another in steps; t: rows and y (columns) are set. */
static void add_run(kipu_attn_tile *t, const block *b, int i, int j0, int j1, const source *v, int32_t column) {
    size_t element = v->type == KIPU_F16 ? sizeof(uint16_t) : sizeof(float);
    const char *first = v->group[j0 / LANES] + (j0 % LANES) * v->step + column * element;
    for (int c = 0; c < t->columns; c++) t->b[c] = first + c * LANES * element;
    for (int r = 0; r < t->rows; r++) t->a[r] = b->p + (i + r) * KIPU_CHUNK + j0;
    t->steps = j1 - j0;
    kipu_attn_tile_run__avx2(t);
}

/* Lanes [j0, j1) for all rows of the tile. */
static void add_lanes(kipu_attn_tile *t, const block *b, int i, int j0, int j1, const source *v, int32_t column) {
    while (j0 < j1) {
        int end = (j0 / v->run + 1) * v->run;
        if (end > j1) end = j1;
        add_run(t, b, i, j0, end, v, column);
        j0 = end;
    }
}

/* The first run of ones: bits [*j0, *j1); both 64 if there is none. */
static void first_run(uint64_t lanes, int *j0, int *j1) {
    *j0 = lanes ? __builtin_ctzll(lanes) : KIPU_CHUNK;
    uint64_t rest = lanes ? ~(lanes >> *j0) : 0;
    *j1 = rest && lanes ? *j0 + __builtin_ctzll(rest) : KIPU_CHUNK;
}

/* Any set of lanes for one row of the tile. */
static void add_row(const kipu_attn_tile *t, int r, const block *b, int i, uint64_t lanes, const source *v, int32_t column) {
    if (!lanes) return;
    kipu_attn_tile one = *t;
    one.rows = 1;
    one.y[0] = t->y[r];
    while (lanes) {
        int j0, j1;
        first_run(lanes, &j0, &j1);
        add_lanes(&one, b, i + r, j0, j1, v, column);
        lanes = j1 < KIPU_CHUNK ? lanes >> j1 << j1 : 0;
    }
}

/* Rows [i, i + rows), `columns` columns (of which one may be narrow) from `column` on. What all rows see goes in one tile; what only some
 * of them see (at the causal edge, at the window's edge, between holes) goes row by row, before or behind it, so that each row's lanes
 * ascend. */
static void add_values(const block *b, float *o, int i, int rows, const kipu_attn_head *head, const source *v, int32_t column,
                       int columns) {
    int32_t left = head->d_v - column;
    kipu_attn_tile t = {.b_step = v->step, .b_type = v->type, .rows = rows, .columns = columns, .add = true,
                        .y_column = {0, LANES, 2 * LANES, 3 * LANES}, .lanes = left < LANES ? left : LANES};
    uint64_t common = ~(uint64_t)0;
    int j0, j1;
    for (int r = 0; r < rows; r++) {
        common &= b->visible[i + r];
        t.y[r] = o + (size_t)b->row[i + r] * head->d_v + column;
    }
    first_run(common, &j0, &j1);
    uint64_t before = j0 < KIPU_CHUNK ? ((uint64_t)1 << j0) - 1 : ~(uint64_t)0, after = j1 < KIPU_CHUNK ? ~(uint64_t)0 << j1 : 0;
    for (int r = 0; r < rows; r++) add_row(&t, r, b, i, b->visible[i + r] & before, v, column);
    add_lanes(&t, b, i, j0, j1, v, column);
    for (int r = 0; r < rows; r++) add_row(&t, r, b, i, b->visible[i + r] & after, v, column);
}

/* ---------------------------------------------------------------------------------------------- the kernel */

static int collect(block *b, const uint64_t *mask, int row, int n_rows, uint64_t present) {
    for (b->n = 0; row < n_rows && b->n < BLOCK_ROWS; row++) {
        if (!(mask[row] & present)) continue;
        b->row[b->n] = row;
        b->visible[b->n++] = mask[row] & present;
    }
    return row;
}

/* Rows of the next tile when `left` rows remain: as even as possible. */
static int tile_rows(int left) {
    int tiles = (left + KIPU_TILE_ROWS - 1) / KIPU_TILE_ROWS;
    return (left + tiles - 1) / tiles;
}

static void attend(block *b, float *m, float *l, float *o, const float *q, const kipu_attn_head *head, const source *k, const source *v) {
    for (int i = 0, rows; i < b->n; i += rows) {
        rows = tile_rows(b->n - i);
        scores(b, q, i, rows, head, k);
        for (int r = i; r < i + rows; r++) finish_scores(b, r, m[b->row[r]], head);
        for (int r = i; r < i + rows; r++) finish_weights(b, r);
    }
    update(b, m, l);
    scale_rows(b, o, head->d_v);
    int most = kipu_tile_columns(tile_rows(b->n));
    for (int32_t column = 0, columns; column < head->d_v; column += columns * LANES) {
        int32_t full = (head->d_v - column) / LANES;
        columns = full == 0 ? 1 : full < most ? full : most;
        for (int i = 0, rows; i < b->n; i += rows) {
            rows = tile_rows(b->n - i);
            add_values(b, o, i, rows, head, v, column, columns);
        }
    }
}

void kipu_attention__avx2(float *m, float *l, float *o, const float *q, const uint64_t *mask, int n_rows, const kipu_attn_head *head,
                            const kipu_attn_chunk *chunk, void *scratch) {
    block b;
    b.p = scratch;
    float *wide_k = b.p + BLOCK_ROWS * KIPU_CHUNK, *wide_v = wide_k + (size_t)head->d_k * KIPU_CHUNK;
    bool fits = ((size_t)head->d_k + padded(head->d_v) + BLOCK_ROWS) * KIPU_CHUNK * sizeof(float) <= KIPU_ATTN_SCRATCH;
    bool wide = fits && n_rows > KIPU_TILE_ROWS;
    source k = wide && head->type_k == KIPU_F16 ? widen_k(wide_k, head, chunk) : direct_k(head, chunk);
    source v = wide && head->type_v == KIPU_F16 ? widen_v(wide_v, head, chunk) : direct_v(head, chunk);
    for (int row = 0; row < n_rows;) {
        row = collect(&b, mask, row, n_rows, chunk->present);
        if (b.n) attend(&b, m, l, o, q, head, &k, &v);
    }
}

void kipu_attention_merge__avx2(float *m, float *l, float *o, const float *m2, const float *l2, const float *o2, int n_rows,
                                 int32_t d_v) {
    for (int r = 0; r < n_rows; r++, o += d_v, o2 += d_v) {
        if (m2[r] == -INFINITY) continue;
        bool empty = m[r] == -INFINITY;
        float top = m[r] > m2[r] ? m[r] : m2[r], a = kipu_exp(m[r] - top), b = kipu_exp(m2[r] - top);
        l[r] = empty ? l2[r] : fmaf(l[r], a, l2[r] * b);
        for (int32_t i = 0; i < d_v; i += 8) {
            __m256 y = kipu_load_avx2(o2 + i, d_v - i);
            if (!empty)
                y = _mm256_fmadd_ps(kipu_load_avx2(o + i, d_v - i), _mm256_set1_ps(a), _mm256_mul_ps(y, _mm256_set1_ps(b)));
            kipu_store_avx2(o + i, y, d_v - i);
        }
        m[r] = empty ? m2[r] : top;
    }
}
