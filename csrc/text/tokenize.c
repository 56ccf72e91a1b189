/* kipu_tokenize: cut out the special tokens, hand the stretches between them to the tokenizer of the vocabulary. */
#include "text/vocab_internal.h"

typedef struct job {
    const kipu_vocab *v;
    const char *text;
    fragment_list fragments;
    id_list ids;
    kipu_error *err;
} job;

static size_t longest_fragment(const fragment_list *list) {
    size_t longest = 0;
    for (size_t i = 0; i < list->size; i++) {
        size_t size = list->data[i].end - list->data[i].begin;
        if (size > longest) longest = size;
    }
    return longest;
}

static kipu_status run_bpe(job *j) {
    size_t longest = longest_fragment(&j->fragments);
    bpe_work *w = longest ? kipu_bpe_work_new(j->v, longest) : NULL;
    kipu_status status = longest && !w ? KIPU_E_MEMORY : KIPU_OK;
    for (size_t i = 0; i < j->fragments.size && status == KIPU_OK; i++) {
        const fragment *f = &j->fragments.data[i];
        if (f->token >= 0) status = id_list_add(&j->ids, f->token) ? KIPU_OK : KIPU_E_MEMORY;
        else status = kipu_bpe_tokenize(w, j->text + f->begin, f->end - f->begin, &j->ids);
    }
    kipu_bpe_work_free(w);
    return status;
}

/* A stretch at the beginning or behind a special token gets the blank in front. */
static kipu_status run_spm(job *j) {
    size_t longest = longest_fragment(&j->fragments);
    spm_work *w = longest ? kipu_spm_work_new(j->v, longest) : NULL;
    kipu_status status = longest && !w ? KIPU_E_MEMORY : KIPU_OK;
    bool first = true;
    for (size_t i = 0; i < j->fragments.size && status == KIPU_OK; i++) {
        const fragment *f = &j->fragments.data[i];
        if (f->token >= 0) status = id_list_add(&j->ids, f->token) ? KIPU_OK : KIPU_E_MEMORY;
        else status = kipu_spm_tokenize(w, j->text + f->begin, f->end - f->begin, first && j->v->add_space_prefix, &j->ids, j->err);
        first = f->token >= 0;
    }
    kipu_spm_work_free(w);
    return status;
}

static bool add_if(id_list *ids, bool wanted, int32_t id) { return !wanted || id < 0 || id_list_add(ids, id); }

static kipu_status run(job *j, size_t size, bool add_special, bool parse_special) {
    const kipu_vocab *v = j->v;
    KIPU_TRY(kipu_cut(v, j->text, size, parse_special, &j->fragments));
    if (!add_if(&j->ids, add_special && v->add_bos, v->special[KIPU_SPECIAL_BOS])) return KIPU_E_MEMORY;
    KIPU_TRY(v->type == KIPU_VOCAB_SPM ? run_spm(j) : run_bpe(j));
    if (!add_if(&j->ids, add_special && v->add_eos, v->special[KIPU_SPECIAL_EOS])) return KIPU_E_MEMORY;
    return KIPU_OK;
}

static kipu_status check(const kipu_vocab *v, size_t size, kipu_error *err) {
    static const char *const names[] = {"none", "SPM", "BPE", "WPM", "UGM", "RWKV"};
    KIPU_REQUIRE(v->type != KIPU_VOCAB_NONE, err, KIPU_E_STATE, "this model has no vocabulary, so there is nothing to tokenize with");
    KIPU_REQUIRE(v->type == KIPU_VOCAB_SPM || v->type == KIPU_VOCAB_BPE, err, KIPU_E_UNSUPPORTED,
                 "tokenizing with a vocabulary of type %s is not supported; its tokens can be read", names[v->type]);
    KIPU_REQUIRE(size <= INT32_MAX / 4, err, KIPU_E_ARG, "text has %zu bytes, expected at most %d", size, INT32_MAX / 4);
    return KIPU_OK;
}

kipu_status kipu_tokenize(const kipu_vocab *v, const char *text, size_t size, int32_t *tokens, int64_t capacity, int64_t *n_out,
                          bool add_special, bool parse_special, kipu_error *err) {
    KIPU_TRY(check(v, size, err));
    job j = {.v = v, .text = text, .err = err};
    kipu_status status = run(&j, size, add_special, parse_special);
    if (status == KIPU_OK) {
        *n_out = (int64_t)j.ids.size;
        if (j.ids.size && *n_out <= capacity) memcpy(tokens, j.ids.data, j.ids.size * sizeof *tokens);
    }
    kipu_free(j.fragments.data);
    kipu_free(j.ids.data);
    return status == KIPU_E_MEMORY ? kipu_fail(err, status, "no memory for tokenizing %zu bytes", size) : status;
}
