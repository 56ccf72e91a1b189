/* Byte-pair encoding: pre-tokenize, then merge the bytes of each piece by rank. */
#include "text/byte_alphabet.h"
#include "text/memo.h"
#include "text/merge.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"
#include "text/vocab_internal.h"

/* ---- the table of merges */

/* Open addressing. Symbols are numbers of v->names; a symbol that is no token (broken vocabularies) has one behind the tokens. */
typedef struct merge_entry {
    uint64_t pair;       /* left << 32 | right, plus 1; 0 = free */
    uint32_t rank;
    int32_t id;
} merge_entry;

struct merge_table {
    merge_entry *entry;
    int shift;               /* hash >> shift = place */
    size_t mask;
    int32_t of_byte[256];    /* symbol of a byte's letter */
};

static merge_entry *find_pair(const merge_table *m, int32_t left, int32_t right) {
    uint64_t pair = ((uint64_t)left << 32 | (uint32_t)right) + 1;
    size_t at = (size_t)(pair * 0x9e3779b97f4a7c15u >> m->shift);
    while (m->entry[at].pair && m->entry[at].pair != pair) at = (at + 1) & m->mask;
    return &m->entry[at];
}

/* One line "left right"; the first blank behind the first byte divides. The first line with a pair gives its rank. */
static bool read_merge(kipu_vocab *v, kipu_text line, uint32_t rank, char *joined) {
    const char *blank = line.size > 1 ? memchr(line.data + 1, ' ', line.size - 1) : NULL;
    if (!blank) return true;
    size_t n_left = (size_t)(blank - line.data), n_right = line.size - n_left - 1;
    memcpy(joined, line.data, n_left);
    memcpy(joined + n_left, blank + 1, n_right);
    int32_t left = kipu_strings_intern(&v->names, joined, n_left);
    int32_t right = kipu_strings_intern(&v->names, joined + n_left, n_right);
    int32_t id = kipu_strings_intern(&v->names, joined, n_left + n_right);
    if (left < 0 || right < 0 || id < 0) return false;
    merge_entry *e = find_pair(v->merges, left, right);
    if (!e->pair) *e = (merge_entry){((uint64_t)left << 32 | (uint32_t)right) + 1, rank, id};
    return true;
}

static bool intern_bytes(kipu_vocab *v) {
    for (int b = 0; b < 256; b++) {
        char letter[4];
        v->merges->of_byte[b] = kipu_strings_intern(&v->names, letter, kipu_utf8_write(letter, byte_to_letter((uint8_t)b)));
        if (v->merges->of_byte[b] < 0) return false;
    }
    return true;
}

static bool merge_table_new(kipu_vocab *v, int64_t n) {
    merge_table *m = v->merges = kipu_alloc(sizeof *m);
    if (!m) return false;
    size_t slots = 64;
    for (m->shift = 58; slots < 2 * (size_t)n; slots *= 2) m->shift--;
    m->mask = slots - 1;
    m->entry = kipu_alloc_array(slots, sizeof *m->entry);
    return m->entry != NULL;
}

kipu_status kipu_bpe_read_merges(kipu_vocab *v, const kipu_text *lines, int64_t n, kipu_error *err) {
    size_t longest = 0;
    for (int64_t i = 0; i < n; i++) if (lines[i].size > longest) longest = lines[i].size;
    char *joined = n < INT32_MAX ? kipu_alloc(longest + 1) : NULL;
    bool ok = joined && kipu_strings_reserve(&v->names, v->names.size + 256) && merge_table_new(v, n) && intern_bytes(v);
    for (int64_t i = 0; ok && i < n; i++) ok = read_merge(v, lines[i], (uint32_t)i, joined);
    kipu_free(joined);
    return ok ? KIPU_OK : kipu_fail(err, KIPU_E_MEMORY, "no memory for the %lld merges of tokenizer.ggml.merges", (long long)n);
}

void kipu_bpe_free(merge_table *m) {
    if (m) kipu_free(m->entry);
    kipu_free(m);
}

/* ---- one call */

struct bpe_work {
    const kipu_vocab *v;
    uint32_t *code, *ends, *other;   /* [longest fragment] */
    uint8_t *kind;
    char *bytes;                     /* UTF-8 of a piece */
    char *letters;                   /* the same in the byte alphabet */
    merger merger;
    memo memo;
};

static uint32_t rate_pair(const void *arg, size_t at, const merge_symbol *a, const merge_symbol *b, int32_t *id) {
    (void)at;
    const merge_entry *e = find_pair(arg, a->id, b->id);
    if (!e->pair) return MERGE_NEVER;
    *id = e->id;
    return e->rank;
}

