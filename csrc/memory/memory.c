#include "memory/memory.h"

#include <string.h>
#include "base/memory_alloc.h"
#include "memory/kv_cache.h"
#include "memory/memory_struct.h"
#include "quants/formats.h"

/* ---- made and freed ---- */

static kipu_status check_sizes(const kipu_memory_params *p, kipu_error *err) {
    const uint32_t limit = INT32_MAX - KIPU_SLAB_CELLS;
    KIPU_REQUIRE(p->n_cells > 0 && p->n_cells <= limit && p->n_cells % KIPU_BLOCK_CELLS == 0, err, KIPU_E_ARG,
                 "n_cells must be a multiple of %d in [%d, %u], got %u", KIPU_BLOCK_CELLS, KIPU_BLOCK_CELLS, limit, p->n_cells);
    KIPU_REQUIRE(p->n_cells_window <= limit && p->n_cells_window % KIPU_BLOCK_CELLS == 0, err, KIPU_E_ARG,
                 "n_cells_window must be a multiple of %d in [0, %u], got %u", KIPU_BLOCK_CELLS, limit, p->n_cells_window);
    KIPU_REQUIRE(p->n_cells_window == 0 || (p->n_swa > 0 && p->n_swa <= INT32_MAX), err, KIPU_E_ARG,
                 "n_swa must be in [1, %d] for a window cache, got %u", INT32_MAX, p->n_swa);
    KIPU_REQUIRE(p->n_layer >= 0 && (p->n_layer == 0 || p->layers), err, KIPU_E_ARG, "n_layer is %d, layers %s", p->n_layer,
                 p->layers ? "given" : "missing");
    return KIPU_OK;
}

static kipu_status check_type(int32_t type, const char *name, kipu_error *err) {
    KIPU_REQUIRE(type == KIPU_F16 || type == KIPU_F32, err, KIPU_E_UNSUPPORTED, "%s must be F16 or F32, got type %d", name, type);
    return KIPU_OK;
}

static kipu_status add_layer(kipu_memory *m, const kipu_memory_params *p, int32_t il, kipu_error *err) {
    const kipu_memory_layer *l = &p->layers[il];
    KIPU_REQUIRE(l->n_embd_k >= 0 && l->n_embd_v >= 0, err, KIPU_E_ARG, "layer %d: row widths must be >= 0, got %d and %d", il, l->n_embd_k,
                 l->n_embd_v);
    m->in_window[il] = l->window && m->pair;
    m->layers[il] = (kipu_kv_layer){.n_embd_k = l->n_embd_k, .n_embd_v = l->n_embd_v, .type_k = p->type_k, .type_v = p->type_v};
    bool added = kipu_slabs_add_layer(&kipu_memory_cache_mut(m, m->in_window[il])->slabs, &m->layers[il]);
    KIPU_REQUIRE(added, err, KIPU_E_ARG, "layer %d: %d cells of its rows exceed the address space", il, KIPU_SLAB_CELLS);
    return KIPU_OK;
}

static kipu_status build(kipu_memory *m, const kipu_memory_params *p, kipu_error *err) {
    m->pair = p->n_cells_window > 0;
    m->n_swa = m->pair ? (int32_t)p->n_swa : 0;
    m->n_layer = p->n_layer;
    KIPU_TRY(kipu_kv_cache_new(&m->cache[0], (int32_t)p->n_cells, 0, err));
    if (m->pair) KIPU_TRY(kipu_kv_cache_new(&m->cache[1], (int32_t)p->n_cells_window, m->n_swa, err));
    size_t n = (size_t)p->n_layer + 1;   /* never an empty allocation */
    m->layers = kipu_alloc_array(n, sizeof *m->layers);
    m->in_window = kipu_alloc_array(n, sizeof *m->in_window);
    KIPU_REQUIRE(m->layers && m->in_window, err, KIPU_E_MEMORY, "no memory for the addresses of %d layers", p->n_layer);
    for (int32_t il = 0; il < p->n_layer; il++) KIPU_TRY(add_layer(m, p, il, err));
    return KIPU_OK;
}

