#define _GNU_SOURCE   /* madvise, MAP_ANONYMOUS */
#include "base/memory_alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 * 1024 * 1024 };

static atomic_long fail_after = -1;

void kipu_alloc_fail_after(long n) { atomic_store(&fail_after, n); }

static int must_fail(void) {
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    if (left < 0) return 0;
    if (left > 0) atomic_fetch_sub(&fail_after, 1);
    return left == 0;
}

/* calloc's block with the start moved to a cache line; the word before it remembers the block:
 *     | block ... | address of block | 64-byte aligned start ... |        calloc leaves large blocks untouched */
void *kipu_alloc(size_t size) {
    if (must_fail() || size > SIZE_MAX / 4) return NULL;
    char *block = calloc(1, size + 2 * KIPU_CACHE_LINE);
    if (!block) return NULL;
    void **p = (void **)(block + 2 * KIPU_CACHE_LINE - ((uintptr_t)block + KIPU_CACHE_LINE) % KIPU_CACHE_LINE);
    p[-1] = block;
    return p;
}

void *kipu_alloc_array(size_t n, size_t size) {
    if (size && n > SIZE_MAX / size) return NULL;
    return kipu_alloc(n * size);
}

void kipu_free(void *p) {
    if (p) free(((void **)p)[-1]);
}

static size_t round_pages(size_t size) { return (size + 4095) / 4096 * 4096; }

/* Maps more than asked, then gives the ends back so that the start falls on a huge page. */
void *kipu_huge_alloc(size_t size) {
    if (must_fail() || size == 0 || size > SIZE_MAX / 4) return NULL;
    size_t wanted = round_pages(size), mapped = wanted + HUGE_PAGE;
    char *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t front = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (front) munmap(p, front);
    if (mapped - front > wanted) munmap(p + front + wanted, mapped - front - wanted);
    madvise(p + front, wanted, MADV_HUGEPAGE);
    return p + front;
}

void kipu_huge_free(void *p, size_t size) {
    if (p) munmap(p, round_pages(size));
}
