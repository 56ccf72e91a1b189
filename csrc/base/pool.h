/* Persistent worker threads and a barrier.
 *
 * The caller of kipu_pool_run is worker 0; workers 1.. spin briefly (tens of microseconds) for the next task, then sleep on a futex
 * or condition variable: an idle pool uses no CPU. A pool belongs to the process that made it: use after fork is KIPU_E_STATE.
 * One kipu_pool_run at a time per pool: a second caller waits on the pool's mutex.
 */
#ifndef KIPU_BASE_POOL_H
#define KIPU_BASE_POOL_H

#include "base/error.h"

typedef struct kipu_pool kipu_pool;

/* One worker's view of a running task. */
typedef struct kipu_worker {
    kipu_pool *pool;
    int index;  /* 0 .. count-1; 0 is the calling thread */
    int count;
} kipu_worker;

typedef void (*kipu_task)(void *arg, const kipu_worker *worker);

/* Up to n_threads workers (1..512), threads are started lazily by the first run that needs them. */
kipu_status kipu_pool_new(kipu_pool **out, int n_threads, kipu_error *err);
/* Joins the workers. NULL is allowed; in a forked child it only releases memory. */
void kipu_pool_free(kipu_pool *pool);
int kipu_pool_size(const kipu_pool *pool);

/* Runs task(arg, worker) on `n_workers` workers (capped by the pool's size and kipu_cpu_usable()) and returns when all are done.
 * If a thread cannot be started the task runs with fewer workers. */
kipu_status kipu_pool_run(kipu_pool *pool, int n_workers, kipu_task task, void *arg, kipu_error *err);

/* Inside a task: returns when every worker of the task has arrived. Writes before it are visible to all after it. */
void kipu_barrier(const kipu_worker *worker);

#endif
