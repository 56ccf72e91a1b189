/* SentencePiece BPE: blanks become U+2581, then neighbouring symbols are merged by the score of the token they form. */
#include "text/memo.h"
#include "text/merge.h"
#include "text/unicode.h"
#include "text/vocab_internal.h"

static const char blank[] = "\xe2\x96\x81";   /* U+2581 */

struct spm_work {
    const kipu_vocab *v;
    char *text;          /* with U+2581 for blanks: up to 3 bytes for each byte and for the prefix */
    const char *piece;   /* what is being merged */
    merger merger;
    memo memo;
};

/* Scores in descending order as ascending numbers. NaN counts as the lowest score. */
static uint32_t rank_of_score(float score) {
    uint32_t bits, sign = 0x80000000u;
    score += 0.0f;   /* -0 and 0 are one score */
    memcpy(&bits, &score, sizeof bits);
    if (score != score) return MERGE_NEVER - 1;
    return ~(bits & sign ? ~bits : bits | sign);
}

static uint32_t rate_pair(const void *arg, size_t at, const merge_symbol *a, const merge_symbol *b, int32_t *id) {
    const spm_work *w = arg;
    size_t size = (size_t)a->size + b->size;
    if (size > w->v->longest) return MERGE_NEVER;
    *id = find_token(w->v, w->piece + at, size);
    return *id < 0 ? MERGE_NEVER : rank_of_score(w->v->score[*id]);
}

spm_work *kipu_spm_work_new(const kipu_vocab *v, size_t longest_fragment) {
    spm_work *w = kipu_alloc(sizeof *w);
    if (!w) return NULL;
    *w = (spm_work){.v = v, .text = kipu_alloc_array(longest_fragment + 1, 3)};
    w->merger = (merger){.pair = rate_pair, .arg = w};
    if (w->text && kipu_memo_init(&w->memo, longest_fragment)) return w;
    kipu_spm_work_free(w);
    return NULL;
}

void kipu_spm_work_free(spm_work *w) {
    if (!w) return;
    kipu_merger_free(&w->merger);
    kipu_free(w->text);
    kipu_free(w->memo.entry);
    kipu_free(w);
}

int32_t kipu_byte_token(const kipu_vocab *v, unsigned char byte) {
    static const char digit[] = "0123456789ABCDEF";
    const char name[6] = {'<', '0', 'x', digit[byte >> 4], digit[byte & 15], '>'}, text = (char)byte;
    int32_t id = find_token(v, name, sizeof name);
    return id >= 0 ? id : find_token(v, &text, 1);
}

static kipu_status add_symbol(const spm_work *w, size_t at, const merge_symbol *s, id_list *out, kipu_error *err) {
    size_t size = s->size;
    int32_t id = s->id >= 0 ? s->id : find_token(w->v, w->piece + at, size);
    if (id >= 0) return id_list_add(out, id) ? KIPU_OK : KIPU_E_MEMORY;
    for (size_t i = at; i < at + size; i++) {
        unsigned char byte = (unsigned char)w->piece[i];
        id = kipu_byte_token(w->v, byte);
        KIPU_REQUIRE(id >= 0, err, KIPU_E_FORMAT, "the vocabulary has no token for byte 0x%02X", byte);
        if (!id_list_add(out, id)) return KIPU_E_MEMORY;
    }
    return KIPU_OK;
}

/* Symbols (id -1: not merged from others) are what the first bytes announce as characters, whether or not the rest keeps the promise. */
static bool characters(spm_work *w, size_t size, size_t *n) {
    if (!kipu_merger_reserve(&w->merger, size)) return false;
    *n = 0;
    for (size_t at = 0, length; at < size; at += length) {
        length = kipu_utf8_length(w->piece[at]);
        if (length > size - at) length = size - at;
        w->merger.symbol[(*n)++] = (merge_symbol){.id = -1, .size = (uint32_t)length};
    }
    return true;
}

static kipu_status merge_piece(spm_work *w, size_t size, id_list *out, kipu_error *err) {
    size_t n, at = 0;
    if (!characters(w, size, &n)) return KIPU_E_MEMORY;
    size_t left = kipu_merge(&w->merger, n);
    if (n && !left) return KIPU_E_MEMORY;
    for (size_t i = 0; i < left; at += w->merger.symbol[i++].size) KIPU_TRY(add_symbol(w, at, &w->merger.symbol[i], out, err));
    return KIPU_OK;
}

static kipu_status tokenize_word(spm_work *w, const char *word, size_t size, id_list *out, kipu_error *err) {
    memo_entry *e = kipu_memo_place(&w->memo, word, size);
    size_t first = out->size;
    if (memo_holds(e, word, size)) return memo_recall(e, out) ? KIPU_OK : KIPU_E_MEMORY;
    w->piece = word;
    KIPU_TRY(merge_piece(w, size, out, err));
    kipu_memo_keep(e, word, size, out->data + first, out->size - first);
    return KIPU_OK;
}

static size_t escape(char *out, const char *text, size_t size, bool prefix) {
    char *to = out;
    if (prefix) memcpy(to, blank, 3), to += 3;
    for (size_t i = 0; i < size; i++) {
        if (text[i] != ' ') *to++ = text[i];
        else memcpy(to, blank, 3), to += 3;
    }
    return (size_t)(to - out);
}

static bool is_blank(const char *text, size_t size, size_t at) { return size - at >= 3 && memcmp(text + at, blank, 3) == 0; }

/* End of the word at `begin`: blanks and what follows, up to the next blank that no token puts behind the character before it. Tokens
 * do not cross such a limit, so words can be merged one by one. Steps are those of `characters`: a first byte that announces more than
 * it should takes a piece of U+2581 along. */
static size_t word_end(const spm_work *w, size_t size, size_t begin) {
    const char *text = w->text;
    bool before = true;   /* was the character before a blank? */
    for (size_t at = begin, length; at < size; at += length) {
        bool space = is_blank(text, size, at);
        if (space && !before && !w->v->before_blank[(unsigned char)text[at - 1]]) return at;
        before = space;
        length = kipu_utf8_length(text[at]);
        if (length > size - at) break;
    }
    return size;
}

kipu_status kipu_spm_tokenize(spm_work *w, const char *text, size_t size, bool prefix, id_list *out, kipu_error *err) {
    size_t n = escape(w->text, text, size, prefix);
    for (size_t begin = 0, end; begin < n; begin = end) {
        end = word_end(w, n, begin);
        KIPU_TRY(tokenize_word(w, w->text + begin, end - begin, out, err));
    }
    return KIPU_OK;
}
