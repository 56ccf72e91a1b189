#include "ops/matmul.h"

/* A tile is [panel][token][16]: at most MAX_TILE rows of 16 floats, 256 KiB. Two of them for gated units, half as large each. */
enum { MAX_TILE = 4096, MAX_PANELS = 8, GEMV_PANELS = 64, MAX_TOKENS = 512, ACTS_BYTES = 512 * 1024 };
#define TILE_FLOATS ((size_t)MAX_TILE * KIPU_PANEL_ROWS)

size_t kipu_matmul_scratch(void) { return KIPU_GEMM_SCRATCH + TILE_FLOATS * sizeof(float); }

typedef struct tiling {
    int tokens;                         /* per job */
    int token_jobs;                     /* jobs along the tokens */
    int panels[KIPU_MAX_LINEAR];        /* per job */
    int panel_jobs[KIPU_MAX_LINEAR];    /* jobs along the panels of one matrix */
    int n_matrices;                     /* that jobs are cut from: a gated pair counts once */
} tiling;

static int min_int(int a, int b) { return a < b ? a : b; }
static int div_up(int64_t a, int64_t b) { return (int)((a + b - 1) / b); }
static int n_panels(const kipu_linear *l) { return div_up(l->rows, KIPU_PANEL_ROWS); }

/* Tokens so that their codes stay in the second cache. */
static int tokens_per_job(const kipu_acts *a) {
    int fit = ACTS_BYTES / (a->k > 0 ? a->k : 1) / 16 * 16;
    int most = fit < 64 ? 64 : min_int(fit, MAX_TOKENS);
    return div_up(a->n, div_up(a->n, most));
}

/* One token: long contiguous runs, about eight for each worker. Many: gemm's favourite width, as far as the tile takes it. */
static int panels_per_job(const kipu_matmul *m, const kipu_linear *l, const kipu_acts *a, int64_t total, int tokens, int workers) {
    int pair = m->finish == KIPU_STORE ? 1 : 2, fit = min_int(MAX_PANELS, MAX_TILE / (pair * tokens));
    if (a->n > 1) return min_int(fit, l->mm->gemm_panels);
    int run = workers > 1 ? div_up(total, 8 * workers) : GEMV_PANELS;
    return min_int(GEMV_PANELS, run < 4 ? 4 : run);
}

static tiling cut(const kipu_matmul *m, const kipu_acts *a, int workers) {
    tiling t = {.n_matrices = m->finish == KIPU_STORE ? m->n_linear : 1, .tokens = tokens_per_job(a)};
    int64_t total = 0;
    for (int i = 0; i < t.n_matrices; i++) total += n_panels(&m->linear[i]);
    t.token_jobs = div_up(a->n, t.tokens);
    for (int i = 0; i < t.n_matrices; i++) {
        t.panels[i] = panels_per_job(m, &m->linear[i], a, total, t.tokens, workers);
        t.panel_jobs[i] = div_up(n_panels(&m->linear[i]), t.panels[i]);
        t.panels[i] = div_up(n_panels(&m->linear[i]), t.panel_jobs[i]);      /* equal shares */
    }
    return t;
}

static void product(kipu_op_worker *ow, const kipu_linear *l, const kipu_acts *a, int p0, int np, int t0, int nt, float *tile) {
    const char *panels = l->panels + (size_t)p0 * l->panel_bytes;
    if (a->n == 1) l->mm->gemv(tile, panels, np, a, 0);
    else l->mm->gemm(tile, panels, np, a, t0, nt, ow->scratch);
}

/* The rows of a job: outputs row0 .. row0 + rows - 1 of a matrix, tokens t0 .. t0 + nt - 1. */
typedef struct block { int64_t row0; int rows, panels, t0, nt; } block;

static float *tile_row(float *tile, const block *b, int panel, int t) { return tile + ((size_t)panel * b->nt + t) * KIPU_PANEL_ROWS; }
static int rows_of_panel(const block *b, int panel) { return min_int(KIPU_PANEL_ROWS, b->rows - panel * KIPU_PANEL_ROWS); }

