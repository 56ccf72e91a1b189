/* pack, unpack, decode, gemv and gemm of every format. */
#include "check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/half.h"

enum { PANELS = 5, ROWS = 16 * PANELS - 3, TOKENS = 40 };

static bool is_float(int type) { return kipu_format_of(type)->block == 1; }

/* ------------------------------------------------------------------------------- weights */

/* Where a block keeps half floats; count returned. */
static int half_fields(int type, int at[2]) {
    int bytes = kipu_format_of(type)->bytes;
    at[0] = 0;
    at[1] = 2;
    switch (type) {
    case KIPU_Q4_1: case KIPU_Q5_1: case KIPU_Q4_K: case KIPU_Q5_K: return 2;
    case KIPU_Q2_K: at[0] = 80, at[1] = 82; return 2;
    case KIPU_Q3_K: case KIPU_Q6_K: case KIPU_TQ1_0: case KIPU_TQ2_0: at[0] = bytes - 2; return 1;
    case KIPU_MXFP4: case KIPU_IQ1_M: return 0;
    default: return 1;
    }
}

/* Finite halves; kinds as in check.h. */
static uint16_t random_half(int kind) {
    uint16_t sign_and_fraction = (uint16_t)check_random() & 0x83ff;
    switch (kind) {
    case 1: return sign_and_fraction;
    case 2: return sign_and_fraction & 0x8000;
    case 3: return sign_and_fraction | (uint16_t)((27 + check_below(4)) << 10);
    default: return sign_and_fraction | (uint16_t)((5 + check_below(14)) << 10);
    }
}

static float random_weight(int kind) {
    uint32_t u = (uint32_t)check_random();
    switch (kind) {
    case 1: return kipu_bits_to_float(u & 0x807fffff);
    case 2: return kipu_bits_to_float(u & 0x80000000);
    case 3: return ldexpf(check_gauss(), 100);
    case 4: return 1.0f;
    default: return check_gauss();
    }
}

static void fill_block(unsigned char *block, int type, int kind) {
    int bytes = kipu_format_of(type)->bytes, at[2];
    check_fill(block, (size_t)bytes);
    if (kind >= 4) memset(block, kind == 4 ? 0 : 0xff, (size_t)bytes);
    if (type == KIPU_MXFP4) block[0] = (unsigned char)(kind == 1 ? check_below(3) : 96 + check_below(64));
    if (type == KIPU_IQ1_M) block[55] &= 0xbf;   /* top bit of d's exponent: finite */
    for (int i = half_fields(type, at); i-- > 0;) {
        uint16_t h = random_half(kind);
        memcpy(block + at[i], &h, 2);
    }
}

void check_fill_rows(void *rows, int type, int64_t k, int n_rows, int kind) {
    const kipu_format *f = kipu_format_of(type);
    char *out = rows;
    for (int64_t b = k / f->block * n_rows; b > 0; b--, out += f->bytes) {
        float w = random_weight(kind);
        uint16_t h = type == KIPU_F16 ? random_half(kind) : (uint16_t)(kipu_float_to_bits(w) >> 16);
        if (type == KIPU_F32) memcpy(out, &w, 4);
        else if (type == KIPU_F16 || type == KIPU_BF16) memcpy(out, &h, 2);
        else fill_block((unsigned char *)out, type, kind);
    }
}

/* ------------------------------------------------------------------------------- activations */

typedef struct acts_buffers {
    kipu_acts acts;
    check_buffer x, q, d, s;   /* x, or q, d, s */
} acts_buffers;

static int8_t random_code(int kind) {
    switch (kind) {
    case 2: return 127;
    case 3: return -127;
    case 4: return check_below(2) ? 127 : -127;
    default: return (int8_t)(check_below(255) - 127);
    }
}

static void fill_groups(acts_buffers *b, size_t n_groups, int kind) {
    int8_t *q = b->q.data;
    float *d = b->d.data;
    int32_t *s = b->s.data;
    for (size_t g = 0; g < n_groups; g++) {
        s[g] = 0;
        for (int i = 0; i < 32; i++) s[g] += q[32 * g + i] = random_code(kind);
        d[g] = fabsf(check_gauss()) / 127;
        if (kind == 1) d[g] = check_below(2) ? 0 : 0x1p-140f;
        if (kind == 5 && check_below(50) == 0) d[g] = NAN;
    }
}

static acts_buffers new_acts(int type, int n, int64_t k, int kind, check_place place) {
    acts_buffers b = {{.n = n, .k = (int32_t)k}, {0}, {0}, {0}, {0}};
    size_t values = (size_t)n * (size_t)k;
    if (is_float(type)) {
        b.x = check_alloc(values * 4, place);
        for (size_t i = 0; i < values; i++)
            ((float *)b.x.data)[i] = kind == 5 && check_below(100) == 0 ? check_special() : random_weight(kind);
        check_read_only(&b.x);
    } else {
        b.q = check_alloc(values, place);
        b.d = check_alloc(values / 32 * 4, place);
        b.s = check_alloc(values / 32 * 4, place);
        fill_groups(&b, values / 32, kind);
        check_read_only(&b.q);
        check_read_only(&b.d);
        check_read_only(&b.s);
    }
    b.acts.x = b.x.data;
    b.acts.q = b.q.data;
    b.acts.d = b.d.data;
    b.acts.s = b.s.data;
    return b;
}

