/* Checks of csrc/base that need C: threads, allocation, error text; and filters and timings for the Python tests.
 *
 *     check_base error | alloc | pool           prints what failed; exit code 0 or 1
 *     check_base idle                           CPU time of an idle pool in 100 ms: prints microseconds
 *     check_base barrier WORKERS                prints the best mean time of one barrier in nanoseconds
 *     check_base half_to_float | float_to_half | bf16_to_float      stdin -> stdout, little endian values
 *
 * Linked with --wrap=pthread_create, so that a thread can be refused. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/error.h"
#include "base/half.h"
#include "base/memory_alloc.h"
#include "base/pool.h"

static int failures;

static void check(int ok, int line, const char *what) {
    if (ok) return;
    printf("line %d: %s\n", line, what);
    failures++;
}
#define CHECK(condition) check(condition, __LINE__, #condition)

/* ------------------------------------------------------------------------------------------------ errors */

/* `pad` letters, then `tail`: the message must be cut in front of the sequence that does not fit into 255 bytes. */
static void check_cut(int pad, const char *tail, int expected) {
    char text[600];
    kipu_error err;
    memset(text, 'x', pad);
    strcpy(text + pad, tail);
    CHECK(kipu_fail(&err, KIPU_E_FORMAT, "%s", text) == KIPU_E_FORMAT && err.status == KIPU_E_FORMAT);
    CHECK((int)strlen(err.message) == expected && !memcmp(err.message, text, expected));
}

static kipu_status positive(int n, kipu_error *err) {
    KIPU_REQUIRE(n > 0, err, KIPU_E_ARG, "n is %d, expected > 0", n);
    return KIPU_OK;
}

static kipu_status forwards(int n, kipu_error *err) {
    KIPU_TRY(positive(n, err));
    return KIPU_E_INTERNAL;
}

static void check_errors(void) {
    for (int fits = 0; fits <= 4; fits++) {   /* bytes of the last character that would fit */
        check_cut(255 - fits, "\xc3\xbc" "abcdefgh", fits >= 2 ? 255 : 255 - fits);
        check_cut(255 - fits, "\xe2\x82\xac" "abcdefgh", fits >= 3 ? 255 : 255 - fits);
        check_cut(255 - fits, "\xf0\x9f\xa6\x99" "abcdefgh", fits >= 4 ? 255 : 255 - fits);
    }
    check_cut(253, "\xc3\xbc", 255);          /* just fits */
    check_cut(10, "", 10);
    check_cut(0, "", 0);
    kipu_error err;
    CHECK(forwards(0, &err) == KIPU_E_ARG && !strcmp(err.message, "n is 0, expected > 0"));
    CHECK(forwards(1, &err) == KIPU_E_INTERNAL);
    CHECK(kipu_fail(NULL, KIPU_E_FULL, "%d", 1) == KIPU_E_FULL);
    kipu_fail(&err, KIPU_E_IO, "disk");
    kipu_fail(&err, err.status, "again: %s", err.message);
    CHECK(!strcmp(err.message, "again: disk"));
    for (int s = KIPU_OK; s <= KIPU_E_INTERNAL; s++) CHECK(strcmp(kipu_status_text((kipu_status)s), "unknown status"));
    CHECK(!strcmp(kipu_status_text((kipu_status)99), "unknown status"));
}

/* ------------------------------------------------------------------------------------------------ memory */

static int all_zero(const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i]) return 0;
    return 1;
}

static void check_memory(void) {
    for (size_t size = 0; size < 3000; size = size * 5 / 4 + 1) {
        unsigned char *p = kipu_alloc(size);
        CHECK(p && (uintptr_t)p % KIPU_CACHE_LINE == 0 && all_zero(p, size));
        if (p) memset(p, 0xaa, size);
        kipu_free(p);
    }
    CHECK(!kipu_alloc(SIZE_MAX) && !kipu_alloc(SIZE_MAX - 100) && !kipu_huge_alloc(SIZE_MAX) && !kipu_huge_alloc(0));
    CHECK(!kipu_alloc_array(SIZE_MAX / 2, 3) && !kipu_alloc_array(3, SIZE_MAX / 2));
    kipu_free(NULL);
    kipu_huge_free(NULL, 5);
    for (size_t size = 1; size < 9000000; size = size * 7 + 1) {
        unsigned char *p = kipu_huge_alloc(size);
        CHECK(p && (uintptr_t)p % (2 << 20) == 0 && all_zero(p, size));
        if (p) memset(p, 0xaa, size);
        kipu_huge_free(p, size);
    }
    kipu_alloc_fail_after(2);
    void *a = kipu_alloc(1), *b = kipu_huge_alloc(1);
    CHECK(a && b && !kipu_alloc(1) && !kipu_huge_alloc(1) && !kipu_alloc_array(1, 1));
    kipu_alloc_fail_after(-1);
    kipu_free(a);
    kipu_huge_free(b, 1);
    CHECK((a = kipu_alloc(1)) != NULL);
    kipu_free(a);
}