static void add_bias(const kipu_linear *l, const block *b, float *tile) {
    for (int p = 0; p < b->panels; p++) {
        const float *bias = l->bias + b->row0 + p * KIPU_PANEL_ROWS;
        for (int t = 0; t < b->nt; t++)
            for (int r = 0; r < rows_of_panel(b, p); r++) tile_row(tile, b, p, t)[r] += bias[r];
    }
}

/* out = from, or residual + from. Whole panels are the rule: a constant length lets the compiler use vectors. */
static inline void store_values(float *out, const float *residual, const float *from, int n) {
    for (int r = 0; r < n; r++) out[r] = residual ? residual[r] + from[r] : from[r];
}

/* Token by token, so that an output row is written in one run. */
static void store(const kipu_linear *l, const int32_t *row_of, const block *b, float *tile) {
    for (int t = 0; t < b->nt; t++) {
        size_t at = (size_t)(row_of ? row_of[b->t0 + t] : b->t0 + t) * l->rows + b->row0;
        for (int p = 0; p < b->panels; p++, at += KIPU_PANEL_ROWS) {
            const float *from = tile_row(tile, b, p, t), *residual = l->residual ? l->residual + at : NULL;
            float *out = l->out + at;
            int rows = rows_of_panel(b, p);
            if (rows == KIPU_PANEL_ROWS) store_values(out, residual, from, KIPU_PANEL_ROWS);
            else store_values(out, residual, from, rows);
        }
    }
}

static void finish(const kipu_op_worker *ow, const kipu_matmul *m, float *tile, const float *up, int64_t n) {
    if (m->finish == KIPU_SWIGLU) ow->k->swiglu(tile, tile, up, n);
    else if (m->finish == KIPU_GEGLU) ow->k->geglu(tile, tile, up, n);
    else if (m->softcap != 0) ow->k->softcap(tile, tile, m->softcap, n);
}

/* One job: a run of panels of one matrix (or of a gated pair) for a run of tokens. */
static void run_job(kipu_op_worker *ow, const kipu_matmul *m, const kipu_acts *a, int matrix, int p0, int np, int t0, int nt) {
    const kipu_linear *l = &m->linear[matrix];
    int64_t row0 = (int64_t)p0 * KIPU_PANEL_ROWS, n = (int64_t)np * nt * KIPU_PANEL_ROWS;
    block b = {row0, (int)(l->rows - row0 < np * KIPU_PANEL_ROWS ? l->rows - row0 : np * KIPU_PANEL_ROWS), np, t0, nt};
    float *tile = (float *)(ow->scratch + KIPU_GEMM_SCRATCH), *up = tile + n;
    product(ow, l, a, p0, np, t0, nt, tile);
    if (l->bias) add_bias(l, &b, tile);
    if (m->finish != KIPU_STORE) {
        product(ow, &m->linear[1], a, p0, np, t0, nt, up);
        if (m->linear[1].bias) add_bias(&m->linear[1], &b, up);
    }
    finish(ow, m, tile, up, n);
    store(l, m->row_of, &b, tile);
}

void kipu_matmul_run(kipu_op_worker *ow, const kipu_matmul *m, const kipu_acts *acts, kipu_jobs *jobs) {
    if (acts->n == 0) return;
    tiling t = cut(m, acts, ow->w.count);
    int count = 0;
    for (int i = 0; i < t.n_matrices; i++) count += t.panel_jobs[i] * t.token_jobs;
    for (int job; (job = kipu_next_job(ow, jobs, count)) >= 0;) {
        int matrix = 0;
        while (job >= t.panel_jobs[matrix] * t.token_jobs) job -= t.panel_jobs[matrix] * t.token_jobs, matrix++;
        int p0 = job / t.token_jobs * t.panels[matrix], t0 = job % t.token_jobs * t.tokens;
        run_job(ow, m, acts, matrix, p0, min_int(t.panels[matrix], n_panels(&m->linear[matrix]) - p0), t0, min_int(t.tokens, acts->n - t0));
    }
}
