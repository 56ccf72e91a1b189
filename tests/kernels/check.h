/* The kernel checker: every tier against ref, bit for bit. Not part of the library; one thread; prints to stdout.
 * check.c: main, options, counts. check_buffer.c: memory between guard pages. check_matmul.c, check_vector.c, check_attention.c: the
 * tests. check_time.c: speed. */
#ifndef KIPU_TESTS_KERNELS_CHECK_H
#define KIPU_TESTS_KERNELS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/kernels.h"

/* ------------------------------------------------------------------------------- cases (check.c) */

/* False if --filter was given and is no part of "tier name". */
bool check_wants(const kipu_kernels *k, const char *name);

/* Names the case that runs now, for failures and crashes. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void check_case(const char *format, ...);

/* Ends the case: counts it, prints it if it failed. */
void check_end(bool ok);

/* Bits equal, or both NaN (payloads are free). On the first difference says where and what, and returns false. */
bool check_floats(const char *what, const float *got, const float *want, size_t n);
bool check_bytes(const char *what, const void *got, const void *want, size_t n);

/* ------------------------------------------------------------------------------- random numbers (check.c), the same in every run */
uint64_t check_random(void);
int check_below(int n);                      /* 0 .. n-1 */
float check_gauss(void);
float check_special(void);                   /* NaN, infinities, zeros, subnormals, largest numbers, small integers */
void check_fill(void *p, size_t size);       /* random bytes */
void check_fill_gauss(float *x, size_t n);

/* ------------------------------------------------------------------------------- guarded memory (check_buffer.c)
 *
 *   CHECK_AT_END     | no access | canary ...... data | no access |
 *   CHECK_AT_START   | no access | data ...... canary | no access |
 *
 * data is as aligned as its size makes it (at the end), or page aligned (at the start). */
typedef enum check_place { CHECK_AT_END, CHECK_AT_START } check_place;

typedef struct check_buffer {
    void *data;
    size_t size;
    char *pages;        /* between the guards */
    size_t pages_size;
} check_buffer;

check_buffer check_alloc(size_t size, check_place place);
void check_read_only(const check_buffer *b);           /* from now on a write is a crash */
bool check_canary(const char *what, const check_buffer *b);
void check_free(check_buffer *b);

/* ------------------------------------------------------------------------------- the tests */
void check_matmul(const kipu_kernels *k, const kipu_kernels *ref);
void check_vector(const kipu_kernels *k, const kipu_kernels *ref);
void check_attention(const kipu_kernels *k, const kipu_kernels *ref);
void check_time(const kipu_kernels *k);

/* n rows of `type`, `kind` 0..5: random, subnormal scales, zero scales, largest scales, codes all 0, codes all ones (check_matmul.c). */
void check_fill_rows(void *rows, int type, int64_t k, int n_rows, int kind);

#endif
