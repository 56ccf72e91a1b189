/* Samplers: one object each, or a chain. Rules: docs/formats/samplers.md. One thread at a time per object. */
#ifndef KIPU_SAMPLE_SAMPLER_H
#define KIPU_SAMPLE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef struct kipu_token_data { int32_t id; float logit; float p; } kipu_token_data;
typedef struct kipu_token_array {
    kipu_token_data *data;
    size_t size;
    int64_t selected;   /* index into data, -1 none */
    bool sorted;        /* by logit, descending */
} kipu_token_array;

typedef struct kipu_sampler kipu_sampler;

/* NULL without memory. The chain frees its members; kipu_sampler_free(NULL) is allowed. */
kipu_sampler *kipu_sampler_chain(void);
kipu_sampler *kipu_sampler_greedy(void);
kipu_sampler *kipu_sampler_dist(uint32_t seed);              /* 0xFFFFFFFF: a random seed */
kipu_sampler *kipu_sampler_top_k(int32_t k);
kipu_sampler *kipu_sampler_top_p(float p, size_t min_keep);
kipu_sampler *kipu_sampler_min_p(float p, size_t min_keep);
kipu_sampler *kipu_sampler_temp(float t);
void kipu_sampler_free(kipu_sampler *s);

const char *kipu_sampler_name(const kipu_sampler *s);         /* "chain", "greedy", "dist", "top-k", "top-p", "min-p", "temp" */
void kipu_sampler_accept(kipu_sampler *s, int32_t token);
void kipu_sampler_apply(kipu_sampler *s, kipu_token_array *candidates);
void kipu_sampler_reset(kipu_sampler *s);
kipu_sampler *kipu_sampler_clone(const kipu_sampler *s);
uint32_t kipu_sampler_seed(const kipu_sampler *s);            /* 0xFFFFFFFF: has none */

/* Chains only. add takes ownership (KIPU_E_ARG: not a chain, already in a chain, itself, nested more than 16 deep).
 * remove gives it back (NULL: out of range). */
kipu_status kipu_sampler_chain_add(kipu_sampler *chain, kipu_sampler *s, kipu_error *err);
kipu_sampler *kipu_sampler_chain_get(const kipu_sampler *chain, int32_t i);
int32_t kipu_sampler_chain_n(const kipu_sampler *chain);
kipu_sampler *kipu_sampler_chain_remove(kipu_sampler *chain, int32_t i);

/* Array of n_vocab logits -> apply -> accept -> id. KIPU_E_STATE: nothing was selected.
 * A chain that is one greedy sampler never builds the array. */
kipu_status kipu_sampler_sample(kipu_sampler *s, const float *logits, int32_t n_vocab, int32_t *token, kipu_error *err);

#endif
