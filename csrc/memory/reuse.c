/* Which cells of a full window cache a new token may take over: those that every one of their sequences has left behind its window. */
#include "memory/kv_cache.h"

void kipu_kv_cache_note_tops(kipu_kv_cache *cache) {
    for (int s = 0; s < KIPU_MAX_SEQ; s++) cache->top[s] = kipu_seq_spans_max(&cache->seq[s]);
}

int64_t kipu_behind(const int32_t *top, int32_t pos, uint64_t seqs) {
    int64_t least = INT64_MAX;
    for (uint64_t rest = seqs; rest; rest &= rest - 1) {
        int64_t d = (int64_t)top[__builtin_ctzll(rest)] - pos;
        if (d < least) least = d;
    }
    return least;
}

int64_t kipu_kv_cache_count_reusable(const kipu_kv_cache *cache, const int32_t *top, int64_t enough) {
    const kipu_cells *cells = &cache->cells;
    int64_t far = kipu_reusable_behind(cache), n = 0;
    for (int s = 0; s < KIPU_MAX_SEQ && n < enough; s++) {
        const kipu_seq_spans *list = &cache->seq[s];
        int64_t end = top[s] - far + 1;
        for (int32_t i = 0; i < list->count && kipu_span_chunk(&list->span[i]) < end && n < enough; i++)
            for (uint32_t rest = kipu_span_lanes(&list->span[i], 0, end); rest; rest &= rest - 1) {
                int32_t cell = list->span[i].cells[__builtin_ctz(rest)];
                bool mine = __builtin_ctzll(cells->seqs[cell]) == s;   /* shared cells count once */
                n += mine && kipu_behind(top, cells->pos[cell], cells->seqs[cell]) >= far;
            }
    }
    return n;
}

/* A sequence owns those of its cells in which no other sequence is less far: its own distance is the cell's. (The cells of the ubatch
 * that is being placed are not behind the positions noted before it, so they are never reusable.) */
static bool owned(const kipu_kv_cache *cache, int32_t cell, int s) {
    for (uint64_t rest = cache->cells.seqs[cell]; rest; rest &= rest - 1)
        if (cache->top[__builtin_ctzll(rest)] < cache->top[s]) return false;
    return true;
}

static int32_t first_owned_lane(const kipu_kv_cache *cache, const kipu_kv_span *span, uint32_t lanes, int s) {
    for (; lanes; lanes &= lanes - 1)
        if (owned(cache, span->cells[__builtin_ctz(lanes)], s)) return __builtin_ctz(lanes);
    return -1;
}

/* The lowest position in [0, end) that a sequence owns; of several cells the one written first. -1: none. */
static int32_t first_owned(const kipu_kv_cache *cache, int s, int64_t end) {
    const kipu_seq_spans *list = &cache->seq[s];
    int32_t best = -1;
    for (int32_t i = 0; i < list->count && kipu_span_chunk(&list->span[i]) < end; i++) {
        const kipu_kv_span *span = &list->span[i];
        int32_t lane = first_owned_lane(cache, span, kipu_span_lanes(span, 0, end), s);
        if (lane < 0) continue;
        best = span->cells[lane];
        end = span->pos + lane;   /* later rounds of the chunk may hold an earlier one */
    }
    return best;
}

int32_t kipu_kv_cache_farthest(const kipu_kv_cache *cache) {
    int64_t far = kipu_reusable_behind(cache);
    int32_t best = -1;
    for (int s = 0; s < KIPU_MAX_SEQ; s++) {
        int32_t cell = first_owned(cache, s, cache->top[s] - far + 1);
        if (cell < 0) continue;
        best = cell;
        far = (int64_t)cache->top[s] - cache->cells.pos[cell] + 1;   /* the next one must be farther */
    }
    return best;
}

int32_t kipu_kv_cache_evict(kipu_kv_cache *cache, int32_t cell) {
    int32_t number = cache->cells.number[cell];
    int64_t end = (int64_t)cache->cells.pos[cell] + 1;
    for (uint64_t rest = cache->cells.seqs[cell]; rest; rest &= rest - 1) kipu_kv_cache_rm(cache, __builtin_ctzll(rest), 0, end);
    return number;
}
