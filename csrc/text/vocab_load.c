/* From metadata to a vocabulary. */
#include <stdarg.h>
#include <stdio.h>
#include "text/pre_tokenizer.h"
#include "text/vocab_internal.h"

void kipu_loader_warn(const loader *l, const char *format, ...) {
    char message[256];
    va_list args;
    if (!l->warn) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    l->warn(l->warn_arg, 3, message);
}

static bool get_text(const loader *l, const char *key, kipu_text *out) { return l->source->text(l->source->self, key, out); }

static void get_flag(const loader *l, const char *key, bool *out) {
    bool value;
    if (l->source->boolean(l->source->self, key, &value)) *out = value;
}

static bool equals(kipu_text t, const char *text) { return t.size == strlen(text) && memcmp(t.data, text, t.size) == 0; }

static int shown(kipu_text t) { return t.size < 80 ? (int)t.size : 80; }

/* ---- kinds of vocabularies and what they start from */

typedef struct kind {
    const char *model;    /* value of tokenizer.ggml.model */
    int type;
    int32_t bos, eos, unk, sep, pad, mask;
    bool add_bos, add_eos, add_sep, add_space_prefix, clean_spaces;
} kind;

static const kind kinds[] = {
    {"llama", KIPU_VOCAB_SPM, 1, 2, 0, -1, -1, -1, true, false, false, true, false},
    {"gpt2", KIPU_VOCAB_BPE, 11, 11, -1, -1, -1, -1, false, false, false, false, true},
    {"bert", KIPU_VOCAB_WPM, 101, -1, 100, 102, 0, 103, true, false, true, false, true},
    {"t5", KIPU_VOCAB_UGM, -1, 1, 2, -1, 0, -1, false, true, false, false, false},
    {"rwkv", KIPU_VOCAB_RWKV, -1, -1, -1, -1, -1, -1, false, false, false, false, false},
    {"no_vocab", KIPU_VOCAB_NONE, -1, -1, -1, -1, -1, -1, false, false, false, false, false},
    {"none", KIPU_VOCAB_NONE, -1, -1, -1, -1, -1, -1, false, false, false, false, false},
};

static void apply_kind(kipu_vocab *v, const kind *k) {
    v->type = k->type;
    v->special[KIPU_SPECIAL_BOS] = k->bos;
    v->special[KIPU_SPECIAL_EOS] = k->eos;
    v->special[KIPU_SPECIAL_UNK] = k->unk;
    v->special[KIPU_SPECIAL_SEP] = k->sep;
    v->special[KIPU_SPECIAL_PAD] = k->pad;
    v->special[KIPU_SPECIAL_MASK] = k->mask;
    v->add_bos = k->add_bos;
    v->add_eos = k->add_eos;
    v->add_sep = k->add_sep;
    v->add_space_prefix = k->add_space_prefix;
    v->clean_spaces = k->clean_spaces;
}

static kipu_status read_kind(loader *l) {
    kipu_text model;
    KIPU_REQUIRE(get_text(l, "tokenizer.ggml.model", &model), l->err, KIPU_E_FORMAT,
                 "tokenizer.ggml.model is missing or not a string");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!equals(model, kinds[i].model)) continue;
        apply_kind(l->v, &kinds[i]);
        return KIPU_OK;
    }
    return kipu_fail(l->err, KIPU_E_FORMAT, "tokenizer.ggml.model is '%.*s', expected llama, gpt2, bert, t5, rwkv, no_vocab or none",
                     shown(model), model.data);
}

/* No tokenizer: only a number of tokens. */
static kipu_status read_size(loader *l) {
    kipu_text arch;
    int64_t n;
    char key[128];
    if (!get_text(l, "general.architecture", &arch)) return KIPU_OK;
    snprintf(key, sizeof key, "%.*s.vocab_size", shown(arch), arch.data);
    if (!l->source->integer(l->source->self, key, &n)) return KIPU_OK;
    KIPU_REQUIRE(n >= 0 && n <= INT32_MAX, l->err, KIPU_E_FORMAT, "%s is %lld, expected 0 to 2147483647", key, (long long)n);
    l->v->n_tokens = (int32_t)n;
    kipu_loader_warn(l, "no vocabulary in this file: %lld tokens without text", (long long)n);
    return KIPU_OK;
}

/* ---- tokens */