static void free_acts(acts_buffers *b) {
    if (b->acts.x) check_free(&b->x);
    if (!b->acts.q) return;
    check_free(&b->q);
    check_free(&b->d);
    check_free(&b->s);
}

/* ------------------------------------------------------------------------------- one matrix */

typedef struct matrix {
    const kipu_kernels *k;
    int type;
    const char *name;
    int64_t n_in;               /* values per row */
    size_t row_bytes;
    int kind;
    check_place place;
    check_buffer rows, panels;  /* ROWS in file order; PANELS panels */
    acts_buffers a;             /* TOKENS tokens */
    check_buffer want;          /* ref: [panel][TOKENS][16] */
    check_buffer scratch;
} matrix;

static const char *tier(const matrix *m) { return kipu_tier_name(m->k->tier); }
static const kipu_matmul_kernels *ref_of(int type) { return kipu_kernels_of(KIPU_TIER_REF)->matmul[type]; }
static int panel_rows(int p) { return p < PANELS - 1 ? 16 : ROWS - 16 * p; }

static void check_pack(matrix *m) {
    check_case("%s pack %s k=%lld kind=%d", tier(m), m->name, (long long)m->n_in, m->kind);
    size_t panel_bytes = 16 * m->row_bytes;
    check_buffer want = check_alloc(panel_bytes, m->place), row = check_alloc(m->row_bytes, m->place);
    bool ok = true;
    for (int p = 0; p < PANELS; p++) {
        const char *rows = (const char *)m->rows.data + 16 * p * m->row_bytes;
        char *panel = (char *)m->panels.data + p * panel_bytes;
        m->k->matmul[m->type]->pack(panel, rows, panel_rows(p), m->n_in);
        ref_of(m->type)->pack(want.data, rows, panel_rows(p), m->n_in);
        ok = ok && check_bytes("panel", panel, want.data, panel_bytes);
        for (int r = 0; r < panel_rows(p); r++) {
            m->k->matmul[m->type]->unpack(row.data, panel, r, m->n_in);
            ok = ok && check_bytes("unpacked row", row.data, rows + r * m->row_bytes, m->row_bytes);
        }
    }
    check_end(ok && check_canary("pack", &m->panels) && check_canary("unpack", &row));
    check_free(&want);
    check_free(&row);
}

static void check_decode(matrix *m) {
    check_case("%s decode %s k=%lld kind=%d", tier(m), m->name, (long long)m->n_in, m->kind);
    size_t n = (size_t)m->n_in;
    check_buffer got = check_alloc(4 * n, m->place), want = check_alloc(4 * n, m->place);
    bool ok = true;
    for (int r = 0; r < ROWS && ok; r++) {
        const char *row = (const char *)m->rows.data + r * m->row_bytes;
        m->k->matmul[m->type]->decode(got.data, row, m->n_in);
        ref_of(m->type)->decode(want.data, row, m->n_in);
        ok = check_floats("decoded", got.data, want.data, n);
    }
    check_end(ok && check_canary("decode", &got));
    check_free(&got);
    check_free(&want);
}

static const float *wanted(const matrix *m, int panel, int token) {
    return (const float *)m->want.data + ((size_t)panel * m->a.acts.n + token) * 16;
}

/* The last `count` panels if the guard page is behind them, else the first ones. */
static int first_panel(const matrix *m, int count) { return m->place == CHECK_AT_END ? PANELS - count : 0; }
static const void *panel_at(const matrix *m, int p) { return (const char *)m->panels.data + p * 16 * m->row_bytes; }

static void check_gemm(matrix *m, int count, int t0, int nt) {
    check_case("%s gemm %s k=%lld panels=%d t0=%d nt=%d kind=%d", tier(m), m->name, (long long)m->n_in, count, t0, nt, m->kind);
    check_buffer y = check_alloc(sizeof(float) * 16 * count * nt, m->place);
    int p0 = first_panel(m, count);
    m->k->matmul[m->type]->gemm(y.data, panel_at(m, p0), count, &m->a.acts, t0, nt, m->scratch.data);
    bool ok = check_canary("y", &y);
    for (int p = 0; p < count && ok; p++)
        for (int t = 0; t < nt && ok; t++)
            ok = check_floats("y", (float *)y.data + ((size_t)p * nt + t) * 16, wanted(m, p0 + p, t0 + t), 16);
    check_end(ok);
    check_free(&y);
}

