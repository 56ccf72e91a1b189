#include "engine/weights.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base/cpu.h"
#include "base/memory_alloc.h"
#include "base/pool.h"

enum { READ_BYTES = 256 * 1024, MOST_THREADS = 512 };   /* as many as a pool takes */

static size_t round_64(size_t n) { return (n + 63) / 64 * 64; }
static bool is_float(int type) { return type == KIPU_F32 || type == KIPU_F16 || type == KIPU_BF16; }

/* ------------------------------------------------------------------------------------------------ declaring */

static void shape_text(char out[96], int n_dims, const int64_t *ne) {
    int at = 0;
    for (int i = 0; i < n_dims && at < 80; i++) at += snprintf(out + at, 96 - at, "%s%lld", i ? ", " : "", (long long)ne[i]);
}

static kipu_status check_shape(const kipu_gguf_tensor *t, int n_dims, const int64_t *ne, kipu_error *err) {
    bool equal = t->n_dims == n_dims;
    for (int i = 0; equal && i < n_dims; i++) equal = t->ne[i] == ne[i];
    if (equal) return KIPU_OK;
    char found[96], wanted[96];
    shape_text(found, t->n_dims, t->ne);
    shape_text(wanted, n_dims, ne);
    return kipu_fail(err, KIPU_E_FORMAT, "tensor '%s' has shape [%s], expected [%s]", t->name, found, wanted);
}

/* Vectors are held as floats; matrices need kernels of their format. */
static kipu_status describe(kipu_weight *w, const kipu_gguf_tensor *t, const kipu_kernels *kernels, kipu_error *err) {
    const kipu_format *f = kipu_format_of(t->type);
    memcpy(w->name, t->name, sizeof w->name);
    w->source = t;
    w->type = t->type;
    w->k = t->ne[0];
    w->rows = t->n_dims > 1 ? t->ne[1] : 1;
    w->layout = t->n_dims > 1 ? KIPU_PANELS : KIPU_VECTOR;
    w->mm = kernels->matmul[t->type];
    KIPU_REQUIRE(w->layout == KIPU_PANELS || is_float(t->type), err, KIPU_E_FORMAT,
                 "tensor '%s' is %s, expected F32, F16 or BF16 for a vector",
                 t->name, f->name);
    KIPU_REQUIRE(w->mm, err, KIPU_E_UNSUPPORTED, "tensor '%s' has type %d (%s), which is not supported yet", t->name, t->type, f->name);
    KIPU_REQUIRE(w->k <= INT32_MAX && w->rows <= INT32_MAX, err, KIPU_E_UNSUPPORTED, "tensor '%s' is too large", t->name);
    w->n_panels = (w->rows + KIPU_PANEL_ROWS - 1) / KIPU_PANEL_ROWS;
    w->panel_bytes = KIPU_PANEL_ROWS * kipu_row_bytes(t->type, w->k);
    return KIPU_OK;
}

static kipu_status grow(kipu_weights *w, kipu_error *err) {
    if (w->count < w->room) return KIPU_OK;
    int32_t room = w->room ? 2 * w->room : 256;
    kipu_weight *bigger = kipu_alloc_array(room, sizeof *bigger);
    KIPU_REQUIRE(bigger, err, KIPU_E_MEMORY, "no memory for %d weights", room);
    if (w->count) memcpy(bigger, w->weight, w->count * sizeof *bigger);
    kipu_free(w->weight);
    w->weight = bigger;
    w->room = room;
    return KIPU_OK;
}

kipu_status kipu_weights_declare(kipu_weights *w, const kipu_gguf *file, const kipu_kernels *kernels, const char *name, int n_dims,
                                 const int64_t *ne, bool optional, int32_t *index, kipu_error *err) {
    const kipu_gguf_tensor *t = kipu_gguf_find_tensor(file, name);
    if (!t && optional) {
        *index = -1;
        return KIPU_OK;
    }
    KIPU_REQUIRE(t, err, KIPU_E_FORMAT, "tensor '%s' is missing", name);
    KIPU_REQUIRE(!w->arena, err, KIPU_E_STATE, "tensor '%s' was declared after loading", name);
    KIPU_TRY(check_shape(t, n_dims, ne, err));
    for (int32_t i = 0; i < w->count; i++) {
        if (w->weight[i].source != t) continue;
        *index = i;
        return KIPU_OK;
    }
    KIPU_TRY(grow(w, err));
    kipu_weight fresh = {0};
    KIPU_TRY(describe(&fresh, t, kernels, err));
    w->weight[w->count] = fresh;
    *index = w->count++;
    return KIPU_OK;
}

/* ------------------------------------------------------------------------------------------------ loading */

static size_t held_bytes(const kipu_weight *w) {
    return w->layout == KIPU_PANELS ? (size_t)w->n_panels * w->panel_bytes : (size_t)w->k * sizeof(float);
}

