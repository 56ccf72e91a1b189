/* A set of numbers 0 .. size-1 whose smallest member is found in a few steps, however large the set.
 *
 *     level 0:  one bit per number                      size bits
 *     level 1:  bit w set where word w of level 0 is not zero
 *     ...       up to a level that is one word
 *
 * add, remove and first cost one step per level (three for 131072 numbers). Not thread safe; the owner of the cells locks. */
#ifndef KIPU_MEMORY_BITSET_H
#define KIPU_MEMORY_BITSET_H

#include <stdbool.h>
#include <stdint.h>

enum { KIPU_BITSET_LEVELS = 6 };   /* 64^6 numbers are more than an int32_t counts */

typedef struct kipu_bitset {
    uint64_t *level[KIPU_BITSET_LEVELS];   /* all in one allocation that starts at level[0] */
    int32_t n_levels;
    int32_t size;
} kipu_bitset;

/* The full set of `size` >= 1 numbers. False if there is no memory. */
bool kipu_bitset_new(kipu_bitset *set, int32_t size);
void kipu_bitset_free(kipu_bitset *set);
/* Makes every number a member again. */
void kipu_bitset_fill(kipu_bitset *set);

void kipu_bitset_add(kipu_bitset *set, int32_t number);
void kipu_bitset_remove(kipu_bitset *set, int32_t number);
/* The smallest member, -1 if the set is empty. */
int32_t kipu_bitset_first(const kipu_bitset *set);

static inline bool kipu_bitset_has(const kipu_bitset *set, int32_t number) { return set->level[0][number / 64] >> (number % 64) & 1; }

#endif
