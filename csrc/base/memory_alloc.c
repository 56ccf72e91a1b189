#define _GNU_SOURCE   /* madvise, MAP_ANONYMOUS */
#include "base/memory_alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    HUGE_PAGE = 2 * 1024 * 1024,
    LAZY_SIZE = 1024 * 1024,   /* larger blocks are zeroed by the system, page by page as they are used */
    LARGEST_PAGE = 64 * 1024   /* of any machine we run on: mappings are cut at multiples of it */
};

static atomic_long fail_after = -1;
static atomic_bool fail_once = false;

void kipu_alloc_fail_after(long n) {
    atomic_store(&fail_once, false);
    atomic_store(&fail_after, n);
}

void kipu_alloc_fail_once(long n) {
    atomic_store(&fail_once, true);
    atomic_store(&fail_after, n);
}

/* Counts down to 0 and stays there, or goes on to -1. */
static bool must_fail(void) {
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    while ((left > 0 || (left == 0 && atomic_load(&fail_once))) && !atomic_compare_exchange_weak(&fail_after, &left, left - 1)) {}
    return left == 0;
}

/* Large blocks give their whole pages back to the system, which hands them out again as zeros when they are used: what is asked for in
 * vain (a cache of 2^31 cells) costs address space, not memory. */
static void *zero(char *p, size_t size) {
    size_t front = (LARGEST_PAGE - (uintptr_t)p % LARGEST_PAGE) % LARGEST_PAGE;
    size_t pages = size > front ? (size - front) / LARGEST_PAGE * LARGEST_PAGE : 0;
    if (size < LAZY_SIZE || madvise(p + front, pages, MADV_DONTNEED)) return memset(p, 0, size);
    memset(p, 0, front);
    memset(p + front + pages, 0, size - front - pages);
    return p;
}

/* Exactly `size` bytes, so that a sanitizer sees the first byte behind them. */
void *kipu_alloc(size_t size) {
    void *p;
    if (must_fail() || size > PTRDIFF_MAX || posix_memalign(&p, KIPU_CACHE_LINE, size ? size : 1)) return NULL;
    return zero(p, size);
}

void *kipu_alloc_array(size_t n, size_t size) {
    if (size && n > SIZE_MAX / size) return NULL;
    return kipu_alloc(n * size);
}

void kipu_free(void *p) { free(p); }

static size_t mapped_size(size_t size) { return (size + LARGEST_PAGE - 1) / LARGEST_PAGE * LARGEST_PAGE; }

/* Maps a huge page more than asked, then gives the ends back:
 *     | front | 2 MiB boundary: wanted ... | rest | */
void *kipu_huge_alloc(size_t size) {
    if (must_fail() || size == 0 || size > PTRDIFF_MAX / 2) return NULL;
    size_t wanted = mapped_size(size), all = wanted + HUGE_PAGE;
    char *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    size_t front = (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE, rest = HUGE_PAGE - front;
    char *p = map + front;
    if (front) munmap(map, front);
    if (rest) munmap(p + wanted, rest);
    madvise(p, wanted, MADV_HUGEPAGE);   /* a wish: without huge pages it is only slower */
    return p;
}

void kipu_huge_free(void *p, size_t size) {
    if (p) munmap(p, mapped_size(size));
}
