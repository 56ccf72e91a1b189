/* Special tokens: ids from the metadata, tokens known by their text, the set that ends a generation, stripping of blanks. */
#include <ctype.h>
#include "text/vocab_internal.h"

typedef struct special_key { const char *key; kipu_special which; } special_key;

static const special_key special_keys[] = {
    {"tokenizer.ggml.bos_token_id", KIPU_SPECIAL_BOS}, {"tokenizer.ggml.eos_token_id", KIPU_SPECIAL_EOS},
    {"tokenizer.ggml.eot_token_id", KIPU_SPECIAL_EOT}, {"tokenizer.ggml.eom_token_id", KIPU_SPECIAL_EOM},
    {"tokenizer.ggml.unknown_token_id", KIPU_SPECIAL_UNK}, {"tokenizer.ggml.seperator_token_id", KIPU_SPECIAL_SEP},
    {"tokenizer.ggml.padding_token_id", KIPU_SPECIAL_PAD}, {"tokenizer.ggml.mask_token_id", KIPU_SPECIAL_MASK},
    {"tokenizer.ggml.fim_pre_token_id", KIPU_SPECIAL_FIM_PRE}, {"tokenizer.ggml.fim_suf_token_id", KIPU_SPECIAL_FIM_SUF},
    {"tokenizer.ggml.fim_mid_token_id", KIPU_SPECIAL_FIM_MID}, {"tokenizer.ggml.fim_pad_token_id", KIPU_SPECIAL_FIM_PAD},
    {"tokenizer.ggml.fim_rep_token_id", KIPU_SPECIAL_FIM_REP}, {"tokenizer.ggml.fim_sep_token_id", KIPU_SPECIAL_FIM_SEP},
    /* names of older files */
    {"tokenizer.ggml.prefix_token_id", KIPU_SPECIAL_FIM_PRE}, {"tokenizer.ggml.suffix_token_id", KIPU_SPECIAL_FIM_SUF},
    {"tokenizer.ggml.middle_token_id", KIPU_SPECIAL_FIM_MID},
};

void kipu_load_special_ids(loader *l) {
    for (size_t i = 0; i < sizeof special_keys / sizeof *special_keys; i++) {
        int32_t *id = &l->v->special[special_keys[i].which];
        int64_t value;
        if (!l->source->integer(l->source->self, special_keys[i].key, &value)) continue;
        if (value >= 0 && value < l->v->n_tokens) *id = (int32_t)value;
        else kipu_loader_warn(l, "%s is %lld, the vocabulary has %d tokens: %d is used", special_keys[i].key, (long long)value,
                              (int)l->v->n_tokens, (int)*id);
    }
    for (int i = 0; i < KIPU_SPECIAL_COUNT; i++) if (!is_token(l->v, l->v->special[i])) l->v->special[i] = -1;   /* defaults of a kind */
}

/* ---- tokens known by their text; the first that exists counts */

#define BAR "\xef\xbd\x9c"        /* U+FF5C, the wide bar of DeepSeek's tokens */
#define BLANK "\xe2\x96\x81"      /* U+2581 */

enum { MOST_TEXTS = 12 };
typedef struct known { kipu_special which; const char *text[MOST_TEXTS]; } known;

