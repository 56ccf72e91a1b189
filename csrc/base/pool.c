#define _GNU_SOURCE   /* syscall, pthread_sigmask */
#include "base/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "base/cpu.h"
#include "base/memory_alloc.h"

enum {
    SPIN_NS = 30000,   /* spinning this long costs less than sleeping and being woken; behind it a waiter gives its CPU away */
    LOOKS = 16,        /* looks at the word between two looks at the clock */
    MAX_WORKERS = 512
};

/* A counter that threads wait for. Alone on its cache line, so that waiters do not disturb their neighbours. */
typedef struct word {
    _Alignas(KIPU_CACHE_LINE) atomic_uint value;
    atomic_uint sleepers;   /* threads in the kernel for it, so that waking may be skipped */
} word;

/* The place of one worker. Seat 0 belongs to whoever is in kipu_pool_run. */
typedef struct seat {
    word ticket;            /* counts the tasks given to this worker; its thread waits for a change */
    kipu_pool *pool;
    int index;
    atomic_uintptr_t owner; /* pthread_self of the thread that works here, 0: nobody */
    pthread_t thread;       /* seats 1 .. started */
} seat;

struct kipu_pool {
    pthread_mutex_t running;    /* held during a run: one at a time */
    pid_t process;
    int size, started, usable;  /* seats; threads that exist; CPUs when the pool was made (asking costs file reads) */
    seat *seats;

    kipu_task task;             /* of this run, written before the tickets change */
    void *arg;
    int count;                  /* workers of this run */
    bool end;                   /* the next ticket is the last */

    word finished;              /* counts the runs; the caller waits for a change */
    _Alignas(KIPU_CACHE_LINE) atomic_int left;      /* workers that have not finished the task, without the caller */
    _Alignas(KIPU_CACHE_LINE) atomic_int arrived;   /* at the barrier, of this generation */
    word generation;            /* counts the barriers; those who arrived wait for a change */
};

/* ------------------------------------------------------------------------------------------------ waiting */

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* True if the word left `value` while we were spinning. By the clock: a pause takes 10 to 140 cycles, as the processor likes. */
static bool spin(word *w, unsigned value) {
    for (int64_t end = 0;;) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&w->value, memory_order_acquire) != value) return true;
            relax();
        }
        int64_t now = now_ns();
        if (!end) end = now + SPIN_NS;
        if (now >= end) return false;
    }
}

/* Returns when the word is no longer `value`: spins, then sleeps.
 *
 * No wake-up is lost: the sleeper counts itself, then the kernel compares the value; the waker changes the value, then reads the
 * count. All four are sequentially consistent, so that one of the two sees the other. */
