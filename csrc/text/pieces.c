/* From tokens back to text. */
#include "text/byte_alphabet.h"
#include "text/unicode.h"
#include "text/vocab_internal.h"

/* ---- one piece */

/* Bytes go to `out`, or are only counted where that is NULL. Leading blanks are dropped while `strip` > 0. */
typedef struct sink {
    char *out;
    size_t size;
    int32_t strip;
} sink;

static void put(sink *s, const char *data, size_t size) {
    for (; s->strip > 0 && size && *data == ' '; s->strip--) data++, size--;
    if (!size) return;
    s->strip = 0;
    if (s->out) memcpy(s->out + s->size, data, size);
    s->size += size;
}

static void put_byte(sink *s, uint8_t byte) { put(s, (const char *)&byte, 1); }

static void put_unescaped_blanks(sink *s, kipu_text t) {
    for (size_t i = 0; i < t.size;) {
        bool blank = t.size - i >= 3 && memcmp(t.data + i, "\xe2\x96\x81", 3) == 0;
        put(s, blank ? " " : t.data + i, 1);
        i += blank ? 3 : 1;
    }
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f') return (c | 32) - 'a' + 10;
    return -1;
}

/* "<0x0A>"; a byte token of another form keeps its text. */
static void put_byte_token(sink *s, kipu_text t) {
    int high = t.size == 6 ? hex_value(t.data[3]) : -1, low = t.size == 6 ? hex_value(t.data[4]) : -1;
    if (high < 0 || low < 0) put(s, t.data, t.size);
    else put_byte(s, (uint8_t)(high << 4 | low));
}

/* What is no letter of the byte alphabet shows as [UNK_BYTE_0x<bytes in hex><text of the token>]. */
static void put_unknown_letter(sink *s, const char *letter, size_t size, kipu_text t) {
    static const char digit[] = "0123456789abcdef";
    put(s, "[UNK_BYTE_0x", 12);
    for (size_t i = 0; i < size; i++) {
        char hex[2] = {digit[(uint8_t)letter[i] >> 4], digit[(uint8_t)letter[i] & 15]};
        put(s, hex, 2);
    }
    put(s, t.data, t.size);
    put(s, "]", 1);
}

static void put_letters(sink *s, kipu_text t) {
    uint32_t code;
    char letter[4];
    for (size_t i = 0; i < t.size;) {
        i += kipu_utf8_read(t.data + i, t.size - i, &code);
        int byte = letter_to_byte(code);
        if (byte >= 0) put_byte(s, (uint8_t)byte);
        else put_unknown_letter(s, letter, kipu_utf8_write(letter, code), t);
    }
}

/* RWKV texts write bytes as \t \n \r \xHH and a backslash before anything else. */
static void put_unescaped(sink *s, kipu_text t) {
    for (size_t i = 0; i < t.size; i++) {
        if (t.data[i] != '\\' || i + 1 == t.size) {
            put(s, t.data + i, 1);
            continue;
        }
        char c = t.data[++i];
        if (c == 'x' && i + 2 < t.size && hex_value(t.data[i + 1]) >= 0 && hex_value(t.data[i + 2]) >= 0) {
            put_byte(s, (uint8_t)(hex_value(t.data[i + 1]) << 4 | hex_value(t.data[i + 2])));
            i += 2;
        } else {
            put_byte(s, (uint8_t)(c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c));
        }
    }
}

static void put_piece(sink *s, const kipu_vocab *v, int32_t token, bool special) {
    if (!v->attr) return;
    int attr = v->attr[token];
    kipu_text t = v->names.text[token];
    if (!special && (attr & ATTR_SPECIAL)) return;
    if (v->type == KIPU_VOCAB_RWKV) put_unescaped(s, t);
    else if (attr & ATTR_CUT) put(s, t.data, t.size);
    else if (attr & KIPU_ATTR_NORMAL && v->type == KIPU_VOCAB_BPE) put_letters(s, t);
    else if (attr & KIPU_ATTR_NORMAL) put_unescaped_blanks(s, t);
    else if (attr & KIPU_ATTR_BYTE && v->type != KIPU_VOCAB_BPE) put_byte_token(s, t);
}

static size_t piece_size(const kipu_vocab *v, int32_t token, int32_t lstrip, bool special) {
    sink s = {.strip = lstrip};
    put_piece(&s, v, token, special);
    return s.size;
}