bpe_work *kipu_bpe_work_new(const kipu_vocab *v, size_t n) {
    bpe_work *w = kipu_alloc(sizeof *w);
    if (!w) return NULL;
    *w = (bpe_work){.v = v, .merger = {.pair = rate_pair, .arg = v->merges}};
    w->code = kipu_alloc_array(n, sizeof *w->code);
    w->ends = kipu_alloc_array(n, sizeof *w->ends);
    w->other = kipu_alloc_array(n, sizeof *w->other);
    w->kind = kipu_alloc_array(n, sizeof *w->kind);
    w->bytes = kipu_alloc_array(n, 3);       /* a byte becomes at most the three of U+FFFD */
    w->letters = kipu_alloc_array(n, 6);     /* a letter has at most two bytes */
    if (kipu_memo_init(&w->memo, n) && w->code && w->ends && w->other && w->kind && w->bytes && w->letters) return w;
    kipu_bpe_work_free(w);
    return NULL;
}

void kipu_bpe_work_free(bpe_work *w) {
    if (!w) return;
    kipu_free(w->code);
    kipu_free(w->ends);
    kipu_free(w->other);
    kipu_free(w->kind);
    kipu_free(w->bytes);
    kipu_free(w->letters);
    kipu_free(w->memo.entry);
    kipu_merger_free(&w->merger);
    kipu_free(w);
}

static size_t decode(bpe_work *w, const char *text, size_t size) {
    size_t n = 0;
    for (size_t at = 0; at < size; n++) {
        at += kipu_utf8_read(text + at, size - at, &w->code[n]);
        w->kind[n] = kipu_unicode_class(w->code[n]);
    }
    return n;
}

/* A symbol that is no token leaves the single bytes of its text that are tokens. */
static bool add_symbol(const kipu_vocab *v, int32_t id, id_list *out) {
    if (is_token(v, id)) return id_list_add(out, id);
    kipu_text t = v->names.text[id];
    for (size_t i = 0; i < t.size; i++) {
        int32_t byte = find_token(v, t.data + i, 1);
        if (byte >= 0 && !id_list_add(out, byte)) return false;
    }
    return true;
}

static int32_t whole_piece(const bpe_work *w, size_t size) {
    size_t n = 0;
    if (size > w->v->longest) return -1;
    for (size_t i = 0; i < size; i++) n += kipu_utf8_write(w->letters + n, byte_to_letter((uint8_t)w->bytes[i]));
    return find_token(w->v, w->letters, n);
}

static bool merge_piece(bpe_work *w, size_t size, id_list *out) {
    int32_t whole = w->v->ignore_merges ? whole_piece(w, size) : -1;
    if (whole >= 0) return id_list_add(out, whole);
    if (!kipu_merger_reserve(&w->merger, size)) return false;
    for (size_t i = 0; i < size; i++)
        w->merger.symbol[i] = (merge_symbol){.id = w->v->merges->of_byte[(uint8_t)w->bytes[i]], .size = 1};
    size_t n = kipu_merge(&w->merger, size);
    for (size_t i = 0; i < n; i++) if (!add_symbol(w->v, w->merger.symbol[i].id, out)) return false;
    return n > 0;
}

/* The piece of w->bytes; size > 0. */
static bool tokenize_piece(bpe_work *w, size_t size, id_list *out) {
    memo_entry *e = kipu_memo_place(&w->memo, w->bytes, size);
    size_t first = out->size;
    if (memo_holds(e, w->bytes, size)) return memo_recall(e, out);
    if (!merge_piece(w, size, out)) return false;
    kipu_memo_keep(e, w->bytes, size, out->data + first, out->size - first);
    return true;
}

kipu_status kipu_bpe_tokenize(bpe_work *w, const char *text, size_t size, id_list *out) {
    size_t n_pieces, at = 0;
    size_t n = decode(w, text, size);
    const uint32_t *ends = kipu_pre_tokenize(w->v->pre, w->code, w->kind, n, w->ends, w->other, &n_pieces);
    for (size_t i = 0; i < n_pieces; i++) {
        size_t bytes = 0;
        for (; at < ends[i]; at++) bytes += kipu_utf8_write(w->bytes + bytes, w->code[at]);
        if (!tokenize_piece(w, bytes, out)) return KIPU_E_MEMORY;
    }
    return KIPU_OK;
}
