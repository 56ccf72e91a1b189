/* The loop that SPM and BPE share: merge the adjacent pair of best rank, leftmost first, until no pair can be merged. n log n. */
#ifndef KIPU_TEXT_MERGE_H
#define KIPU_TEXT_MERGE_H

#include <stddef.h>
#include "text/heap.h"

#define MERGE_NEVER UINT32_MAX   /* rank of a pair that does not merge */

typedef struct merge_symbol {
    int32_t id;          /* of the symbol; meaning belongs to the caller */
    uint32_t size;       /* bytes of the text that it covers */
    uint32_t rank;       /* of the pair (this, next) */
    int32_t pair_id;     /* id of that pair when merged */
} merge_symbol;

typedef struct merge_link { uint32_t prev, next; } merge_link;

/* Rank of the pair (a, b) whose texts lie side by side from `at` on; writes the id of the result unless MERGE_NEVER. */
typedef uint32_t (*merge_pair)(const void *arg, size_t at, const merge_symbol *a, const merge_symbol *b, int32_t *id);

typedef struct merger {
    merge_pair pair;
    const void *arg;
    merge_symbol *symbol;   /* [n_symbols], filled by the caller (id and size) from kipu_merge_symbols on */
    size_t capacity;
    merge_link *link;       /* the rest is only used for long inputs */
    uint32_t *start;
    size_t long_capacity;
    u64_list heap;
} merger;

/* Room for n symbols at m->symbol; false without memory. */
bool kipu_merger_reserve(merger *m, size_t n);
/* Merges m->symbol[0 .. n), leaves the result packed at its beginning. Returns how many are left; 0 (of n > 0): no memory. */
size_t kipu_merge(merger *m, size_t n);
void kipu_merger_free(merger *m);

#endif
