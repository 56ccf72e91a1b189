#include "text/vocab_internal.h"

kipu_status kipu_vocab_new(kipu_vocab **out, const kipu_vocab_source *source, kipu_vocab_warn warn, void *warn_arg, kipu_error *err) {
    kipu_vocab *v = kipu_alloc(sizeof *v);
    KIPU_REQUIRE(v, err, KIPU_E_MEMORY, "no memory for a vocabulary");
    for (int i = 0; i < KIPU_SPECIAL_COUNT; i++) v->special[i] = -1;
    loader l = {v, source, warn, warn_arg, err};
    kipu_status status = kipu_load_vocab(&l);
    if (status == KIPU_OK) *out = v;
    else kipu_vocab_free(v);
    return status;
}

void kipu_vocab_free(kipu_vocab *v) {
    if (!v) return;
    kipu_strings_free(&v->names);
    kipu_bpe_free(v->merges);
    kipu_free(v->score);
    kipu_free(v->attr);
    kipu_free(v->cut);
    kipu_free(v->cut_by_rank);
    kipu_free(v);
}

int kipu_vocab_type(const kipu_vocab *v) { return v->type; }
int32_t kipu_vocab_size(const kipu_vocab *v) { return v->n_tokens; }

/* A vocabulary without tokenizer has numbers, but no table behind them. */
static bool has_entry(const kipu_vocab *v, int32_t token) { return v->attr && is_token(v, token); }

kipu_text kipu_vocab_text(const kipu_vocab *v, int32_t token) {
    if (has_entry(v, token)) return v->names.text[token];
    return is_token(v, token) ? (kipu_text){"", 0} : (kipu_text){NULL, 0};
}

float kipu_vocab_score(const kipu_vocab *v, int32_t token) { return has_entry(v, token) ? v->score[token] : 0.0f; }
int kipu_vocab_attr(const kipu_vocab *v, int32_t token) { return has_entry(v, token) ? v->attr[token] & ~ATTR_EOG : 0; }
bool kipu_vocab_is_eog(const kipu_vocab *v, int32_t token) { return has_entry(v, token) && (v->attr[token] & ATTR_EOG); }
bool kipu_vocab_is_control(const kipu_vocab *v, int32_t token) { return has_entry(v, token) && (v->attr[token] & KIPU_ATTR_CONTROL); }

int32_t kipu_vocab_special(const kipu_vocab *v, kipu_special which) {
    return (unsigned)which < KIPU_SPECIAL_COUNT ? v->special[which] : -1;
}

bool kipu_vocab_add_bos(const kipu_vocab *v) { return v->add_bos; }
bool kipu_vocab_add_eos(const kipu_vocab *v) { return v->add_eos; }
bool kipu_vocab_add_sep(const kipu_vocab *v) { return v->add_sep; }
bool kipu_vocab_add_space_prefix(const kipu_vocab *v) { return v->add_space_prefix; }