kipu_status kipu_memory_new(kipu_memory **out, const kipu_memory_params *params, kipu_error *err) {
    KIPU_TRY(check_sizes(params, err));
    KIPU_TRY(check_type(params->type_k, "type_k", err));
    KIPU_TRY(check_type(params->type_v, "type_v", err));
    kipu_memory *m = kipu_alloc(sizeof *m);
    KIPU_REQUIRE(m, err, KIPU_E_MEMORY, "no memory for a memory");
    kipu_status status = build(m, params, err);
    if (status == KIPU_OK) *out = m;
    else kipu_memory_free(m);
    return status;
}

void kipu_memory_free(kipu_memory *m) {
    if (!m) return;
    for (int c = 0; c < 2; c++) kipu_kv_cache_free(&m->cache[c]);
    kipu_free(m->layers);
    kipu_free(m->in_window);
    kipu_free(m);
}

/* ---- sequences: every operation goes to both caches ---- */

static kipu_status check_seq(int32_t seq, const char *name, kipu_error *err) {
    KIPU_REQUIRE(seq >= 0 && seq < KIPU_MAX_SEQ, err, KIPU_E_ARG, "%s must be in [0, %d), got %d", name, KIPU_MAX_SEQ, seq);
    return KIPU_OK;
}

static int64_t range_start(int32_t p0) { return p0 < 0 ? 0 : p0; }
static int64_t range_end(int32_t p1) { return p1 < 0 ? KIPU_POS_END : p1; }

static int n_caches(const kipu_memory *m) { return m->pair ? 2 : 1; }

/* Takes a range away from every sequence of a set. */
static void remove_range(kipu_memory *m, uint64_t seqs, int32_t p0, int32_t p1) {
    for (int c = 0; c < n_caches(m); c++) {
        for (uint64_t rest = seqs; rest; rest &= rest - 1)
            kipu_kv_cache_rm(&m->cache[c], __builtin_ctzll(rest), range_start(p0), range_end(p1));
        kipu_kv_cache_settle(&m->cache[c]);
    }
}

void kipu_memory_clear(kipu_memory *m, bool data) {
    (void)data;   /* the slabs go either way, and with them what they held */
    for (int c = 0; c < n_caches(m); c++) kipu_kv_cache_clear(&m->cache[c]);
}

kipu_status kipu_memory_seq_rm(kipu_memory *m, int32_t seq, int32_t p0, int32_t p1, bool *removed, kipu_error *err) {
    if (seq != -1) KIPU_TRY(check_seq(seq, "seq", err));
    remove_range(m, seq < 0 ? UINT64_MAX : UINT64_C(1) << seq, p0, p1);
    if (removed) *removed = true;
    return KIPU_OK;
}

kipu_status kipu_memory_seq_cp(kipu_memory *m, int32_t src, int32_t dst, int32_t p0, int32_t p1, kipu_error *err) {
    KIPU_TRY(check_seq(src, "src", err));
    KIPU_TRY(check_seq(dst, "dst", err));
    if (src == dst) return KIPU_OK;
    int64_t start = range_start(p0), end = range_end(p1);
    for (int c = 0; c < n_caches(m); c++) KIPU_TRY(kipu_kv_cache_cp_reserve(&m->cache[c], src, dst, start, end, err));
    for (int c = 0; c < n_caches(m); c++) {
        kipu_kv_cache_cp(&m->cache[c], src, dst, start, end);
        kipu_kv_cache_settle(&m->cache[c]);
    }
    return KIPU_OK;
}

kipu_status kipu_memory_seq_keep(kipu_memory *m, int32_t seq, kipu_error *err) {
    KIPU_TRY(check_seq(seq, "seq", err));
    remove_range(m, ~(UINT64_C(1) << seq), -1, -1);
    return KIPU_OK;
}

int32_t kipu_memory_pos_min(const kipu_memory *m, int32_t seq) {
    return seq < 0 || seq >= KIPU_MAX_SEQ ? -1 : kipu_seq_spans_min(&kipu_memory_cache(m, true)->seq[seq]);
}

int32_t kipu_memory_pos_max(const kipu_memory *m, int32_t seq) {
    return seq < 0 || seq >= KIPU_MAX_SEQ ? -1 : kipu_seq_spans_max(&kipu_memory_cache(m, true)->seq[seq]);
}

int64_t kipu_memory_n_tokens(const kipu_memory *m, int32_t n_seq_max) {
    int64_t n = 0;
    for (int32_t s = 0; s < n_seq_max && s < KIPU_MAX_SEQ; s++)
        if (kipu_memory_pos_max(m, s) >= 0) n += (int64_t)kipu_memory_pos_max(m, s) - kipu_memory_pos_min(m, s) + 1;
    return n;
}

