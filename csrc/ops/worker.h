/* What every op gets besides its arguments: the worker it runs on, that worker's scratch, and the abort flag.
 * Ops are called by all workers of one kipu_pool_run with the same arguments; they share work through kipu_jobs and do not end with a
 * barrier: the caller of the op places barriers. */
#ifndef KIPU_OPS_WORKER_H
#define KIPU_OPS_WORKER_H

#include <stdatomic.h>
#include <stddef.h>
#include "base/pool.h"
#include "kernels/kernels.h"

/* A counter that hands out job numbers 0, 1, 2 ...; zeroed by the caller before the run. On a cache line of its own. */
typedef struct kipu_jobs {
    _Alignas(64) atomic_int next;
} kipu_jobs;

typedef struct kipu_op_worker {
    kipu_worker w;
    const kipu_kernels *k;
    char *scratch;              /* 64-byte aligned, scratch_size bytes, this worker's own */
    size_t scratch_size;
    atomic_int *stop;           /* not 0: leave as soon as possible (results are thrown away). Read between jobs. */
    void (*poll)(void *arg);    /* worker 0 calls it between jobs at least every 10 ms; may set *stop. NULL: none */
    void *poll_arg;
} kipu_op_worker;

/* The next job of this op, or -1 when all `count` are taken or *stop is set. Worker 0 polls here. */
static inline int kipu_next_job(kipu_op_worker *ow, kipu_jobs *jobs, int count) {
    if (ow->w.index == 0 && ow->poll) ow->poll(ow->poll_arg);
    if (atomic_load_explicit(ow->stop, memory_order_relaxed)) return -1;
    int job = atomic_fetch_add_explicit(&jobs->next, 1, memory_order_relaxed);
    return job < count ? job : -1;
}

#endif