static const known known_texts[] = {
    {KIPU_SPECIAL_EOT, {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<EOT>", "_<EOT>",
                        "<" BAR "end" BLANK "of" BLANK "sentence" BAR ">", "<end_of_utterance>"}},
    {KIPU_SPECIAL_EOM, {"<|eom_id|>"}},
    {KIPU_SPECIAL_FIM_PRE, {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<" BAR "fim" BLANK "begin" BAR ">", "<PRE>", BLANK "<PRE>"}},
    {KIPU_SPECIAL_FIM_SUF, {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<" BAR "fim" BLANK "hole" BAR ">", "<SUF>", BLANK "<SUF>"}},
    {KIPU_SPECIAL_FIM_MID, {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<" BAR "fim" BLANK "end" BAR ">", "<MID>", BLANK "<MID>"}},
    {KIPU_SPECIAL_FIM_PAD, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"}},
    {KIPU_SPECIAL_FIM_REP, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {KIPU_SPECIAL_FIM_SEP, {"<|file_sep|>"}},
};

static const char *const end_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>", "<|end_of_text|>",
    "<end_of_utterance>",
};

static void make_control(loader *l, int32_t id, const char *text) {
    if (l->v->attr[id] & KIPU_ATTR_CONTROL) return;
    kipu_loader_warn(l, "token %d '%s' looks like a control token but is none in this file; it is made one", (int)id, text);
    l->v->attr[id] = KIPU_ATTR_CONTROL;
}

static void find_by_text(loader *l, const known *k) {
    int32_t *special = &l->v->special[k->which];
    for (int i = 0; i < MOST_TEXTS && k->text[i] && *special < 0; i++) {
        int32_t id = find_token(l->v, k->text[i], strlen(k->text[i]));
        if (id < 0) continue;
        *special = id;
        make_control(l, id, k->text[i]);
    }
}

void kipu_find_special_by_text(loader *l) {
    for (size_t i = 0; i < sizeof known_texts / sizeof *known_texts; i++) find_by_text(l, &known_texts[i]);
}

/* ---- end of generation */

static bool is_end(const kipu_vocab *v, int32_t id) { return v->attr[id] & ATTR_EOG; }

void kipu_mark_end_of_generation(loader *l) {
    static const kipu_special fim[] = {KIPU_SPECIAL_FIM_PAD, KIPU_SPECIAL_FIM_REP, KIPU_SPECIAL_FIM_SEP};
    static const kipu_special last[] = {KIPU_SPECIAL_EOS, KIPU_SPECIAL_EOT, KIPU_SPECIAL_EOM};
    kipu_vocab *v = l->v;
    for (int i = 0; i < 3; i++) if (is_token(v, v->special[fim[i]])) v->attr[v->special[fim[i]]] |= ATTR_EOG;
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++) {
        int32_t id = find_token(v, end_texts[i], strlen(end_texts[i]));
        if (id < 0) continue;
        make_control(l, id, end_texts[i]);
        v->attr[id] |= ATTR_EOG;
    }
    for (int i = 0; i < 3; i++) {
        int32_t id = v->special[last[i]];
        if (!is_token(v, id) || is_end(v, id)) continue;
        v->attr[id] |= ATTR_EOG;
    }
}

/* ---- stripping of blanks */

static bool contains(kipu_text text, const char *part) {
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= text.size; i++) {
        size_t k = 0;
        while (k < n && tolower((unsigned char)text.data[i + k]) == part[k]) k++;
        if (k == n) return true;
    }
    return false;
}

static void set_attr(kipu_vocab *v, const char *text, int attr, bool on) {
    int32_t id = find_token(v, text, strlen(text));
    if (id >= 0) v->attr[id] = (uint16_t)(on ? v->attr[id] | attr : v->attr[id] & ~attr);
}

static kipu_text metadata(const loader *l, const char *key) {
    kipu_text text = {"", 0};
    return l->source->text(l->source->self, key, &text) ? text : (kipu_text){"", 0};
}

void kipu_fix_attributes(loader *l) {
    kipu_vocab *v = l->v;
    kipu_text pre = metadata(l, "tokenizer.ggml.pre"), name = metadata(l, "general.name");
    if (contains(pre, "jina-v2-de") || contains(pre, "jina-v2-es") || contains(pre, "jina-v2-code") ||
        contains(metadata(l, "general.architecture"), "nomic-bert-moe")) {
        set_attr(v, "<mask>", KIPU_ATTR_LSTRIP, true);
    } else if (contains(name, "phi-3") || contains(name, "phi3")) {
        for (size_t i = 0; i < v->n_cut; i++) v->attr[v->cut[i].id] |= KIPU_ATTR_RSTRIP;
        set_attr(v, "</s>", KIPU_ATTR_RSTRIP, true);
        set_attr(v, "<unk>", KIPU_ATTR_RSTRIP, false);
        set_attr(v, "<s>", KIPU_ATTR_RSTRIP, false);
        set_attr(v, "<|endoftext|>", KIPU_ATTR_RSTRIP, false);
    }
}