uint32_t kipu_memory_used_cells(const kipu_memory *m) { return (uint32_t)m->cache[0].cells.used; }
uint32_t kipu_memory_size(const kipu_memory *m) { return (uint32_t)m->cache[0].cells.size; }
bool kipu_memory_can_shift(const kipu_memory *m) { return !m->pair || m->cache[0].cells.size == m->cache[1].cells.size; }

/* ---- placing ---- */

static kipu_status check_ubatches(const kipu_memory_ubatch *ubatches, int32_t count, kipu_error *err) {
    for (int32_t k = 0; k < count; k++) {
        KIPU_REQUIRE(ubatches[k].n >= 0, err, KIPU_E_ARG, "ubatch %d has %d tokens", k, ubatches[k].n);
        for (int32_t i = 0; i < ubatches[k].n; i++)
            KIPU_REQUIRE(ubatches[k].pos[i] >= 0 && ubatches[k].seqs[i], err, KIPU_E_ARG, "token %d of ubatch %d: position %d, %s", i, k,
                         ubatches[k].pos[i], ubatches[k].seqs[i] ? "in a sequence" : "in no sequence");
    }
    return KIPU_OK;
}

kipu_status kipu_memory_fit(kipu_memory *m, const kipu_memory_ubatch *ubatches, int32_t count, kipu_error *err) {
    KIPU_TRY(check_ubatches(ubatches, count, err));
    for (int c = 0; c < n_caches(m); c++) {
        const kipu_cells *cells = &m->cache[c].cells;
        bool fits = kipu_kv_cache_fits(&m->cache[c], ubatches, count);
        KIPU_REQUIRE(fits, err, KIPU_E_FULL, "%d of %d cells of the %s are filled: no room for the batch", cells->used, cells->size,
                     c ? "window cache" : "cache");
    }
    return KIPU_OK;
}

kipu_status kipu_memory_place(kipu_memory *m, const kipu_memory_ubatch *ubatch, kipu_error *err) {
    for (int c = 0; c < n_caches(m); c++) m->cache[c].n_placed = 0;   /* also after a failure: undo must not meet the ubatch before */
    KIPU_TRY(kipu_memory_fit(m, ubatch, 1, err));
    for (int c = 0; c < n_caches(m); c++) KIPU_TRY(kipu_kv_cache_reserve(&m->cache[c], ubatch, err));
    for (int c = 0; c < n_caches(m); c++) {
        kipu_status status = kipu_kv_cache_place_empty(&m->cache[c], ubatch, err);
        if (status == KIPU_OK) continue;
        if (c) kipu_kv_cache_undo(&m->cache[0]);
        return status;
    }
    if (m->pair) kipu_kv_cache_place_reused(&m->cache[1], ubatch);
    return KIPU_OK;
}

void kipu_memory_undo(kipu_memory *m) {
    for (int c = 0; c < n_caches(m); c++) kipu_kv_cache_undo(&m->cache[c]);
}

/* ---- what the forward pass reads ---- */

const int32_t *kipu_memory_cells(const kipu_memory *m, int32_t il) { return kipu_memory_cache(m, m->in_window[il])->placed; }

const kipu_kv_layer *kipu_memory_layer_view(const kipu_memory *m, int32_t il) { return &m->layers[il]; }

kipu_status kipu_memory_spans(kipu_memory *m, int32_t il, uint64_t seqs, const kipu_kv_spans **spans, kipu_error *err) {
    KIPU_REQUIRE(il >= 0 && il < m->n_layer, err, KIPU_E_ARG, "layer must be in [0, %d), got %d", m->n_layer, il);
    kipu_kv_cache *cache = kipu_memory_cache_mut(m, m->in_window[il]);
    for (uint64_t rest = seqs; rest; rest &= rest - 1) {
        int s = __builtin_ctzll(rest);
        cache->view[s] = (kipu_kv_spans){.span = cache->seq[s].span, .count = cache->seq[s].count};
    }
    *spans = cache->view;
    return KIPU_OK;
}

size_t kipu_memory_bytes(const kipu_memory *m) {
    size_t bytes = 0;
    for (int c = 0; c < n_caches(m); c++) bytes += (size_t)m->cache[c].slabs.held * m->cache[c].slabs.bytes;
    return bytes;
}