static void wait_change(word *w, unsigned value) {
    if (spin(w, value)) return;
    atomic_fetch_add(&w->sleepers, 1);
    while (atomic_load(&w->value) == value) syscall(SYS_futex, &w->value, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    atomic_fetch_sub(&w->sleepers, 1);
}

static void change(word *w) {
    atomic_fetch_add(&w->value, 1);
    if (atomic_load(&w->sleepers)) syscall(SYS_futex, &w->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void kipu_barrier(const kipu_worker *worker) {
    if (worker->count == 1) return;
    kipu_pool *p = worker->pool;
    unsigned generation = atomic_load(&p->generation.value);   /* before arriving: afterwards it may change */
    if (atomic_fetch_add(&p->arrived, 1) == worker->count - 1) {
        atomic_store(&p->arrived, 0);
        change(&p->generation);
    } else {
        wait_change(&p->generation, generation);
    }
}

/* ------------------------------------------------------------------------------------------------ threads */

static uintptr_t self(void) { return (uintptr_t)pthread_self(); }

static void *work(void *arg) {
    seat *s = arg;
    kipu_pool *p = s->pool;
    atomic_store(&s->owner, self());
    for (unsigned seen = 0;; seen++) {
        wait_change(&s->ticket, seen);
        if (p->end) return NULL;
        kipu_worker me = {p, s->index, p->count};
        p->task(p->arg, &me);
        if (atomic_fetch_sub(&p->left, 1) == 1) change(&p->finished);
    }
}

/* Threads for `count` workers, or as many as the system gives. Signals stay with the threads of the program. */
static void start_threads(kipu_pool *p, int count) {
    sigset_t all, before;
    sigfillset(&all);
    if (p->started >= count - 1 || pthread_sigmask(SIG_SETMASK, &all, &before)) return;
    while (p->started < count - 1) {
        seat *s = &p->seats[p->started + 1];
        if (pthread_create(&s->thread, NULL, work, s)) break;
        p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

kipu_status kipu_pool_new(kipu_pool **out, int n_threads, kipu_error *err) {
    KIPU_REQUIRE(n_threads >= 1 && n_threads <= MAX_WORKERS, err, KIPU_E_ARG, "n_threads is %d, expected 1..%d", n_threads, MAX_WORKERS);
    kipu_pool *p = kipu_alloc(sizeof *p);
    seat *seats = kipu_alloc_array(n_threads, sizeof *seats);
    if (!p || !seats || pthread_mutex_init(&p->running, NULL)) {
        kipu_free(p);
        kipu_free(seats);
        return kipu_fail(err, KIPU_E_MEMORY, "no memory for a pool of %d threads", n_threads);
    }
    p->process = getpid();
    p->size = n_threads;
    p->usable = kipu_cpu_usable();
    p->seats = seats;
    for (int i = 0; i < n_threads; i++) seats[i].pool = p, seats[i].index = i;
    *out = p;
    return KIPU_OK;
}

void kipu_pool_free(kipu_pool *p) {
    if (!p) return;
    if (p->process == getpid()) {
        p->end = true;
        for (int i = 1; i <= p->started; i++) change(&p->seats[i].ticket);
        for (int i = 1; i <= p->started; i++) pthread_join(p->seats[i].thread, NULL);
        pthread_mutex_destroy(&p->running);
    }
    kipu_free(p->seats);
    kipu_free(p);
}

int kipu_pool_size(const kipu_pool *pool) { return pool->size; }

/* ------------------------------------------------------------------------------------------------ running */

/* Does this thread sit in one of the seats? Only it could have written its own name there, so nothing is ordered. */
static bool is_worker(kipu_pool *p) {
    for (int i = 0; i < p->size; i++)
        if (atomic_load_explicit(&p->seats[i].owner, memory_order_relaxed) == self()) return true;
    return false;
}

static int smallest(int a, int b) { return a < b ? a : b; }

static int workers_for(kipu_pool *p, int wanted) {
    int count = smallest(smallest(wanted, p->size), p->usable);
    start_threads(p, count);
    count = smallest(count, p->started + 1);
    return count > 1 ? count : 1;
}

static void run_task(kipu_pool *p, kipu_task task, void *arg, int count) {
    kipu_worker me = {p, 0, count};
    unsigned runs = atomic_load(&p->finished.value);
    p->task = task, p->arg = arg, p->count = count;
    atomic_store(&p->left, count - 1);
    for (int i = 1; i < count; i++) change(&p->seats[i].ticket);
    task(arg, &me);
    if (count > 1) wait_change(&p->finished, runs);
}

kipu_status kipu_pool_run(kipu_pool *p, int n_workers, kipu_task task, void *arg, kipu_error *err) {
    KIPU_REQUIRE(p->process == getpid(), err, KIPU_E_STATE, "this thread pool belongs to process %d and cannot be used after fork",
                 (int)p->process);
    KIPU_REQUIRE(!is_worker(p), err, KIPU_E_STATE, "this thread is running a task of the pool and cannot start another one in it");
    pthread_mutex_lock(&p->running);
    atomic_store(&p->seats[0].owner, self());
    run_task(p, task, arg, workers_for(p, n_workers));
    atomic_store(&p->seats[0].owner, 0);
    pthread_mutex_unlock(&p->running);
    return KIPU_OK;
}
