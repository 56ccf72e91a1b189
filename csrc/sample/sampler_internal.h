/* What the files of the sample room share. The public face is sampler.h. */
#ifndef KIPU_SAMPLE_SAMPLER_INTERNAL_H
#define KIPU_SAMPLE_SAMPLER_INTERNAL_H

#include "sample/random.h"
#include "sample/sampler.h"

enum { KIPU_NO_SEED = -1 };   /* as uint32_t: 0xFFFFFFFF */

typedef struct sampler_kind {
    const char *name;
    void (*apply)(kipu_sampler *s, kipu_token_array *a);   /* a->size > 0 */
    void (*reset)(kipu_sampler *s);                        /* NULL: nothing to reset */
} sampler_kind;

struct kipu_sampler {
    const sampler_kind *kind;
    kipu_sampler *chain;        /* that owns this one, or NULL */

    float p;                    /* top-p, min-p; temp: the temperature */
    size_t keep;                /* top-p, min-p: at least so many stay; top-k: k, 0 = all */

    uint32_t seed, seed_asked;  /* dist: in use; as given, 0xFFFFFFFF = a new one at every reset */
    kipu_mt19937 random;

    kipu_sampler **member;      /* chain */
    int32_t n_members, member_room;

    kipu_token_data *scratch;   /* candidates of kipu_sampler_sample */
    size_t scratch_room;
};

kipu_sampler *kipu_sampler_make(const sampler_kind *kind);

extern const sampler_kind kipu_sampler_kind_chain, kipu_sampler_kind_greedy;

/* Sorts unless sorted, then p = exp(logit - max) / sum in float, summed in order. */
void kipu_softmax(kipu_token_array *a);
/* Index of the first maximum; NaN is never the maximum unless all are NaN. n > 0 */
size_t kipu_first_maximum(const float *logits, size_t n);

#endif
