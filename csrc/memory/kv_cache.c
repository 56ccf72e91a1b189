#include "memory/kv_cache.h"

#include <string.h>
#include "base/memory_alloc.h"

kipu_status kipu_kv_cache_new(kipu_kv_cache *cache, int32_t n_cells, int32_t window, kipu_error *err) {
    cache->window = window;
    bool made = kipu_cells_new(&cache->cells, n_cells) && kipu_slabs_new(&cache->slabs, n_cells);
    KIPU_REQUIRE(made, err, KIPU_E_MEMORY, "no memory for the table of %d cells", n_cells);
    return KIPU_OK;
}

void kipu_kv_cache_free(kipu_kv_cache *cache) {
    for (int s = 0; s < KIPU_MAX_SEQ; s++) kipu_seq_spans_free(&cache->seq[s]);
    kipu_slabs_free(&cache->slabs);
    kipu_cells_free(&cache->cells);
    kipu_free(cache->placed);
    memset(cache, 0, sizeof *cache);
}

void kipu_kv_cache_clear(kipu_kv_cache *cache) {
    for (int s = 0; s < KIPU_MAX_SEQ; s++) kipu_seq_spans_free(&cache->seq[s]);
    kipu_cells_clear(&cache->cells);
    kipu_slabs_trim(&cache->slabs, &cache->cells, 0);
    cache->n_placed = 0;
}

void kipu_kv_cache_settle(kipu_kv_cache *cache) {
    kipu_slabs_trim(&cache->slabs, &cache->cells, 1);
    cache->n_placed = 0;
}

void kipu_kv_cache_rm(kipu_kv_cache *cache, int32_t seq, int64_t p0, int64_t p1) {
    kipu_seq_spans_cut(&cache->seq[seq], &cache->cells, UINT64_C(1) << seq, p0, p1);
}

kipu_status kipu_kv_cache_cp_reserve(kipu_kv_cache *cache, int32_t src, int32_t dst, int64_t p0, int64_t p1, kipu_error *err) {
    const kipu_seq_spans *from = &cache->seq[src];
    int64_t spans = 0;   /* a span to copy makes the target's rounds of its group one more at most */
    for (int32_t i = kipu_seq_spans_from(from, p0); i < from->count && kipu_span_chunk(&from->span[i]) < p1; i++)
        spans += kipu_span_lanes(&from->span[i], p0, p1) != 0;
    bool room = kipu_seq_spans_reserve(&cache->seq[dst], spans);
    KIPU_REQUIRE(room, err, KIPU_E_MEMORY, "no memory to copy the positions of sequence %d to sequence %d", src, dst);
    return KIPU_OK;
}

void kipu_kv_cache_cp(kipu_kv_cache *cache, int32_t src, int32_t dst, int64_t p0, int64_t p1) {
    const kipu_seq_spans *from = &cache->seq[src];
    uint64_t id = UINT64_C(1) << dst;
    for (int32_t i = kipu_seq_spans_from(from, p0); i < from->count && kipu_span_chunk(&from->span[i]) < p1; i++) {
        for (uint32_t rest = kipu_span_lanes(&from->span[i], p0, p1); rest; rest &= rest - 1) {
            int32_t cell = from->span[i].cells[__builtin_ctz(rest)];
            if (cache->cells.seqs[cell] & id) continue;   /* copied before: a position must not count twice */
            cache->cells.seqs[cell] |= id;
            kipu_seq_spans_insert(&cache->seq[dst], &cache->cells, cell);
        }
    }
}

void kipu_kv_cache_drop(kipu_kv_cache *cache, int32_t cell, uint64_t seqs) {
    seqs &= cache->cells.seqs[cell];
    for (uint64_t rest = seqs; rest; rest &= rest - 1)
        kipu_seq_spans_remove(&cache->seq[__builtin_ctzll(rest)], &cache->cells, cell);
    kipu_cells_drop(&cache->cells, cell, seqs);
}
