/* Aligned and huge-page memory. Any thread. Sizes in bytes. */
#ifndef KIPU_BASE_MEMORY_ALLOC_H
#define KIPU_BASE_MEMORY_ALLOC_H

#include <stddef.h>

#define KIPU_CACHE_LINE 64

/* Zero-filled, aligned to 64 bytes, NULL if there is no memory (or size is absurd). Free with kipu_free. */
void *kipu_alloc(size_t size);
/* n * size with overflow check; else as kipu_alloc. */
void *kipu_alloc_array(size_t n, size_t size);
/* NULL is allowed. */
void kipu_free(void *p);

/* Zero-filled anonymous mapping aligned to 2 MiB with transparent huge pages asked for; NULL if refused. Pages are touched on first use. */
void *kipu_huge_alloc(size_t size);
/* `size` as given to kipu_huge_alloc. NULL is allowed. */
void kipu_huge_free(void *p, size_t size);

/* Tests: the n-th allocation from now (0 = the next) and all after it fail; -1 switches this off. */
void kipu_alloc_fail_after(long n);
/* Tests: only the n-th allocation from now fails. */
void kipu_alloc_fail_once(long n);

#endif