static kipu_status make_arena(kipu_weights *w, kipu_error *err) {
    size_t bytes = 64;
    for (int32_t i = 0; i < w->count; i++) {
        KIPU_REQUIRE(held_bytes(&w->weight[i]) < SIZE_MAX / 8 - bytes, err, KIPU_E_MEMORY, "tensor '%s' does not fit the address space",
                     w->weight[i].name);
        bytes += round_64(held_bytes(&w->weight[i]));
    }
    w->arena = kipu_huge_alloc(bytes);
    KIPU_REQUIRE(w->arena, err, KIPU_E_MEMORY, "no memory for %zu bytes of weights", bytes);
    w->arena_bytes = bytes;
    char *at = w->arena;
    for (int32_t i = 0; i < w->count; i++) {
        w->weight[i].data = at;
        at += round_64(held_bytes(&w->weight[i]));
    }
    return KIPU_OK;
}

/* Some rows of one weight, from the start of a panel on: what a worker reads and packs at a time. */
typedef struct load_job { int32_t weight; int64_t row, rows; } load_job;

typedef struct loading {
    kipu_weights *w;
    const kipu_gguf *file;
    load_job *jobs;
    int64_t n_jobs;
    size_t buffer_bytes;
    char *buffers;                 /* one for each worker */
    bool check;
    kipu_progress progress;
    void *progress_arg;
    atomic_llong next, bytes_done;
    uint64_t bytes_all;
    atomic_int stop;
    kipu_error *errors;            /* one for each worker */
} loading;

static int64_t rows_per_job(const kipu_weight *w) {
    int64_t panels = READ_BYTES / w->panel_bytes, rows = KIPU_PANEL_ROWS * (panels < 1 ? 1 : panels);
    return rows < w->rows ? rows : w->rows;
}

static int64_t jobs_of(const kipu_weight *w) { return (w->rows + rows_per_job(w) - 1) / rows_per_job(w); }
static size_t row_bytes(const kipu_weight *w) { return w->panel_bytes / KIPU_PANEL_ROWS; }

static kipu_status make_jobs(loading *l, kipu_error *err) {
    int64_t n = 0;
    for (int32_t i = 0; i < l->w->count; i++) n += jobs_of(&l->w->weight[i]);
    l->jobs = kipu_alloc_array(n + 1, sizeof *l->jobs);
    KIPU_REQUIRE(l->jobs, err, KIPU_E_MEMORY, "no memory for the load list");
    for (int32_t i = 0; i < l->w->count; i++) {
        const kipu_weight *w = &l->w->weight[i];
        int64_t step = rows_per_job(w);
        for (int64_t r = 0; r < w->rows; r += step) l->jobs[l->n_jobs++] = (load_job){i, r, w->rows - r < step ? w->rows - r : step};
        size_t bytes = (size_t)step * row_bytes(w);
        if (bytes > l->buffer_bytes) l->buffer_bytes = bytes;
        l->bytes_all += w->source->bytes;
    }
    l->buffer_bytes = round_64(l->buffer_bytes) + 64;
    return KIPU_OK;
}

/* NaN or infinity in plain floats, or in a value that a block decodes to. */
static kipu_status check_rows(const kipu_weight *w, const char *rows, int64_t n, kipu_error *err) {
    float *values = kipu_alloc_array(w->k, sizeof *values);
    KIPU_REQUIRE(values, err, KIPU_E_MEMORY, "no memory to check tensor '%s'", w->name);
    bool good = true;
    for (int64_t r = 0; r < n && good; r++) {
        w->mm->decode(values, rows + r * row_bytes(w), w->k);
        for (int64_t i = 0; i < w->k && good; i++) good = isfinite(values[i]);
    }
    kipu_free(values);
    return good ? KIPU_OK : kipu_fail(err, KIPU_E_FORMAT, "tensor '%s' holds a value that is not finite", w->name);
}

static kipu_status load_one(loading *l, const load_job *job, char *buffer, kipu_error *err) {
    const kipu_weight *w = &l->w->weight[job->weight];
    uint64_t bytes = job->rows * row_bytes(w);
    KIPU_TRY(kipu_gguf_read(l->file, w->source, job->row * row_bytes(w), bytes, buffer, err));
    if (l->check) KIPU_TRY(check_rows(w, buffer, job->rows, err));
    atomic_fetch_add(&l->bytes_done, (long long)bytes);
    if (w->layout == KIPU_VECTOR) {
        w->mm->decode((float *)w->data, buffer, w->k);
        return KIPU_OK;
    }
    for (int64_t r = 0; r < job->rows; r += KIPU_PANEL_ROWS) {
        int64_t left = job->rows - r;
        w->mm->pack((char *)w->data + (job->row + r) * row_bytes(w), buffer + r * row_bytes(w),
                    left < KIPU_PANEL_ROWS ? (int)left : KIPU_PANEL_ROWS, w->k);
    }
    return KIPU_OK;
}

/* On the calling thread only: a callback may belong to an interpreter. */
static kipu_status report(const loading *l, uint64_t done, kipu_error *err) {
    float progress = l->bytes_all ? (float)((double)done / l->bytes_all) : 1;
    bool go_on = !l->progress || l->progress(l->progress_arg, progress);
    return go_on ? KIPU_OK : kipu_fail(err, KIPU_E_ABORTED, "loading was cancelled");
}

