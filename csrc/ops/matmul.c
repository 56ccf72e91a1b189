#include "ops/matmul.h"

/* A tile is [panel][token][16]; two of them for gated units. */
enum { MAX_TILE_PANELS = 2, MAX_TILE_TOKENS = 512, GEMV_PANELS = 64, ACTS_BYTES = 512 * 1024 };
#define TILE_FLOATS ((size_t)MAX_TILE_PANELS * MAX_TILE_TOKENS * KIPU_PANEL_ROWS)

size_t kipu_matmul_scratch(void) { return KIPU_GEMM_SCRATCH + 2 * TILE_FLOATS * sizeof(float); }

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

/* One token: long contiguous runs, about eight for each worker. Many: gemm's favourite width, tokens so that their codes stay in L2. */
static tiling cut(const kipu_matmul *m, const kipu_acts *a, int workers) {
    tiling t = {.n_matrices = m->finish == KIPU_STORE ? m->n_linear : 1};
    int64_t total = 0;
    for (int i = 0; i < t.n_matrices; i++) total += n_panels(&m->linear[i]);
    int fit = ACTS_BYTES / (a->k > 0 ? a->k : 1);
    t.tokens = fit < 64 ? 64 : fit > MAX_TILE_TOKENS ? MAX_TILE_TOKENS : fit / 16 * 16;
    t.token_jobs = div_up(a->n, t.tokens);
    t.tokens = div_up(a->n, t.token_jobs);
    int run = workers > 1 ? div_up(total, 8 * workers) : GEMV_PANELS;
    for (int i = 0; i < t.n_matrices; i++) {
        t.panels[i] = a->n == 1 ? min_int(GEMV_PANELS, run < 4 ? 4 : run) : min_int(MAX_TILE_PANELS, m->linear[i].mm->gemm_panels);
        t.panel_jobs[i] = div_up(n_panels(&m->linear[i]), t.panels[i]);
    }
    return t;
}

static void product(kipu_op_worker *ow, const kipu_linear *l, const kipu_acts *a, int p0, int np, int t0, int nt, float *tile) {
    const char *panels = l->panels + (size_t)p0 * l->panel_bytes;
    if (a->n == 1) l->mm->gemv(tile, panels, np, a, 0);
    else l->mm->gemm(tile, panels, np, a, t0, nt, ow->scratch);
}

static void add_bias(const kipu_linear *l, int64_t row0, int rows, int nt, float *tile) {
    for (int t = 0; t < nt; t++)
        for (int r = 0; r < rows; r++) tile[t * KIPU_PANEL_ROWS + r] += l->bias[row0 + r];
}

static void glu(const kipu_op_worker *ow, kipu_finish finish, float *gate, const float *up, int n) {
    if (finish == KIPU_SWIGLU) ow->k->swiglu(gate, gate, up, n);
    else ow->k->geglu(gate, gate, up, n);
}

static void store_rows(const kipu_linear *l, const int32_t *row_of, int64_t row0, int rows, int t0, int nt, const float *tile) {
    for (int t = 0; t < nt; t++, tile += KIPU_PANEL_ROWS) {
        size_t at = (size_t)(row_of ? row_of[t0 + t] : t0 + t) * l->rows + row0;
        float *out = l->out + at;
        if (l->residual) {
            const float *residual = l->residual + at;
            for (int r = 0; r < rows; r++) out[r] = residual[r] + tile[r];
        } else {
            for (int r = 0; r < rows; r++) out[r] = tile[r];
        }
    }
}

/* One job: a run of panels of one matrix (or of a gated pair) for a run of tokens. */
static void run_job(kipu_op_worker *ow, const kipu_matmul *m, const kipu_acts *a, int matrix, int p0, int np, int t0, int nt) {
    float *tile = (float *)(ow->scratch + KIPU_GEMM_SCRATCH), *up = tile + TILE_FLOATS;
    const kipu_linear *l = &m->linear[matrix];
    product(ow, l, a, p0, np, t0, nt, tile);
    if (m->finish != KIPU_STORE) product(ow, &m->linear[1], a, p0, np, t0, nt, up);
    for (int p = 0; p < np; p++) {
        int64_t row0 = (int64_t)(p0 + p) * KIPU_PANEL_ROWS;
        int rows = l->rows - row0 < KIPU_PANEL_ROWS ? (int)(l->rows - row0) : KIPU_PANEL_ROWS;
        size_t at = (size_t)p * nt * KIPU_PANEL_ROWS;
        if (l->bias) add_bias(l, row0, rows, nt, tile + at);
        if (m->finish != KIPU_STORE) {
            if (m->linear[1].bias) add_bias(&m->linear[1], row0, rows, nt, up + at);
            glu(ow, m->finish, tile + at, up + at, nt * KIPU_PANEL_ROWS);
        } else if (m->softcap != 0) {
            ow->k->softcap(tile + at, tile + at, m->softcap, (int64_t)nt * KIPU_PANEL_ROWS);
        }
        store_rows(l, m->row_of, row0, rows, t0, nt, tile + at);
    }
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