/* ------------------------------------------------------------------------------------------------ pool */

enum { MAX = 8 };

static int threads_to_refuse;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg) {
    return threads_to_refuse ? 11 /* EAGAIN */ : __real_pthread_create(thread, attr, start, arg);
}

static kipu_pool *new_pool(int n) {
    kipu_pool *pool = NULL;
    kipu_error err;
    if (kipu_pool_new(&pool, n, &err)) printf("%s\n", err.message), exit(1);
    return pool;
}

typedef struct tally { int runs[MAX], count[MAX]; } tally;

static void count_run(void *arg, const kipu_worker *w) {
    tally *t = arg;
    t->runs[w->index]++;
    t->count[w->index] = w->count;
}

static void check_runs(int size, int wanted, int expected) {
    kipu_pool *pool = new_pool(size);
    tally t = {0};
    CHECK(kipu_pool_size(pool) == size);
    for (int i = 0; i < 200; i++) CHECK(kipu_pool_run(pool, wanted, count_run, &t, NULL) == KIPU_OK);
    for (int i = 0; i < MAX; i++) CHECK(t.runs[i] == (i < expected ? 200 : 0) && t.count[i] == (i < expected ? expected : 0));
    kipu_pool_free(pool);
}

/* Each worker writes the step into its slot; after the barrier everybody must see all slots at this step. */
typedef struct steps { int n, slot[MAX], seen_wrong[MAX]; } steps;

static void step_together(void *arg, const kipu_worker *w) {
    steps *s = arg;
    for (int step = 1; step <= s->n; step++) {
        s->slot[w->index] = step;
        kipu_barrier(w);
        for (int i = 0; i < w->count; i++) s->seen_wrong[w->index] += s->slot[i] != step;
        kipu_barrier(w);
    }
}

static void check_barrier(kipu_pool *pool, int workers, int n) {
    steps s = {.n = n};
    CHECK(kipu_pool_run(pool, workers, step_together, &s, NULL) == KIPU_OK);
    for (int i = 0; i < MAX; i++) CHECK(s.seen_wrong[i] == 0 && s.slot[i] == (i < workers ? n : 0));
}

static void check_sizes_change(void) {
    static const int sizes[] = {4, 2, 3, 1, 4, 1, 2};
    kipu_pool *pool = new_pool(4);
    for (int i = 0; i < 210; i++) {
        check_barrier(pool, sizes[i % 7], 3);
        if (i % 50 == 0) usleep(2000);   /* long enough for the workers to fall asleep */
    }
    kipu_pool_free(pool);
}

typedef struct nested { kipu_pool *pool, *other; int who; kipu_status same, different; kipu_error err; } nested;

static void run_inside(void *arg, const kipu_worker *w) {
    nested *n = arg;
    tally t = {0};
    if (w->index != n->who) return;
    n->same = kipu_pool_run(n->pool, 2, count_run, &t, &n->err);
    n->different = kipu_pool_run(n->other, 2, count_run, &t, NULL);
}

static void check_nested(void) {
    kipu_pool *pool = new_pool(3), *other = new_pool(3);
    for (int who = 0; who < 3; who++) {
        nested n = {.pool = pool, .other = other, .who = who};
        CHECK(kipu_pool_run(pool, 3, run_inside, &n, NULL) == KIPU_OK);
        CHECK(n.same == KIPU_E_STATE && n.err.status == KIPU_E_STATE && n.different == KIPU_OK);
    }
    check_barrier(pool, 3, 2);
    kipu_pool_free(pool);
    kipu_pool_free(other);
}

static void *call_often(void *arg) {
    for (int i = 0; i < 200; i++) check_barrier(arg, 2, 2);
    return NULL;
}

static void check_two_callers(void) {
    kipu_pool *pool = new_pool(2);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, call_often, pool) == 0);
    call_often(pool);
    pthread_join(thread, NULL);
    kipu_pool_free(pool);
}

