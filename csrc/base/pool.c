#define _GNU_SOURCE   /* syscall */
#include "base/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/cpu.h"
#include "base/memory_alloc.h"

/* Spinning costs nobody anything for this long; behind it a waiter gives its CPU away. About 30 us on a 4 GHz core. */
enum { SPINS = 1500, MAX_WORKERS = 512 };

struct kipu_pool {
    pthread_mutex_t running;                 /* one run at a time */
    pid_t process;
    int size, started;                       /* workers allowed; threads that exist (without the caller) */
    int usable;                              /* CPUs when the pool was made: asking costs file reads */
    pthread_t *threads;
    pthread_t runner;                        /* the thread inside kipu_pool_run */
    atomic_bool busy;

    _Alignas(64) atomic_uint ticket;         /* a new value is a new task (or the end): workers wait for a change */
    kipu_task task;
    void *arg;
    int count;                               /* workers of this task */
    bool end;

    _Alignas(64) atomic_int left;            /* workers that have not finished the task; the caller waits for 0 */
    _Alignas(64) atomic_int arrived;         /* barrier: arrivals of this generation */
    _Alignas(64) atomic_uint generation;     /* barrier: waiters wait for a change */
    atomic_int sleepers;                     /* of any of the words above, so that waking may be skipped */
};

/* What a new thread is told: its index, and the ticket that was there before its first task. */
typedef struct seat { kipu_pool *pool; int index; unsigned ticket; } seat;

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(kipu_pool *p, void *word, uint32_t value) {
    atomic_fetch_add(&p->sleepers, 1);
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    atomic_fetch_sub(&p->sleepers, 1);
}

static void futex_wake(kipu_pool *p, void *word) {
    if (atomic_load(&p->sleepers)) syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Returns when *word is no longer `value`: spins, then sleeps. */
static void wait_change(kipu_pool *p, atomic_uint *word, unsigned value) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value) return;
        relax();
    }
    while (atomic_load(word) == value) futex_wait(p, word, value);
}

/* The sleeper counts itself, then the kernel compares the word; the waker changes the word, then reads the count: with both orders
 * sequentially consistent one of the two sees the other. */
static void change(kipu_pool *p, atomic_uint *word) {
    atomic_fetch_add(word, 1);
    futex_wake(p, word);
}

void kipu_barrier(const kipu_worker *w) {
    if (w->count == 1) return;
    kipu_pool *p = w->pool;
    unsigned generation = atomic_load(&p->generation);
    if (atomic_fetch_add(&p->arrived, 1) == w->count - 1) {
        atomic_store(&p->arrived, 0);
        change(p, &p->generation);
    } else {
        wait_change(p, &p->generation, generation);
    }
}

static void *work(void *arg) {
    seat s = *(seat *)arg;
    kipu_free(arg);
    unsigned seen = s.ticket;
    for (;;) {
        wait_change(s.pool, &s.pool->ticket, seen);
        seen = atomic_load(&s.pool->ticket);
        if (s.pool->end) return NULL;
        if (s.index < s.pool->count) {
            kipu_worker w = {s.pool, s.index, s.pool->count};
            s.pool->task(s.pool->arg, &w);
        }
        if (atomic_fetch_sub(&s.pool->left, 1) == 1) futex_wake(s.pool, &s.pool->left);
    }
}

kipu_status kipu_pool_new(kipu_pool **out, int n_threads, kipu_error *err) {
    KIPU_REQUIRE(n_threads >= 1 && n_threads <= MAX_WORKERS, err, KIPU_E_ARG, "n_threads is %d, expected 1..%d", n_threads, MAX_WORKERS);
    kipu_pool *p = kipu_alloc(sizeof *p);
    pthread_t *threads = kipu_alloc_array(n_threads, sizeof *threads);
    if (!p || !threads) {
        kipu_free(p);
        kipu_free(threads);
        return kipu_fail(err, KIPU_E_MEMORY, "no memory for a pool of %d threads", n_threads);
    }
    p->threads = threads;
    p->size = n_threads;
    p->usable = kipu_cpu_usable();
    p->process = getpid();
    pthread_mutex_init(&p->running, NULL);
    *out = p;
    return KIPU_OK;
}

void kipu_pool_free(kipu_pool *p) {
    if (!p) return;
    if (p->process == getpid()) {
        p->end = true;
        change(p, &p->ticket);
        for (int i = 0; i < p->started; i++) pthread_join(p->threads[i], NULL);
        pthread_mutex_destroy(&p->running);
    }
    kipu_free(p->threads);
    kipu_free(p);
}

int kipu_pool_size(const kipu_pool *pool) { return pool->size; }

/* Threads for `count` workers; fewer if the system has no more. Called between tasks: a new worker waits for the next ticket. */
static void start_threads(kipu_pool *p, int count) {
    while (p->started < count - 1) {
        seat *s = kipu_alloc(sizeof *s);
        if (!s) return;
        *s = (seat){p, p->started + 1, atomic_load(&p->ticket)};
        if (pthread_create(&p->threads[p->started], NULL, work, s)) {
            kipu_free(s);
            return;
        }
        p->started++;
    }
}

static void wait_for_workers(kipu_pool *p) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&p->left, memory_order_acquire) == 0) return;
        relax();
    }
    for (int left; (left = atomic_load(&p->left)) != 0;) futex_wait(p, &p->left, (uint32_t)left);
}

kipu_status kipu_pool_run(kipu_pool *p, int n_workers, kipu_task task, void *arg, kipu_error *err) {
    KIPU_REQUIRE(p->process == getpid(), err, KIPU_E_STATE, "this thread pool belongs to process %d and cannot be used after fork", (int)p->process);
    KIPU_REQUIRE(!atomic_load(&p->busy) || !pthread_equal(p->runner, pthread_self()), err, KIPU_E_STATE, "the pool is running a task of this thread");
    pthread_mutex_lock(&p->running);
    p->runner = pthread_self();
    atomic_store(&p->busy, true);
    int count = n_workers < p->size ? n_workers : p->size;
    if (count > p->usable) count = p->usable;
    if (count < 1) count = 1;
    start_threads(p, count);
    if (count > p->started + 1) count = p->started + 1;
    kipu_worker me = {p, 0, count};
    if (count == 1) {
        task(arg, &me);
    } else {
        p->task = task, p->arg = arg, p->count = count;
        atomic_store(&p->left, p->started);
        change(p, &p->ticket);
        task(arg, &me);
        wait_for_workers(p);
    }
    atomic_store(&p->busy, false);
    pthread_mutex_unlock(&p->running);
    return KIPU_OK;
}
