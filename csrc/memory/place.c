/* Where tokens go: the sequence's block, an empty block, any empty cell, a cell behind every window. docs/decisions/0003-placement.md.
 *
 * "Room" of a window cache never depends on which cells were reused before: a cell counts as taken exactly while one of its sequences
 * still has it in the window of its next position, and reuse only takes positions that are outside. So kipu_kv_cache_fits counts. */
#include "memory/kv_cache.h"

#include <string.h>
#include "base/memory_alloc.h"

static void raise_tops(int32_t *top, const kipu_memory_ubatch *ubatch) {
    for (int32_t i = 0; i < ubatch->n; i++)
        for (uint64_t rest = ubatch->seqs[i]; rest; rest &= rest - 1) {
            int s = __builtin_ctzll(rest);
            if (top[s] < ubatch->pos[i]) top[s] = ubatch->pos[i];
        }
}

static int64_t count_new_reusable(const kipu_kv_cache *cache, const kipu_memory_ubatch *ubatches, int32_t count, const int32_t *top) {
    int64_t far = kipu_reusable_behind(cache), n = 0;
    for (int32_t k = 0; k < count; k++)
        for (int32_t i = 0; i < ubatches[k].n; i++) n += kipu_behind(top, ubatches[k].pos[i], ubatches[k].seqs[i]) >= far;
    return n;
}

bool kipu_kv_cache_fits(const kipu_kv_cache *cache, const kipu_memory_ubatch *ubatches, int32_t count) {
    int64_t empty = (int64_t)cache->cells.size - cache->cells.used, total = 0;
    for (int32_t k = 0; k < count; k++) total += ubatches[k].n;
    if (total <= empty) return true;
    if (!cache->window) return false;
    int32_t top[KIPU_MAX_SEQ];
    for (int s = 0; s < KIPU_MAX_SEQ; s++) top[s] = kipu_seq_spans_max(&cache->seq[s]);
    total = 0;
    for (int32_t k = 0; k < count; k++) {
        int64_t need = total + ubatches[k].n - empty;
        if (need > 0) need -= count_new_reusable(cache, ubatches, k, top);
        if (need > 0 && kipu_kv_cache_count_reusable(cache, top, need) < need) return false;
        total += ubatches[k].n;
        raise_tops(top, &ubatches[k]);
    }
    return true;
}

static kipu_status reserve_placed(kipu_kv_cache *cache, int32_t n, kipu_error *err) {
    if (n <= cache->placed_capacity) return KIPU_OK;
    int32_t *placed = kipu_alloc_array((size_t)n, sizeof *placed);
    KIPU_REQUIRE(placed, err, KIPU_E_MEMORY, "no memory to place %d tokens", n);
    kipu_free(cache->placed);
    cache->placed = placed;
    cache->placed_capacity = n;
    return KIPU_OK;
}

/* New spans of each sequence, at most: one for every run of ascending positions in a group of sixteen. */
static void count_runs(const kipu_memory_ubatch *ubatch, int32_t *runs) {
    int32_t last[KIPU_MAX_SEQ];
    memset(runs, 0, KIPU_MAX_SEQ * sizeof *runs);
    for (int32_t i = 0; i < ubatch->n; i++)
        for (uint64_t rest = ubatch->seqs[i]; rest; rest &= rest - 1) {
            int32_t s = __builtin_ctzll(rest), pos = ubatch->pos[i];
            runs[s] += runs[s] == 0 || pos <= last[s] || pos / KIPU_BLOCK_CELLS != last[s] / KIPU_BLOCK_CELLS;
            last[s] = pos;
        }
}

kipu_status kipu_kv_cache_reserve(kipu_kv_cache *cache, const kipu_memory_ubatch *ubatch, kipu_error *err) {
    int32_t runs[KIPU_MAX_SEQ];
    count_runs(ubatch, runs);
    for (int s = 0; s < KIPU_MAX_SEQ; s++) {
        bool room = runs[s] == 0 || kipu_seq_spans_reserve(&cache->seq[s], runs[s]);
        KIPU_REQUIRE(room, err, KIPU_E_MEMORY, "no memory for more positions of sequence %d", s);
    }
    return reserve_placed(cache, ubatch->n, err);
}