static void check_gemv(matrix *m, int count, int token) {
    check_case("%s gemv %s k=%lld panels=%d token=%d kind=%d", tier(m), m->name, (long long)m->n_in, count, token, m->kind);
    check_buffer y = check_alloc(sizeof(float) * 16 * count, m->place);
    int p0 = first_panel(m, count);
    m->k->matmul[m->type]->gemv(y.data, panel_at(m, p0), count, &m->a.acts, token);
    bool ok = check_canary("y", &y);
    for (int p = 0; p < count && ok; p++) ok = check_floats("y", (float *)y.data + p * 16, wanted(m, p0 + p, token), 16);
    check_end(ok);
    check_free(&y);
}

static matrix new_matrix(const kipu_kernels *k, int type, int64_t n_in, int n_tokens, int kind, check_place place) {
    matrix m = {.k = k, .type = type, .name = kipu_format_of(type)->name, .n_in = n_in, .kind = kind, .place = place};
    m.row_bytes = kipu_row_bytes(type, n_in);
    m.rows = check_alloc(ROWS * m.row_bytes, place);
    check_fill_rows(m.rows.data, type, n_in, ROWS, kind);
    check_read_only(&m.rows);
    m.panels = check_alloc(16 * PANELS * m.row_bytes, place);
    m.a = new_acts(type, n_tokens, n_in, check_below(6), place);
    m.want = check_alloc(sizeof(float) * 16 * PANELS * n_tokens, place);
    m.scratch = check_alloc(KIPU_GEMM_SCRATCH, place);
    return m;
}

static void free_matrix(matrix *m) {
    check_free(&m->rows);
    check_free(&m->panels);
    free_acts(&m->a);
    check_free(&m->want);
    check_free(&m->scratch);
}

static void make_wanted(matrix *m) {
    check_case("ref gemm %s k=%lld kind=%d", m->name, (long long)m->n_in, m->kind);
    check_read_only(&m->panels);
    ref_of(m->type)->gemm(m->want.data, m->panels.data, PANELS, &m->a.acts, 0, m->a.acts.n, m->scratch.data);
}

/* ------------------------------------------------------------------------------- all of a format */

static const int token_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33};
enum { TOKEN_COUNTS = sizeof token_counts / sizeof token_counts[0] };

/* t0: tokens at the start, at the end, or somewhere. */
static int random_t0(int nt) {
    switch (check_below(3)) {
    case 0: return 0;
    case 1: return TOKENS - nt;
    default: return check_below(TOKENS - nt + 1);
    }
}

static void check_matrix(matrix *m, bool all_shapes) {
    check_pack(m);
    check_decode(m);
    make_wanted(m);
    for (int count = 1; count <= PANELS; count++) {
        check_gemv(m, count, 0);
        check_gemv(m, count, TOKENS - 1);
        for (int i = 0; i < TOKEN_COUNTS; i++)
            if (all_shapes || check_below(8) == 0) check_gemm(m, count, random_t0(token_counts[i]), token_counts[i]);
    }
}

/* As many tokens as a prompt's ubatch has. */
static void check_long(const kipu_kernels *k, int type) {
    matrix m = new_matrix(k, type, 512, 512, 0, CHECK_AT_END);
    check_pack(&m);
    make_wanted(&m);
    check_gemm(&m, PANELS, 0, 512);
    check_gemm(&m, 2, 1, 511);
    free_matrix(&m);
}

static void check_format(const kipu_kernels *k, int type) {
    static const int any[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129};
    static const int by_32[] = {32, 64, 96, 128, 160, 192, 224, 256, 288, 576};
    static const int by_256[] = {256, 512, 768, 1024, 1280, 1536};
    int block = kipu_format_of(type)->block;
    const int *sizes = block == 1 ? any : block == 32 ? by_32 : by_256;
    int n_sizes = block == 1 ? 18 : block == 32 ? 10 : 6;
    for (int i = 0; i < n_sizes; i++) {
        for (int kind = 0; kind < 6; kind++) {
            matrix m = new_matrix(k, type, sizes[i], TOKENS, kind, (i + kind) % 2 ? CHECK_AT_START : CHECK_AT_END);
            check_matrix(&m, kind == 0);
            free_matrix(&m);
        }
    }
    check_long(k, type);
}

void check_matmul(const kipu_kernels *k, const kipu_kernels *ref) {
    for (int type = 0; type < KIPU_TYPE_COUNT; type++) {
        if (!ref->matmul[type] && !k->matmul[type]) continue;
        char name[32];
        snprintf(name, sizeof name, "matmul %s", kipu_format_of(type)->name);
        if (!check_wants(k, name)) continue;
        check_case("%s %s: in ref and in this tier", kipu_tier_name(k->tier), name);
        bool both = ref->matmul[type] && k->matmul[type];
        check_end(both);
        if (both) check_format(k, type);
    }
}
