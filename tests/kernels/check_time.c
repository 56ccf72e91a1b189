/* Speed of one thread. gemv streams 256 MB of weights, as near to main memory as the machine's caches allow; gemm reuses 8 panels for 512
 * tokens. Best of several runs. "memory" is plain reading of the same 256 MB: the limit of gemv. */
#define _GNU_SOURCE
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/half.h"
#include "base/memory_alloc.h"

enum { K = 2048, TOKENS = 512, COLD_BYTES = 256 << 20 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t size) {
    void *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!p) exit(3);
    memset(p, 0, size);
    return p;
}

/* Best time of one call, over at least 5 calls and 0.2 seconds. */
typedef void (*timed)(void *arg);
__attribute__((noinline)) static double best_seconds(timed call, void *arg) {
    double best = 1e9, end = now() + 0.2;
    for (int i = 0; i < 5 || now() < end; i++) {
        double start = now();
        call(arg);
        double seconds = now() - start;
        if (seconds < best) best = seconds;
        if (i >= 1 && best > 2) break;   /* ref */
    }
    return best;
}

/* ------------------------------------------------------------------------------- matrices */

typedef struct matmul_run {
    const kipu_matmul_kernels *kernels;
    kipu_acts acts;
    float *y;
    char *panels, *rows;
    int n_panels, n_tokens;
    size_t panel_bytes;
    void *scratch;
} matmul_run;

static void run_gemv(void *arg) {
    matmul_run *r = arg;
    r->kernels->gemv(r->y, r->panels, r->n_panels, &r->acts, 0);
}

static void run_pack(void *arg) {
    matmul_run *r = arg;
    for (int p = 0; p < 8; p++) r->kernels->pack(r->panels + (size_t)p * r->panel_bytes, r->rows, 16, K);
}

static void run_decode(void *arg) {
    matmul_run *r = arg;
    for (int row = 0; row < 16; row++) r->kernels->decode(r->y, r->rows + (size_t)row * r->panel_bytes / 16, K);
}

/* Eight panels, as many at a time as the kernel likes. */
static void run_gemm(void *arg) {
    matmul_run *r = arg;
    int step = r->kernels->gemm_panels > 0 ? r->kernels->gemm_panels : 1;
    for (int p = 0; p < 8; p += step)
        r->kernels->gemm(r->y, r->panels + (size_t)p * r->panel_bytes, step < 8 - p ? step : 8 - p, &r->acts, 0, r->n_tokens, r->scratch);
}

static void fill_acts(kipu_acts *a) {
    float *x = allocate(sizeof(float) * TOKENS * K), *d = allocate(sizeof(float) * TOKENS * K / 32);
    int8_t *q = allocate(TOKENS * K);
    int32_t *s = allocate(sizeof(int32_t) * TOKENS * K / 32);
    check_fill_gauss(x, (size_t)TOKENS * K);
    kipu_kernels_of(KIPU_TIER_REF)->quantize(q, d, s, x, (int64_t)TOKENS * K);
    *a = (kipu_acts){TOKENS, K, x, q, d, s};
}

static void free_acts(kipu_acts *a) {
    free((void *)a->x);
    free((void *)a->q);
    free((void *)a->d);
    free((void *)a->s);
}

static void time_format(const kipu_kernels *k, int type, const kipu_acts *acts) {
    const kipu_format *f = kipu_format_of(type);
    matmul_run r = {.kernels = k->matmul[type], .acts = *acts, .n_tokens = k->tier == KIPU_TIER_REF ? 8 : TOKENS};
    r.panel_bytes = 16 * kipu_row_bytes(type, K);
    r.n_panels = (int)(COLD_BYTES / r.panel_bytes);
    r.panels = kipu_huge_alloc((size_t)r.n_panels * r.panel_bytes);   /* as the engine keeps weights */
    if (!r.panels) exit(3);
    r.y = allocate(sizeof(float) * 16 * (size_t)(r.n_panels > 8 * TOKENS ? r.n_panels : 8 * TOKENS));
    r.scratch = allocate(KIPU_GEMM_SCRATCH);
    r.rows = allocate(r.panel_bytes);
    check_fill_rows(r.rows, type, K, 16, 0);
    for (int p = 0; p < r.n_panels; p++) r.kernels->pack(r.panels + (size_t)p * r.panel_bytes, r.rows, 16, K);
    double pack = 8.0 * (double)r.panel_bytes / best_seconds(run_pack, &r) * 1e-9;
    double decode = 16.0 * K * 4 / best_seconds(run_decode, &r) * 1e-9;
    double gemv = (double)r.n_panels * (double)r.panel_bytes / best_seconds(run_gemv, &r) * 1e-9;
    double gemm = 8.0 * 16 * K * r.n_tokens / best_seconds(run_gemm, &r) * 1e-9;
    printf("%-7s %-8s gemv %7.2f GB/s   gemm %8.2f GMAC/s   pack %6.2f GB/s   decode %6.2f GB/s of floats\n", kipu_tier_name(k->tier),
           f->name, gemv, gemm, pack, decode);
    kipu_huge_free(r.panels, (size_t)r.n_panels * r.panel_bytes);
    free(r.y);
    free(r.scratch);
    free(r.rows);
}

/* ------------------------------------------------------------------------------- vectors: one row of K floats in the L1 cache */

typedef struct vector_run {
    const kipu_kernels *k;
    float *a, *b, *y, *d;
    int8_t *q;
    int32_t *s;
} vector_run;

enum { REPEATS = 100 };