/* The position's lane in a block that all of these sequences use for its group of sixteen, if that lane is empty. The block of the
 * nearest earlier position comes first: a sequence that has parted from a shared block stays in its own. -1: none. */
static int32_t preferred_cell(const kipu_kv_cache *cache, int32_t pos, uint64_t seqs) {
    const kipu_cells *cells = &cache->cells;
    const kipu_kv_span *span = kipu_seq_spans_find(&cache->seq[__builtin_ctzll(seqs)], pos, 0);
    int32_t lane = pos % KIPU_BLOCK_CELLS;
    for (int32_t step = 1; span && step < KIPU_BLOCK_CELLS; step++) {
        int32_t i = (lane - step) & (KIPU_BLOCK_CELLS - 1), cell = span->cells[i], block = cell / KIPU_BLOCK_CELLS;
        if (cell < 0 || cell % KIPU_BLOCK_CELLS != i || cells->group[block] != pos / KIPU_BLOCK_CELLS) continue;
        if ((cells->seqs[cell] & seqs) != seqs) continue;
        int32_t mine = block * KIPU_BLOCK_CELLS + lane;
        if (kipu_bitset_has(&cells->empty, mine)) return mine;
    }
    return -1;
}

static int32_t choose_empty(const kipu_kv_cache *cache, int32_t pos, uint64_t seqs) {
    int32_t cell = preferred_cell(cache, pos, seqs);
    if (cell >= 0) return cell;
    int32_t block = kipu_bitset_first(&cache->cells.empty_blocks);
    return block >= 0 ? block * KIPU_BLOCK_CELLS + pos % KIPU_BLOCK_CELLS : kipu_bitset_first(&cache->cells.empty);
}

static void take(kipu_kv_cache *cache, int32_t cell, int32_t pos, uint64_t seqs, int32_t number) {
    kipu_cells_fill(&cache->cells, cell, pos, seqs, number);
    for (uint64_t rest = seqs; rest; rest &= rest - 1) kipu_seq_spans_insert(&cache->seq[__builtin_ctzll(rest)], &cache->cells, cell);
    cache->placed[cache->n_placed++] = cell;
}

kipu_status kipu_kv_cache_place_empty(kipu_kv_cache *cache, const kipu_memory_ubatch *ubatch, kipu_error *err) {
    if (cache->window) kipu_kv_cache_note_tops(cache);
    for (int32_t i = 0; i < ubatch->n && cache->cells.used < cache->cells.size; i++) {
        int32_t cell = choose_empty(cache, ubatch->pos[i], ubatch->seqs[i]);
        take(cache, cell, ubatch->pos[i], ubatch->seqs[i], -1);
        if (kipu_slabs_ensure(&cache->slabs, cell)) continue;
        kipu_kv_cache_undo(cache);
        return kipu_fail(err, KIPU_E_MEMORY, "no memory for %zu bytes of keys and values", cache->slabs.bytes);
    }
    return KIPU_OK;
}

/* Every cell was filled when this begins, so every slab is there. Evicting one may empty more: those come first again. */
void kipu_kv_cache_place_reused(kipu_kv_cache *cache, const kipu_memory_ubatch *ubatch) {
    for (int32_t i = cache->n_placed; i < ubatch->n; i++) {
        bool full = cache->cells.used == cache->cells.size;
        int32_t cell = full ? kipu_kv_cache_farthest(cache) : choose_empty(cache, ubatch->pos[i], ubatch->seqs[i]);
        int32_t number = full ? kipu_kv_cache_evict(cache, cell) : -1;
        take(cache, cell, ubatch->pos[i], ubatch->seqs[i], number);
    }
}

void kipu_kv_cache_undo(kipu_kv_cache *cache) {
    for (int32_t i = cache->n_placed - 1; i >= 0; i--) kipu_kv_cache_drop(cache, cache->placed[i], cache->cells.seqs[cache->placed[i]]);
    kipu_kv_cache_settle(cache);
}