static void load_worker(void *arg, const kipu_worker *worker) {
    loading *l = arg;
    char *buffer = l->buffers + worker->index * l->buffer_bytes;
    kipu_error *err = &l->errors[worker->index];
    while (!atomic_load(&l->stop)) {
        long long i = atomic_fetch_add(&l->next, 1);
        if (i >= l->n_jobs) return;
        kipu_status status = load_one(l, &l->jobs[i], buffer, err);
        if (status == KIPU_OK && worker->index == 0) status = report(l, atomic_load(&l->bytes_done), err);
        if (status != KIPU_OK) atomic_store(&l->stop, 1);
    }
}

static kipu_status check_all_declared(const kipu_weights *w, const kipu_gguf *file, kipu_error *err) {
    int64_t n = kipu_gguf_n_tensors(file);
    if (n == w->count) return KIPU_OK;
    for (int64_t i = 0; i < n; i++) {
        const kipu_gguf_tensor *t = kipu_gguf_tensor_at(file, i);
        bool known = false;
        for (int32_t j = 0; j < w->count && !known; j++) known = w->weight[j].source == t;
        if (!known)
            return kipu_fail(err, KIPU_E_FORMAT, "wrong number of tensors; expected %d, got %lld: the model does not use '%s'", w->count,
                             (long long)n, t->name);
    }
    return KIPU_OK;
}

/* Each worker has a buffer: no more of them than CPUs and jobs, however many threads were asked for. */
static int count_workers(const loading *l, int n_threads) {
    int64_t n = n_threads < MOST_THREADS ? n_threads : MOST_THREADS, usable = kipu_cpu_usable();
    if (n > usable) n = usable;
    if (n > l->n_jobs) n = l->n_jobs;
    return n < 1 ? 1 : (int)n;
}

static kipu_status run_jobs(loading *l, int n_threads, kipu_error *err) {
    kipu_pool *pool;
    KIPU_TRY(report(l, 0, err));
    KIPU_TRY(kipu_pool_new(&pool, n_threads, err));
    l->buffers = kipu_alloc_array(n_threads, l->buffer_bytes);
    l->errors = kipu_alloc_array(n_threads, sizeof *l->errors);
    kipu_status status = l->buffers && l->errors ? kipu_pool_run(pool, n_threads, load_worker, l, err)
                                                 : kipu_fail(err, KIPU_E_MEMORY, "no memory for %d load buffers", n_threads);
    kipu_pool_free(pool);
    for (int i = 0; status == KIPU_OK && i < n_threads; i++)
        if (l->errors[i].status != KIPU_OK) status = kipu_fail(err, l->errors[i].status, "%s", l->errors[i].message);
    return status == KIPU_OK ? report(l, l->bytes_all, err) : status;
}

kipu_status kipu_weights_load(kipu_weights *w, const kipu_gguf *file, int n_threads, bool check, kipu_progress progress, void *progress_arg,
                              kipu_error *err) {
    loading l = {.w = w, .file = file, .check = check, .progress = progress, .progress_arg = progress_arg};
    KIPU_REQUIRE(!w->arena, err, KIPU_E_STATE, "the weights were loaded before");
    KIPU_TRY(check_all_declared(w, file, err));
    KIPU_TRY(make_arena(w, err));
    kipu_status status = make_jobs(&l, err);
    if (status == KIPU_OK) status = run_jobs(&l, count_workers(&l, n_threads), err);
    kipu_free(l.jobs);
    kipu_free(l.buffers);
    kipu_free(l.errors);
    return status;
}

void kipu_weights_free(kipu_weights *w) {
    kipu_free(w->weight);
    kipu_huge_free(w->arena, w->arena_bytes);
    *w = (kipu_weights){0};
}

/* ------------------------------------------------------------------------------------------------ reading back */

static void unpack_row(const kipu_weight *w, int64_t row, void *out) {
    w->mm->unpack(out, w->data + row / KIPU_PANEL_ROWS * w->panel_bytes, (int)(row % KIPU_PANEL_ROWS), w->k);
}

kipu_status kipu_weight_rows(const kipu_weight *w, int64_t r0, int64_t r1, void *out, kipu_error *err) {
    KIPU_REQUIRE(w->layout == KIPU_PANELS, err, KIPU_E_ARG, "tensor '%s' is a vector, expected a matrix", w->name);
    KIPU_REQUIRE(r0 >= 0 && r0 <= r1 && r1 <= w->rows, err, KIPU_E_ARG, "rows %lld..%lld of tensor '%s', which has %lld", (long long)r0,
                 (long long)r1, w->name, (long long)w->rows);
    for (int64_t r = r0; r < r1; r++) unpack_row(w, r, (char *)out + (r - r0) * row_bytes(w));
    return KIPU_OK;
}

void kipu_weight_row_floats(const kipu_weight *w, int64_t row, float *out, void *scratch_row) {
    unpack_row(w, row, scratch_row);
    w->mm->decode(out, scratch_row, w->k);
}