static uint16_t attr_of_type(int32_t type) {
    static const uint16_t attr[7] = {0, KIPU_ATTR_NORMAL, KIPU_ATTR_UNKNOWN, KIPU_ATTR_CONTROL, KIPU_ATTR_USER_DEFINED, KIPU_ATTR_UNUSED,
                                     KIPU_ATTR_BYTE};
    return type >= 0 && type < 7 ? attr[type] : 0;
}

static kipu_status add_token(loader *l, int32_t id, kipu_text text) {
    kipu_vocab *v = l->v;
    char empty[24];
    if (!text.size) text = (kipu_text){empty, (size_t)snprintf(empty, sizeof empty, "[EMPTY_%d]", (int)id)};
    int32_t got = kipu_strings_intern(&v->names, text.data, text.size);
    KIPU_REQUIRE(got >= 0, l->err, KIPU_E_MEMORY, "no memory for the tokens of the vocabulary");
    KIPU_REQUIRE(got == id, l->err, KIPU_E_FORMAT, "tokenizer.ggml.tokens: tokens %d and %d are both '%.*s', expected different texts",
                 (int)got, (int)id, shown(text), text.data);
    if (text.size > v->longest) v->longest = text.size;
    return KIPU_OK;
}

static kipu_status add_tokens(loader *l, const kipu_text *texts, int32_t n) {
    int32_t n_empty = 0;
    KIPU_REQUIRE(kipu_strings_reserve(&l->v->names, (size_t)n + 256), l->err, KIPU_E_MEMORY, "no memory for %d tokens", (int)n);
    for (int32_t id = 0; id < n; id++) {
        n_empty += texts[id].size == 0;
        KIPU_TRY(add_token(l, id, texts[id]));
    }
    if (n_empty) kipu_loader_warn(l, "tokenizer.ggml.tokens: %d texts are empty", (int)n_empty);
    return KIPU_OK;
}

static kipu_status check_length(loader *l, const char *key, int64_t got, int32_t n) {
    KIPU_REQUIRE(got < 0 || got == n, l->err, KIPU_E_FORMAT, "%s has %lld values, expected one for each of the %d tokens", key,
                 (long long)got, (int)n);
    return KIPU_OK;
}

static kipu_status read_tokens(loader *l) {
    const kipu_vocab_source *s = l->source;
    const kipu_text *texts = NULL;
    const float *scores = NULL;
    const int32_t *types = NULL;
    int64_t n = s->texts(s->self, "tokenizer.ggml.tokens", &texts);
    KIPU_REQUIRE(n >= 0, l->err, KIPU_E_FORMAT, "tokenizer.ggml.tokens is missing or not an array of strings");
    KIPU_REQUIRE(n < INT32_MAX, l->err, KIPU_E_FORMAT, "tokenizer.ggml.tokens has %lld texts, expected fewer than 2147483647",
                 (long long)n);
    kipu_vocab *v = l->v;
    int64_t n_scores = s->floats(s->self, "tokenizer.ggml.scores", &scores);
    int64_t n_types = s->integers(s->self, "tokenizer.ggml.token_type", &types);
    KIPU_TRY(check_length(l, "tokenizer.ggml.scores", n_scores, (int32_t)n));
    KIPU_TRY(check_length(l, "tokenizer.ggml.token_type", n_types, (int32_t)n));
    v->n_tokens = (int32_t)n;
    v->score = kipu_alloc_array((size_t)n + 1, sizeof *v->score);
    v->attr = kipu_alloc_array((size_t)n + 1, sizeof *v->attr);
    KIPU_REQUIRE(v->score && v->attr, l->err, KIPU_E_MEMORY, "no memory for %d tokens", (int)n);
    if (n_scores > 0) memcpy(v->score, scores, (size_t)n * sizeof *scores);
    for (int32_t i = 0; i < n; i++) v->attr[i] = n_types > 0 ? attr_of_type(types[i]) : KIPU_ATTR_NORMAL;
    return add_tokens(l, texts, (int32_t)n);
}

/* ---- what belongs to one kind */