static void check_fork(void) {
    kipu_pool *pool = new_pool(2);
    check_barrier(pool, 2, 5);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        kipu_error err;
        tally t = {0};
        int ok = kipu_pool_run(pool, 2, count_run, &t, &err) == KIPU_E_STATE && t.runs[0] == 0 && strstr(err.message, "fork");
        kipu_pool_free(pool);
#ifndef __SANITIZE_THREAD__                        /* which cannot start threads after fork */
        pool = new_pool(2);
        ok = ok && kipu_pool_run(pool, 2, count_run, &t, &err) == KIPU_OK && t.runs[1] == 1;
        kipu_pool_free(pool);
#endif
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_barrier(pool, 2, 5);
    kipu_pool_free(pool);
}

static void ask_mask(void *arg, const kipu_worker *w) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    ((int *)arg)[w->index] = sigismember(&mask, SIGINT);
}

static void check_pool(void) {
    kipu_pool *pool = NULL;
    kipu_error err;
    CHECK(kipu_pool_new(&pool, 0, &err) == KIPU_E_ARG && kipu_pool_new(&pool, 513, &err) == KIPU_E_ARG && !pool);
    kipu_pool_free(NULL);
    kipu_pool_free(new_pool(512));                 /* never started */
    for (int n = 1; n <= 4; n++) check_runs(n, n, n);
    check_runs(2, 5, 2);
    check_runs(8, 8, 4);                           /* KIPU_CPUS=4 */
    check_runs(4, 0, 1);
    check_runs(4, -3, 1);
    for (int n = 1; n <= 4; n++) {
        pool = new_pool(n);
        check_barrier(pool, n, 2000);
        kipu_pool_free(pool);
    }
    check_sizes_change();
    check_nested();
    check_two_callers();
    check_fork();
    threads_to_refuse = 1;
    check_runs(4, 4, 1);
    threads_to_refuse = 0;
    int blocked[2] = {0};
    pool = new_pool(2);
    CHECK(kipu_pool_run(pool, 2, ask_mask, blocked, NULL) == KIPU_OK && !blocked[0] && blocked[1]);
    kipu_pool_free(pool);
    kipu_alloc_fail_after(1);
    pool = NULL;
    CHECK(kipu_pool_new(&pool, 2, &err) == KIPU_E_MEMORY && !pool);
    kipu_alloc_fail_after(-1);
}

/* ------------------------------------------------------------------------------------------------ time */

static double nanoseconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void print_idle(void) {
    kipu_pool *pool = new_pool(4);
    tally t = {0};
    kipu_pool_run(pool, 4, count_run, &t, NULL);
    usleep(20000);
    double before = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    usleep(100000);
    printf("%.0f\n", (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - before) / 1000);
    kipu_pool_free(pool);
}

static void many_barriers(void *arg, const kipu_worker *w) {
    for (int i = 0; i < *(int *)arg; i++) kipu_barrier(w);
}

static void print_barrier(int workers) {
    kipu_pool *pool = new_pool(workers);
    double best = 1e99;
    int n = 1000;
    for (int i = 0; i < 200; i++) {
        double start = nanoseconds(CLOCK_MONOTONIC);
        kipu_pool_run(pool, workers, many_barriers, &n, NULL);
        double each = (nanoseconds(CLOCK_MONOTONIC) - start) / n;
        best = each < best ? each : best;
    }
    n = 0;
    double best_run = 1e99;
    for (int i = 0; i < 20000; i++) {
        double start = nanoseconds(CLOCK_MONOTONIC);
        kipu_pool_run(pool, workers, many_barriers, &n, NULL);
        double each = nanoseconds(CLOCK_MONOTONIC) - start;
        best_run = each < best_run ? each : best_run;
    }
    printf("%.0f ns for a barrier, %.0f ns for an empty run\n", best, best_run);
    kipu_pool_free(pool);
}

/* ------------------------------------------------------------------------------------------------ filters */

static void halves_to_floats(float (*convert)(uint16_t)) {
    for (uint16_t h; fread(&h, 2, 1, stdin) == 1;) {
        float f = convert(h);
        fwrite(&f, 4, 1, stdout);
    }
}

static void floats_to_halves(void) {
    for (float f; fread(&f, 4, 1, stdin) == 1;) {
        uint16_t h = kipu_float_to_half(f);
        fwrite(&h, 2, 1, stdout);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "error")) check_errors();
    else if (!strcmp(what, "alloc")) check_memory();
    else if (!strcmp(what, "pool")) check_pool();
    else if (!strcmp(what, "idle")) print_idle();
    else if (!strcmp(what, "barrier") && argc > 2) print_barrier(atoi(argv[2]));
    else if (!strcmp(what, "half_to_float")) halves_to_floats(kipu_half_to_float);
    else if (!strcmp(what, "bf16_to_float")) halves_to_floats(kipu_bf16_to_float);
    else if (!strcmp(what, "float_to_half")) floats_to_halves();
    else return 2;
    return failures > 0;
}
