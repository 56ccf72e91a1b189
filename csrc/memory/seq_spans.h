/* The ordered list of where one sequence's positions lie: the spans that attention walks, kept up to date by every operation.
 *
 * Sorted by (pos / 64, round, pos). A position that several cells hold has them in rounds 0, 1, ... in order of writing, without gaps:
 *
 *     positions 0..15, 16..31, 32..   with 5 held twice:   span 0 round 0 | span 16 round 0 | span 32 round 0 | span 0 round 1 | span 64 ..
 *
 * Appending, the least and the largest position cost the same at any length; finding a position is a binary search. */
#ifndef KIPU_MEMORY_SEQ_SPANS_H
#define KIPU_MEMORY_SEQ_SPANS_H

#include "kernels/kernels.h"   /* KIPU_CHUNK */
#include "memory/cells.h"

typedef struct kipu_seq_spans {
    kipu_kv_span *span;
    int32_t count, capacity;
} kipu_seq_spans;

/* Makes room for `more` spans. An insertion needs one at most, and so do all cells of ascending positions of one group of sixteen.
 * False if there is no memory; the list is unchanged then. */
bool kipu_seq_spans_reserve(kipu_seq_spans *list, int64_t more);
/* Empties the list and gives its memory back. */
void kipu_seq_spans_free(kipu_seq_spans *list);

/* A filled cell at its position and round. Room is reserved. */
void kipu_seq_spans_insert(kipu_seq_spans *list, const kipu_cells *cells, int32_t cell);
/* One cell that is in the list. */
void kipu_seq_spans_remove(kipu_seq_spans *list, const kipu_cells *cells, int32_t cell);
/* All positions in [p0, p1); the cells lose the ids `seq` and may become empty. */
void kipu_seq_spans_cut(kipu_seq_spans *list, kipu_cells *cells, uint64_t seq, int64_t p0, int64_t p1);

/* The span of a position's group of sixteen in a round, NULL if there is none. */
const kipu_kv_span *kipu_seq_spans_find(const kipu_seq_spans *list, int32_t pos, int32_t round);
/* Index of the first span with positions >= pos rounded down to 64. */
int32_t kipu_seq_spans_from(const kipu_seq_spans *list, int64_t pos);
/* -1 if the list is empty. */
int32_t kipu_seq_spans_min(const kipu_seq_spans *list);
int32_t kipu_seq_spans_max(const kipu_seq_spans *list);

/* First position of the chunk of 64 a span is in. A list ascends from chunk to chunk; inside, the rounds start over. */
static inline int32_t kipu_span_chunk(const kipu_kv_span *span) { return span->pos - span->pos % KIPU_CHUNK; }

/* The lanes of a span whose positions are in [p0, p1). */
static inline uint16_t kipu_span_lanes(const kipu_kv_span *span, int64_t p0, int64_t p1) {
    int64_t lo = p0 - span->pos, hi = p1 - span->pos;
    if (lo < 0) lo = 0;
    if (hi > KIPU_BLOCK_CELLS) hi = KIPU_BLOCK_CELLS;
    return lo >= hi ? 0 : (uint16_t)(span->lanes & ((1u << hi) - (1u << lo)));
}

#endif
