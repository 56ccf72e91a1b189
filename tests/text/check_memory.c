/* Every allocation of loading, tokenizing and detokenizing fails once: a status, never a crash, and (under a sanitizer) no leak.
 * Prints nothing and returns 0 if all is well. */
#include <stdio.h>
#include <string.h>
#include "base/memory_alloc.h"
#include "sample/sampler.h"
#include "text/vocab.h"

enum { LETTERS = 256, MORE = 3 };

/* ---- a vocabulary in memory: the source that kipu_vocab_new reads */

typedef struct table { const char *model; kipu_text token[LETTERS + MORE + 1]; int64_t n; int32_t type[LETTERS + MORE + 1]; } table;

static bool get_text(void *self, const char *key, kipu_text *out) {
    const char *found = !strcmp(key, "tokenizer.ggml.model") ? ((table *)self)->model : !strcmp(key, "tokenizer.ggml.pre") ? "qwen2" : NULL;
    if (found) *out = (kipu_text){found, strlen(found)};
    return found;
}

static bool get_integer(void *self, const char *key, int64_t *out) { (void)self; (void)key; (void)out; return false; }
static bool get_boolean(void *self, const char *key, bool *out) { (void)self; (void)key; (void)out; return false; }

static int64_t get_texts(void *self, const char *key, const kipu_text **out) {
    static const kipu_text merges[] = {{"a a", 3}, {"aa aa", 5}, {"q r", 3}};
    bool tokens = !strcmp(key, "tokenizer.ggml.tokens");
    *out = tokens ? ((table *)self)->token : merges;
    return tokens ? ((table *)self)->n : !strcmp(key, "tokenizer.ggml.merges") ? 3 : -1;
}

static int64_t get_floats(void *self, const char *key, const float **out) { (void)self; (void)key; (void)out; return -1; }

static int64_t get_integers(void *self, const char *key, const int32_t **out) {
    (void)key;
    *out = ((table *)self)->type;
    return ((table *)self)->n;
}

static void add(table *t, const char *text, size_t size, int type) {
    t->token[t->n] = (kipu_text){text, size};
    t->type[t->n++] = type;
}

/* Byte tokens for SPM; for BPE single printable characters, which is enough for the texts below. */
static table *make(const char *model, char names[LETTERS][8]) {
    static table t;
    t = (table){.model = model};
    bool spm = !strcmp(model, "llama");
    for (int b = 0; b < LETTERS; b++) {
        int size = spm ? snprintf(names[b], 8, "<0x%02X>", b) : snprintf(names[b], 8, b > 32 && b < 127 ? "%c" : "<%d>", b);
        add(&t, names[b], (size_t)size, spm ? 6 : 1);
    }
    add(&t, "aa", 2, 1);
    add(&t, "aaaa", 4, 1);
    add(&t, "[special]", 9, 4);
    return &t;
}

/* ---- one round: all steps with the n-th allocation failing; true once nothing failed */

static bool use(const kipu_vocab *v) {
    static char text[5000], out[8000];
    int32_t ids[5000];
    int64_t n = 0, needed = 0;
    memset(text, 'a', sizeof text);
    memcpy(text + 70, "[special] b[special]", 20);
    if (kipu_tokenize(v, text, sizeof text, ids, 5000, &n, true, true, NULL) != KIPU_OK) return false;
    if (kipu_detokenize(v, ids, n, out, sizeof out, false, true, &needed, NULL) != KIPU_OK) return false;
    if (needed < (int64_t)sizeof text - 1) printf("only %lld bytes came back\n", (long long)needed);
    return true;
}

static bool text_round(table *t) {
    kipu_vocab_source source = {t, get_text, get_integer, get_boolean, get_texts, get_floats, get_integers};
    kipu_vocab *v = NULL;
    kipu_status status = kipu_vocab_new(&v, &source, NULL, NULL, NULL);
    if (status != KIPU_OK && status != KIPU_E_MEMORY) printf("status %d instead of no memory\n", status);
    bool done = status == KIPU_OK && use(v);
    kipu_vocab_free(v);
    return done;
}

static bool add_to(kipu_sampler *chain, kipu_sampler *s) {
    if (s && kipu_sampler_chain_add(chain, s, NULL) == KIPU_OK) return true;
    kipu_sampler_free(s);
    return false;
}

/* Sorting works without memory, so a missing radix buffer is no failure. */
static bool sample_round(void) {
    static float logits[3000];
    for (int i = 0; i < 3000; i++) logits[i] = (float)(i * 7919 % 3000) / 100;
    kipu_sampler *chain = kipu_sampler_chain();
    bool done = chain && add_to(chain, kipu_sampler_top_p(0.9f, 1)) && add_to(chain, kipu_sampler_dist(1));
    kipu_sampler *copy = done ? kipu_sampler_clone(chain) : NULL;
    int32_t token = -1;
    done = copy && kipu_sampler_sample(copy, logits, 3000, &token, NULL) == KIPU_OK;
    if (done && (token < 0 || token >= 3000)) printf("token %d\n", token);
    kipu_sampler_free(copy);
    kipu_sampler_free(chain);
    return done;
}

int main(void) {
    static char names[LETTERS][8];
    static const char *const models[] = {"gpt2", "llama", NULL};
    for (int round = 0; round < 3; round++) {
        table *t = models[round] ? make(models[round], names) : NULL;
        bool done = false;
        long n = 0;
        for (; n < 10000 && !done; n++) {
            kipu_alloc_fail_after(n);
            done = t ? text_round(t) : sample_round();
        }
        kipu_alloc_fail_after(-1);
        if (!done || n < 5) printf("round %d: done %d after %ld\n", round, done, n);
        if (!(t ? text_round(t) : sample_round())) printf("round %d fails even with memory\n", round);
    }
    return 0;
}
