/* Special tokens are cut out of a text before the tokenizer sees it: longest text first, equal lengths by id, each from left to right. */
#include <stdlib.h>
#include "text/heap.h"
#include "text/vocab_internal.h"

/* ---- the index: cut tokens in the order of their texts */

typedef struct cut_text { kipu_text text; int32_t id; } cut_text;

static int by_text(const void *a, const void *b) {
    kipu_text x = ((const cut_text *)a)->text, y = ((const cut_text *)b)->text;
    int order = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return order ? order : (x.size > y.size) - (x.size < y.size);
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* keys[i]: (bytes of the longest token - bytes of this one) << 32 | id, sorted: the place of a token in it is its rank. */
static void rank(kipu_vocab *v, uint64_t *keys, uint32_t *rank_of_id) {
    for (size_t i = 0; i < v->n_cut; i++) {
        int32_t id = v->cut[i].id;
        keys[i] = (uint64_t)(v->longest - v->names.text[id].size) << 32 | (uint32_t)id;
    }
    qsort(keys, v->n_cut, sizeof *keys, by_number);
    for (size_t i = 0; i < v->n_cut; i++) {
        v->cut_by_rank[i] = (int32_t)(uint32_t)keys[i];
        rank_of_id[(uint32_t)keys[i]] = (uint32_t)i;
    }
    for (size_t i = 0; i < v->n_cut; i++) v->cut[i].rank = rank_of_id[v->cut[i].id];
}

static void index_first_bytes(kipu_vocab *v) {
    size_t i = 0;
    for (int b = 0; b < 256; b++) {
        v->cut_first[b] = (uint32_t)i;
        while (i < v->n_cut && (unsigned char)v->names.text[v->cut[i].id].data[0] == b) i++;
    }
    v->cut_first[256] = (uint32_t)i;
}

static size_t collect(const kipu_vocab *v, cut_text *out) {
    size_t n = 0;
    for (int32_t id = 0; id < v->n_tokens; id++) {
        if (!(v->attr[id] & ATTR_CUT)) continue;
        if (out) out[n] = (cut_text){v->names.text[id], id};
        n++;
    }
    return n;
}

bool kipu_cut_index(kipu_vocab *v) {
    v->n_cut = collect(v, NULL);
    if (!v->n_cut) return true;
    cut_text *sorted = kipu_alloc_array(v->n_cut, sizeof *sorted);
    uint64_t *keys = kipu_alloc_array(v->n_cut, sizeof *keys);
    uint32_t *rank_of_id = kipu_alloc_array((size_t)v->n_tokens, sizeof *rank_of_id);
    v->cut = kipu_alloc_array(v->n_cut, sizeof *v->cut);
    v->cut_by_rank = kipu_alloc_array(v->n_cut, sizeof *v->cut_by_rank);
    bool ok = sorted && keys && rank_of_id && v->cut && v->cut_by_rank;
    if (ok) {
        qsort(sorted, collect(v, sorted), sizeof *sorted, by_text);
        for (size_t i = 0; i < v->n_cut; i++) v->cut[i].id = sorted[i].id;
        rank(v, keys, rank_of_id);
        index_first_bytes(v);
    }
    kipu_free(sorted);
    kipu_free(keys);
    kipu_free(rank_of_id);
    return ok;
}

/* First of the cut tokens low..high-1 whose byte at `depth` is >= byte; all of them are longer than depth and equal before it. */
static size_t lower_bound(const kipu_vocab *v, size_t low, size_t high, size_t depth, int byte) {
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((unsigned char)v->names.text[v->cut[middle].id].data[depth] < byte) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The longest wanted token that text[0 .. size) begins with; NULL: none. Walks down the sorted list byte by byte like down a trie. */
static const cut_token *longest_at(const kipu_vocab *v, const char *text, size_t size, int unwanted) {
    const cut_token *best = NULL;
    size_t low = 0, high = v->n_cut;
    for (size_t depth = 0; depth < size; depth++) {
        int byte = (unsigned char)text[depth];
        size_t from = depth ? lower_bound(v, low, high, depth, byte) : v->cut_first[byte];
        high = depth ? lower_bound(v, from, high, depth, byte + 1) : v->cut_first[byte + 1];
        low = from;
        if (low == high) break;
        const cut_token *first = &v->cut[low];
        if (v->names.text[first->id].size > depth + 1) continue;
        if (!(v->attr[first->id] & unwanted)) best = first;
        if (++low == high) break;
    }
    return best;
}

/* ---- cutting one text */

enum { FREE, TOKEN, STRIPPED };   /* whom a byte belongs to: text, a token, nobody */

typedef struct cutter {
    const kipu_vocab *v;
    const char *text;
    size_t size;
    int unwanted;        /* attributes of tokens that stay text */
    uint8_t *owner;      /* [size] */
    u64_list waiting;    /* heap: rank << 32 | position of the longest token that may begin there */
    u64_list found;      /* position << 32 | id */
} cutter;

static bool find_candidates(cutter *c) {
    const uint32_t *first = c->v->cut_first;
    for (size_t at = 0; at < c->size; at++) {
        unsigned char b = (unsigned char)c->text[at];
        if (first[b] == first[b + 1]) continue;
        const cut_token *t = longest_at(c->v, c->text + at, c->size - at, c->unwanted);
        if (t && !u64_list_add(&c->waiting, heap_key(t->rank, (uint32_t)at))) return false;
    }
    heap_build(&c->waiting);
    return true;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void strip(cutter *c, size_t begin, size_t end, int attr) {
    if (attr & KIPU_ATTR_LSTRIP)
        for (size_t i = begin; i > 0 && c->owner[i - 1] == FREE && is_space(c->text[i - 1]); i--) c->owner[i - 1] = STRIPPED;
    if (attr & KIPU_ATTR_RSTRIP)
        for (size_t i = end; i < c->size && c->owner[i] == FREE && is_space(c->text[i]); i++) c->owner[i] = STRIPPED;
}

/* Takes the best candidate if its bytes are still free; else the longest token that fits in what is free there waits in its stead. */
static bool settle(cutter *c, uint64_t candidate) {
    size_t at = (uint32_t)candidate;
    int32_t id = c->v->cut_by_rank[candidate >> 32];
    size_t size = c->v->names.text[id].size, room = 0;
    while (room < size && c->owner[at + room] == FREE) room++;
    if (room < size) {
        const cut_token *t = longest_at(c->v, c->text + at, room, c->unwanted);
        return !t || heap_push(&c->waiting, heap_key(t->rank, (uint32_t)at));
    }
    memset(c->owner + at, TOKEN, size);
    strip(c, at, at + size, c->v->attr[id]);
    return u64_list_add(&c->found, (uint64_t)at << 32 | (uint32_t)id);
}

static bool add_fragment(fragment_list *out, size_t begin, size_t end, int32_t token) {
    void *data = out->data;
    bool ok = grow(&data, &out->capacity, out->size + 1, sizeof *out->data);
    out->data = data;
    if (ok) out->data[out->size++] = (fragment){begin, end, token};
    return ok;
}

static bool add_text(const cutter *c, size_t begin, size_t end, fragment_list *out) {
    while (begin < end && c->owner[begin] == STRIPPED) begin++;
    while (begin < end && c->owner[end - 1] == STRIPPED) end--;
    return begin == end || add_fragment(out, begin, end, -1);
}

static bool list_fragments(cutter *c, fragment_list *out) {
    size_t at = 0;
    qsort(c->found.data, c->found.size, sizeof *c->found.data, by_number);
    for (size_t i = 0; i < c->found.size; i++) {
        size_t begin = c->found.data[i] >> 32;
        int32_t id = (int32_t)(uint32_t)c->found.data[i];
        if (!add_text(c, at, begin, out) || !add_fragment(out, begin, begin, id)) return false;
        at = begin + c->v->names.text[id].size;
    }
    return add_text(c, at, c->size, out);
}

static bool cut_all(cutter *c, fragment_list *out) {
    c->owner = kipu_alloc(c->size);
    if (!c->owner) return false;
    while (c->waiting.size) if (!settle(c, heap_pop(&c->waiting))) return false;
    return list_fragments(c, out);
}

kipu_status kipu_cut(const kipu_vocab *v, const char *text, size_t size, bool parse_special, fragment_list *out) {
    if (!size) return KIPU_OK;
    cutter c = {.v = v, .text = text, .size = size, .unwanted = parse_special ? 0 : ATTR_SPECIAL};
    bool ok = find_candidates(&c);
    if (ok) ok = c.waiting.size ? cut_all(&c, out) : add_fragment(out, 0, size, -1);
    kipu_free(c.owner);
    kipu_free(c.waiting.data);
    kipu_free(c.found.data);
    return ok ? KIPU_OK : KIPU_E_MEMORY;
}
