#include "ops/attention_walk.h"

#include <string.h>

static size_t k_bytes(const kipu_attn_head *head) { return (size_t)head->d_k * KIPU_BLOCK_CELLS * kipu_kv_element(head->type_k); }
static size_t v_bytes(const kipu_attn_head *head) { return (size_t)head->d_v * kipu_kv_element(head->type_v); }

/* Four K blocks and 64 V rows. */
size_t kipu_attn_gather_bytes(const kipu_attn_head *head) { return 4 * k_bytes(head) + KIPU_CHUNK * v_bytes(head); }

kipu_attn_walk kipu_attn_walk_start(const kipu_kv_layer *layer, const kipu_attn_head *head, int32_t kv_head, const kipu_kv_spans *spans,
                                    int32_t begin, int32_t end, char *gather) {
    kipu_attn_walk w = {.layer = layer, .head = head, .kv_head = kv_head, .gather = gather};
    if (begin < end) {
        w.next = spans->span + begin;
        w.end = spans->span + end;
    }
    return w;
}

/* This head's part of the K block and the V row of a cell. */
static const char *head_k(const kipu_attn_walk *w, int32_t block) {
    return kipu_kv_k_block(w->layer, block) + w->kv_head * k_bytes(w->head);
}

static const char *head_v(const kipu_attn_walk *w, int32_t cell) {
    return kipu_kv_v_row(w->layer, cell) + w->kv_head * v_bytes(w->head);
}

static void copy_column_half(uint16_t *to, const uint16_t *from, int32_t d) {
    for (int32_t i = 0; i < d; i++) to[i * KIPU_BLOCK_CELLS] = from[i * KIPU_BLOCK_CELLS];
}

static void copy_column_float(float *to, const float *from, int32_t d) {
    for (int32_t i = 0; i < d; i++) to[i * KIPU_BLOCK_CELLS] = from[i * KIPU_BLOCK_CELLS];
}

/* One cell of a span into lane `lane` of the gathered K block `k` and V rows `v`. */
static void gather_cell(const kipu_attn_walk *w, char *k, char *v, int lane, int32_t cell) {
    const char *from = head_k(w, cell / KIPU_BLOCK_CELLS);
    int32_t column = cell % KIPU_BLOCK_CELLS;
    if (w->head->type_k == KIPU_F16) copy_column_half((uint16_t *)k + lane, (const uint16_t *)from + column, w->head->d_k);
    else copy_column_float((float *)k + lane, (const float *)from + column, w->head->d_k);
    memcpy(v + lane * v_bytes(w->head), head_v(w, cell), v_bytes(w->head));
}

static void gather_span(kipu_attn_walk *w, const kipu_kv_span *span, int slot) {
    char *k = w->gather + slot * k_bytes(w->head);
    char *v = w->gather + 4 * k_bytes(w->head) + slot * KIPU_BLOCK_CELLS * v_bytes(w->head);
    for (int lane = 0; lane < KIPU_BLOCK_CELLS; lane++)
        if (span->lanes >> lane & 1) gather_cell(w, k, v, lane, span->cells[lane]);
    w->chunk.k[slot] = k;
    w->chunk.v[slot] = v;
}

static void point_to_span(kipu_attn_walk *w, const kipu_kv_span *span, int slot) {
    w->chunk.k[slot] = head_k(w, span->block);
    w->chunk.v[slot] = head_v(w, span->block * KIPU_BLOCK_CELLS);
}

/* Spans [first, w->next) form one chunk. V rows of a chunk have one stride, so one scattered span makes all of them be gathered. */
static void build_chunk(kipu_attn_walk *w, const kipu_kv_span *first) {
    bool scattered = false;
    for (const kipu_kv_span *s = first; s < w->next; s++) scattered |= s->block < 0 && s->lanes;
    w->chunk = (kipu_attn_chunk){.v_stride = scattered ? v_bytes(w->head) : w->layer->n_embd_v * kipu_kv_element(w->layer->type_v)};
    for (const kipu_kv_span *s = first; s < w->next; s++) {
        int slot = (s->pos - w->pos) / KIPU_BLOCK_CELLS;
        if (!s->lanes) continue;
        if (scattered) gather_span(w, s, slot);
        else point_to_span(w, s, slot);
        w->chunk.present |= (uint64_t)s->lanes << (slot * KIPU_BLOCK_CELLS);
    }
}

bool kipu_attn_walk_next(kipu_attn_walk *w) {
    if (w->next == w->end) return false;
    const kipu_kv_span *first = w->next;
    w->pos = first->pos - first->pos % KIPU_CHUNK;
    do w->next++;
    while (w->next < w->end && w->next->pos - w->pos < KIPU_CHUNK && w->next->round == first->round);
    build_chunk(w, first);
    return true;
}
