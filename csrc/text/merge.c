#include "text/merge.h"

enum { SHORT = 48 };   /* up to here looking at all ranks beats a queue; words are shorter */

bool kipu_merger_reserve(merger *m, size_t n) {
    void *symbol = m->symbol;
    bool ok = grow(&symbol, &m->capacity, n, sizeof *m->symbol);
    m->symbol = symbol;
    return ok;
}

void kipu_merger_free(merger *m) {
    kipu_free(m->symbol);
    kipu_free(m->link);
    kipu_free(m->start);
    kipu_free(m->heap.data);
    *m = (merger){0};
}

static void rate(merger *m, size_t at, merge_symbol *a, const merge_symbol *b) {
    a->rank = m->pair(m->arg, at, a, b, &a->pair_id);
}

static size_t merge_short(merger *m, size_t n) {
    merge_symbol *s = m->symbol;
    for (size_t i = 0, at = 0; i + 1 < n; at += s[i++].size) rate(m, at, &s[i], &s[i + 1]);
    for (s[n - 1].rank = MERGE_NEVER; n > 1;) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++) if (s[i].rank < s[best].rank) best = i;
        if (s[best].rank == MERGE_NEVER) break;
        s[best].id = s[best].pair_id;
        s[best].size += s[best + 1].size;
        s[best].rank = MERGE_NEVER;
        memmove(&s[best + 1], &s[best + 2], (--n - best - 1) * sizeof *s);
        size_t at = 0;
        for (size_t i = 0; i + 1 < best; i++) at += s[i].size;
        if (best > 0) rate(m, at, &s[best - 1], &s[best]), at += s[best - 1].size;
        if (best + 1 < n) rate(m, at, &s[best], &s[best + 1]);
    }
    return n;
}

static bool reserve_long(merger *m, size_t n) {
    if (n <= m->long_capacity) return true;
    void *link = m->link, *start = m->start;
    size_t links = m->long_capacity, starts = m->long_capacity;
    bool ok = grow(&link, &links, n, sizeof *m->link) && grow(&start, &starts, n, sizeof *m->start);
    m->link = link;
    m->start = start;
    if (ok) m->long_capacity = links;
    return ok;
}

/* Rates the pair that begins with symbol i and puts it into the queue. */
static bool offer(merger *m, size_t n, size_t i) {
    size_t next = m->link[i].next;
    m->symbol[i].rank = MERGE_NEVER;
    if (next >= n) return true;
    rate(m, m->start[i], &m->symbol[i], &m->symbol[next]);
    return m->symbol[i].rank == MERGE_NEVER || heap_push(&m->heap, heap_key(m->symbol[i].rank, (uint32_t)i));
}

/* The right one of a pair becomes part of the left one: size 0 and out of the chain. */
static void join(merger *m, size_t n, size_t i) {
    merge_symbol *s = m->symbol;
    size_t next = m->link[i].next;
    s[i].id = s[i].pair_id;
    s[i].size += s[next].size;
    s[next] = (merge_symbol){.rank = MERGE_NEVER};
    m->link[i].next = m->link[next].next;
    if (m->link[i].next < n) m->link[m->link[i].next].prev = (uint32_t)i;
}

static size_t pack(merge_symbol *s, size_t n) {
    size_t left = 0;
    for (size_t i = 0; i < n; i++) if (s[i].size) s[left++] = s[i];
    return left;
}

/* A queue entry is out of date when the rank of its pair has changed; the pair's own entry is then also in the queue. */
static size_t merge_long(merger *m, size_t n) {
    if (!reserve_long(m, n)) return 0;
    m->heap.size = 0;
    for (size_t i = 0, at = 0; i < n; at += m->symbol[i++].size) {
        m->start[i] = (uint32_t)at;
        m->link[i] = (merge_link){(uint32_t)i - 1, (uint32_t)i + 1};
    }
    for (size_t i = 0; i < n; i++) if (!offer(m, n, i)) return 0;
    while (m->heap.size) {
        uint64_t key = heap_pop(&m->heap);
        size_t i = (uint32_t)key;
        if (m->symbol[i].rank != key >> 32) continue;
        join(m, n, i);
        if (!offer(m, n, i) || (i > 0 && !offer(m, n, m->link[i].prev))) return 0;
    }
    return pack(m->symbol, n);
}

size_t kipu_merge(merger *m, size_t n) {
    return n < 2 ? n : n <= SHORT ? merge_short(m, n) : merge_long(m, n);
}