static kipu_status check_token(const kipu_vocab *v, int32_t token, kipu_error *err) {
    KIPU_REQUIRE(is_token(v, token), err, KIPU_E_ARG, "token is %d, expected 0 to %d", (int)token, (int)v->n_tokens - 1);
    return KIPU_OK;
}

kipu_status kipu_token_to_piece(const kipu_vocab *v, int32_t token, char *out, int64_t size, int32_t lstrip, bool special, int64_t *needed,
                                kipu_error *err) {
    KIPU_TRY(check_token(v, token, err));
    *needed = (int64_t)piece_size(v, token, lstrip, special);
    if (*needed == 0 || *needed > size) return KIPU_OK;
    sink s = {.out = out, .strip = lstrip};
    put_piece(&s, v, token, special);
    return KIPU_OK;
}

/* ---- cleaning up blanks: three passes, in place, each seeing the text as the pass before left it */

/* Removes blanks before ? ! . , */
static size_t clean_punctuation(char *text, size_t size) {
    size_t n = size > 0;
    for (size_t i = 1; i < size; text[n++] = text[i++])
        if (text[i - 1] == ' ' && (text[i] == '?' || text[i] == '!' || text[i] == '.' || text[i] == ',')) n--;
    return n;
}

/* Removes the blanks on both sides of a single apostrophe. The second one does not count as the first of another apostrophe. */
static size_t clean_apostrophes(char *text, size_t size) {
    size_t n = size > 0;
    char before = size ? text[0] : 0;
    for (size_t i = 1; i < size; i++) {
        char c = text[i];
        bool alone = c == '\'' && i + 1 < size && before == ' ' && text[i + 1] == ' ';
        if (alone) n--, i++;
        before = alone ? 0 : c;
        text[n++] = c;
    }
    return n;
}

/* Removes the blank before 's 'm 're 've, but not before 't 'd 'll. */
static size_t clean_contractions(char *text, size_t size) {
    size_t n = size > 0;
    for (size_t i = 1; i < size; text[n++] = text[i++]) {
        if (text[i - 1] != ' ' || text[i] != '\'' || i + 1 >= size) continue;
        char a = text[i + 1], b = i + 2 < size ? text[i + 2] : 0;
        if (a == 's' || a == 'm' || (b == 'e' && (a == 'r' || a == 'v'))) n--;
    }
    return n;
}

static size_t clean(char *text, size_t size) {
    size = clean_punctuation(text, size);
    size = clean_apostrophes(text, size);
    return clean_contractions(text, size);
}

/* ---- many pieces */

/* One leading bos and one trailing eos go, where the vocabulary adds them. Returns whether a bos went. */
static bool drop_added(const kipu_vocab *v, const int32_t **tokens, int64_t *n) {
    bool bos = v->add_bos && *n > 0 && (*tokens)[0] == v->special[KIPU_SPECIAL_BOS];
    *tokens += bos;
    *n -= bos;
    *n -= v->add_eos && *n > 0 && (*tokens)[*n - 1] == v->special[KIPU_SPECIAL_EOS];
    return bos;
}

static void put_all(sink *s, const kipu_vocab *v, const int32_t *tokens, int64_t n, bool strip, bool special) {
    for (int64_t i = 0; i < n; i++) {
        s->strip = strip && i == 0;
        put_piece(s, v, tokens[i], special);
    }
}

kipu_status kipu_detokenize(const kipu_vocab *v, const int32_t *tokens, int64_t n, char *out, int64_t size, bool remove_special,
                            bool unparse_special, int64_t *needed, kipu_error *err) {
    for (int64_t i = 0; i < n; i++) KIPU_TRY(check_token(v, tokens[i], err));
    bool dropped = remove_special && drop_added(v, &tokens, &n);
    bool strip = v->add_space_prefix && !dropped;
    sink measure = {0};
    put_all(&measure, v, tokens, n, strip, unparse_special);
    char *text = kipu_alloc(measure.size + 1);
    KIPU_REQUIRE(text, err, KIPU_E_MEMORY, "no memory for a text of %zu bytes", measure.size);
    sink s = {.out = text};
    put_all(&s, v, tokens, n, strip, unparse_special);
    size_t length = v->clean_spaces ? clean(text, s.size) : s.size;
    if (length && (int64_t)length <= size) memcpy(out, text, length);
    *needed = (int64_t)length;
    kipu_free(text);
    return KIPU_OK;
}
