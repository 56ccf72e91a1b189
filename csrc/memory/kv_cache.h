/* One KV cache: cells, each sequence's ordered spans, slabs. memory.c holds one of them, or a base and a window cache.
 *
 * Functions without a status cannot fail. The caller holds the context's lock and has checked the arguments: sequence ids 0..63, ranges
 * half open with 0 <= p0 and p1 up to KIPU_POS_END, ubatches with n >= 0, positions >= 0 and sets that are not empty. */
#ifndef KIPU_MEMORY_KV_CACHE_H
#define KIPU_MEMORY_KV_CACHE_H

#include "memory/memory.h"
#include "memory/seq_spans.h"
#include "memory/slabs.h"

#define KIPU_POS_END (INT64_C(1) << 31)   /* behind every position */

typedef struct kipu_kv_cache {
    kipu_cells cells;
    kipu_slabs slabs;
    kipu_seq_spans seq[KIPU_MAX_SEQ];
    kipu_kv_spans view[KIPU_MAX_SEQ];     /* what kipu_memory_spans hands out */
    int32_t window;                       /* positions; a cell outside may be reused when the cache is full. 0: never */
    int32_t *placed;                      /* (n_placed) cells of the last placed ubatch, in its order */
    int32_t n_placed, placed_capacity;
    int32_t top[KIPU_MAX_SEQ];            /* largest position of each sequence before the placed ubatch; window cache only */
} kipu_kv_cache;

/* `cache` is zeroed; n_cells is a positive multiple of 16. kipu_kv_cache_free is right after a failure too. */
kipu_status kipu_kv_cache_new(kipu_kv_cache *cache, int32_t n_cells, int32_t window, kipu_error *err);
void kipu_kv_cache_free(kipu_kv_cache *cache);

void kipu_kv_cache_clear(kipu_kv_cache *cache);
void kipu_kv_cache_rm(kipu_kv_cache *cache, int32_t seq, int64_t p0, int64_t p1);
/* Room for the copy first (KIPU_E_MEMORY: nothing changed), then the copy. */
kipu_status kipu_kv_cache_cp_reserve(kipu_kv_cache *cache, int32_t src, int32_t dst, int64_t p0, int64_t p1, kipu_error *err);
void kipu_kv_cache_cp(kipu_kv_cache *cache, int32_t src, int32_t dst, int64_t p0, int64_t p1);

/* Removes ids from a filled cell and from the lists of these sequences. */
void kipu_kv_cache_drop(kipu_kv_cache *cache, int32_t cell, uint64_t seqs);
/* The placed ubatch can no longer be undone; slabs that became empty are given back. Ends every operation. */
void kipu_kv_cache_settle(kipu_kv_cache *cache);

/* place.c. Is there room for these ubatches, one after the other? Changes nothing. */
bool kipu_kv_cache_fits(const kipu_kv_cache *cache, const kipu_memory_ubatch *ubatches, int32_t count);
/* Placing an ubatch that fits has three steps, each for all caches before the next, so that a failure changes nothing:
 * memory for lists; empty cells with their slabs (undone here where that fails); reuse, which cannot fail. */
kipu_status kipu_kv_cache_reserve(kipu_kv_cache *cache, const kipu_memory_ubatch *ubatch, kipu_error *err);
kipu_status kipu_kv_cache_place_empty(kipu_kv_cache *cache, const kipu_memory_ubatch *ubatch, kipu_error *err);
void kipu_kv_cache_place_reused(kipu_kv_cache *cache, const kipu_memory_ubatch *ubatch);
void kipu_kv_cache_undo(kipu_kv_cache *cache);

/* reuse.c. Notes the largest positions that decide, during the next ubatch, what may be reused. */
void kipu_kv_cache_note_tops(kipu_kv_cache *cache);
/* How far `pos` is behind the largest position of each of `seqs`, the least of them. Negative where a sequence was empty. */
int64_t kipu_behind(const int32_t *top, int32_t pos, uint64_t seqs);
/* From this far behind on a position is outside of the window of the next one. A window of 1 would let go of the last position. */
static inline int64_t kipu_reusable_behind(const kipu_kv_cache *cache) { return cache->window > 2 ? cache->window - 1 : 1; }
/* Cells that may be reused when the sequences' largest positions are `top`, counted up to `enough`. */
int64_t kipu_kv_cache_count_reusable(const kipu_kv_cache *cache, const int32_t *top, int64_t enough);
/* The reusable cell that is farthest behind, -1 if there is none. */
int32_t kipu_kv_cache_farthest(const kipu_kv_cache *cache);
/* Empties a cell whose number shall be passed on (returned). Each of its sequences also loses all earlier positions: no gaps. */
int32_t kipu_kv_cache_evict(kipu_kv_cache *cache, int32_t cell);

#endif