static void run_quantize(void *arg) {
    vector_run *r = arg;
    for (int i = 0; i < REPEATS; i++) r->k->quantize(r->q, r->d, r->s, r->a, K);
}
static void run_rms_norm(void *arg) {
    vector_run *r = arg;
    for (int i = 0; i < REPEATS; i++) r->k->rms_norm(r->y, r->a, r->b, K, 1e-5f);
}
static void run_swiglu(void *arg) {
    vector_run *r = arg;
    for (int i = 0; i < REPEATS; i++) r->k->swiglu(r->y, r->a, r->b, K);
}
static void run_geglu(void *arg) {
    vector_run *r = arg;
    for (int i = 0; i < REPEATS; i++) r->k->geglu(r->y, r->a, r->b, K);
}
static void run_softcap(void *arg) {
    vector_run *r = arg;
    for (int i = 0; i < REPEATS; i++) r->k->softcap(r->y, r->a, 30, K);
}
static void run_argmax(void *arg) {
    vector_run *r = arg;
    volatile int64_t at = 0;
    for (int i = 0; i < REPEATS; i++) at += r->k->argmax(r->a, K);
}

static void time_vectors(const kipu_kernels *k) {
    static const struct { const char *name; timed call; } runs[] = {
        {"quantize", run_quantize}, {"rms_norm", run_rms_norm}, {"swiglu", run_swiglu},
        {"geglu", run_geglu}, {"softcap", run_softcap}, {"argmax", run_argmax},
    };
    vector_run r = {k, allocate(4 * K), allocate(4 * K), allocate(4 * K), allocate(K / 8), allocate(K), allocate(K / 8)};
    check_fill_gauss(r.a, K);
    check_fill_gauss(r.b, K);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        if (!check_wants(k, runs[i].name)) continue;
        printf("%-7s %-9s %7.3f ns per value\n", kipu_tier_name(k->tier), runs[i].name, best_seconds(runs[i].call, &r) / REPEATS / K * 1e9);
    }
    free(r.a);
    free(r.b);
    free(r.y);
    free(r.d);
    free(r.q);
    free(r.s);
}

/* ------------------------------------------------------------------------------- attention: full chunks of F16, d = 64 and 128 */

typedef struct attention_run {
    const kipu_kernels *k;
    kipu_attn_head head;
    kipu_attn_chunk chunk;
    int n_rows;
    float *m, *l, *o, *q;
    uint64_t *mask;
    void *scratch;
} attention_run;

static void run_attention(void *arg) {
    attention_run *r = arg;
    r->k->attention(r->m, r->l, r->o, r->q, r->mask, r->n_rows, &r->head, &r->chunk, r->scratch);
}

static void time_attention(const kipu_kernels *k, int d, int n_rows) {
    size_t n = (size_t)n_rows, block = (size_t)d * 16;
    attention_run r = {k, {d, d, KIPU_F16, KIPU_F16, 0.1f, 0}, {.v_stride = 2 * (size_t)d, .present = ~(uint64_t)0}, n_rows,
                       allocate(4 * n), allocate(4 * n), allocate(4 * n * (size_t)d), allocate(4 * n * (size_t)d), allocate(8 * n),
                       allocate(KIPU_ATTN_SCRATCH)};
    uint16_t *kv = allocate(2 * 8 * block);
    for (size_t i = 0; i < 8 * block; i++) kv[i] = kipu_float_to_half(check_gauss());
    for (int i = 0; i < 4; i++) {
        r.chunk.k[i] = kv + (size_t)i * block;
        r.chunk.v[i] = kv + (size_t)(4 + i) * block;
    }
    check_fill_gauss(r.q, n * (size_t)d);
    memset(r.mask, 0xff, 8 * n);
    double gmacs = 2e-9 * 64 * d * n_rows / best_seconds(run_attention, &r);
    printf("%-7s attention d=%-3d rows=%-3d %8.2f GMAC/s\n", kipu_tier_name(k->tier), d, n_rows, gmacs);
    free(r.m);
    free(r.l);
    free(r.o);
    free(r.q);
    free(r.mask);
    free(r.scratch);
    free(kv);
}

typedef struct stream_run {
    const uint64_t *data;
    volatile uint64_t sum;
} stream_run;

static void run_stream(void *arg) {
    stream_run *r = arg;
    uint64_t sum = 0;
    for (size_t i = 0; i < COLD_BYTES / 8; i++) sum += r->data[i];
    r->sum = sum;
}

static void time_stream(void) {
    uint64_t *data = kipu_huge_alloc(COLD_BYTES);
    if (!data) exit(3);
    for (size_t i = 0; i < COLD_BYTES / 8; i++) data[i] = i;   /* not memset: the compiler would know the sum */
    printf("memory           read %7.2f GB/s\n", COLD_BYTES / best_seconds(run_stream, &(stream_run){data, 0}) * 1e-9);
    kipu_huge_free(data, COLD_BYTES);
}

void check_time(const kipu_kernels *k) {
    kipu_acts acts;
    time_stream();
    fill_acts(&acts);
    for (int type = 0; type < KIPU_TYPE_COUNT; type++) {
        char name[32];
        if (!k->matmul[type]) continue;
        snprintf(name, sizeof name, "matmul %s", kipu_format_of(type)->name);
        if (check_wants(k, name)) time_format(k, type, &acts);
    }
    time_vectors(k);
    if (check_wants(k, "attention")) {
        time_attention(k, 64, 3);
        time_attention(k, 64, 96);
        time_attention(k, 128, 64);
    }
    free_acts(&acts);
}