static kipu_status read_pre_tokenizer(loader *l) {
    kipu_vocab *v = l->v;
    kipu_text name = {"default", 7};
    if (!get_text(l, "tokenizer.ggml.pre", &name) || !name.size) {
        name = (kipu_text){"default", 7};
        kipu_loader_warn(l, "tokenizer.ggml.pre is missing: texts are split by the default rules, which are probably not the model's");
    }
    v->pre = kipu_pre_tokenizer_find(name.data, name.size);
    KIPU_REQUIRE(v->pre, l->err, KIPU_E_FORMAT, "tokenizer.ggml.pre is '%.*s', which is no known pre-tokenizer", shown(name), name.data);
    v->ignore_merges = v->pre->flags & PRE_IGNORE_MERGES;
    if (v->pre->flags & PRE_ADD_BOS) v->add_bos = true;
    if (v->pre->flags & PRE_ADD_SEP) v->add_sep = true;
    if (v->pre->flags & PRE_NO_BOS) v->special[KIPU_SPECIAL_BOS] = -1;
    if (v->pre->flags & PRE_KEEP_SPACES) v->clean_spaces = false;
    return KIPU_OK;
}

static kipu_status read_merges(loader *l) {
    const kipu_text *lines = NULL;
    int64_t n = l->source->texts(l->source->self, "tokenizer.ggml.merges", &lines);
    KIPU_REQUIRE(n >= 0, l->err, KIPU_E_FORMAT, "tokenizer.ggml.merges is missing or not an array of strings");
    return kipu_bpe_read_merges(l->v, lines, n, l->err);
}

/* Notes the bytes behind which some token goes on with U+2581 (other than that of a U+2581 itself): few or none, as a rule. */
static void look_for_words(kipu_vocab *v) {
    static const char blank[] = "\xe2\x96\x81";
    for (int32_t id = 0; id < v->n_tokens; id++) {
        kipu_text t = v->names.text[id];
        for (size_t i = 1; i + 3 <= t.size; i++)
            if (memcmp(t.data + i, blank, 3) == 0 && (i < 3 || memcmp(t.data + i - 3, blank, 3) != 0))
                v->before_blank[(unsigned char)t.data[i - 1]] = true;
    }
}

/* ---- the newline token: first token of "\n", before the file's own special ids are read */

static kipu_status first_of_newline(loader *l, int32_t *id) {
    id_list ids = {0};
    bpe_work *w = kipu_bpe_work_new(l->v, 1);
    kipu_status status = w ? kipu_bpe_tokenize(w, "\n", 1, &ids) : KIPU_E_MEMORY;
    if (status == KIPU_OK) *id = ids.size ? ids.data[0] : -1;
    kipu_bpe_work_free(w);
    kipu_free(ids.data);
    return status == KIPU_OK ? status : kipu_fail(l->err, status, "no memory for tokenizing the newline");
}

static kipu_status find_newline(loader *l) {
    kipu_vocab *v = l->v;
    int32_t id = -1;
    if (v->type == KIPU_VOCAB_SPM) id = kipu_byte_token(v, '\n');
    if (v->type == KIPU_VOCAB_BPE) KIPU_TRY(first_of_newline(l, &id));
    if (v->type == KIPU_VOCAB_RWKV) id = find_token(v, "\\n", 2);
    if (id < 0) id = v->special[KIPU_SPECIAL_PAD];
    if (id < 0) kipu_loader_warn(l, "the vocabulary has no token for a newline");
    v->special[KIPU_SPECIAL_NL] = id;
    return KIPU_OK;
}

static void read_flags(loader *l) {
    get_flag(l, "tokenizer.ggml.add_space_prefix", &l->v->add_space_prefix);
    get_flag(l, "tokenizer.ggml.add_bos_token", &l->v->add_bos);
    get_flag(l, "tokenizer.ggml.add_eos_token", &l->v->add_eos);
    get_flag(l, "tokenizer.ggml.add_sep_token", &l->v->add_sep);
}

kipu_status kipu_load_vocab(loader *l) {
    kipu_vocab *v = l->v;
    KIPU_TRY(read_kind(l));
    if (v->type == KIPU_VOCAB_NONE) return read_size(l);
    KIPU_TRY(read_tokens(l));
    if (v->type == KIPU_VOCAB_BPE) {
        KIPU_TRY(read_pre_tokenizer(l));
        KIPU_TRY(read_merges(l));
    }
    if (v->type == KIPU_VOCAB_SPM) look_for_words(v);
    read_flags(l);
    KIPU_TRY(find_newline(l));
    kipu_load_special_ids(l);
    kipu_find_special_by_text(l);
    kipu_mark_end_of_generation(l);
    KIPU_REQUIRE(kipu_cut_index(v), l->err, KIPU_E_MEMORY, "no memory for the index of special tokens");
    kipu_fix_attributes(l);
    return KIPU_OK;
}
