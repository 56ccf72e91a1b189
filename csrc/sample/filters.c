/* Samplers that take candidates away or change their logits. */
#include <math.h>
#include "sample/order.h"
#include "sample/sampler_internal.h"

static void sort(kipu_token_array *a) {
    if (!a->sorted) kipu_sort_descending(a->data, a->size);
    a->sorted = true;
}

/* exp(logit - max) where infinities are among them: inf - inf is no difference, and NaN has no weight. */
static float weight(float logit, float max) { return logit == max ? 1.0f : logit < max ? expf(logit - max) : 0.0f; }

void kipu_softmax(kipu_token_array *a) {
    float sum = 0;
    sort(a);
    for (size_t i = 0; i < a->size; i++) sum += a->data[i].p = weight(a->data[i].logit, a->data[0].logit);
    for (size_t i = 0; i < a->size && sum > 0; i++) a->data[i].p /= sum;
}

/* ---- top-k */

static void apply_top_k(kipu_sampler *s, kipu_token_array *a) {
    size_t k = s->keep < a->size ? s->keep : a->size;
    if (s->keep == 0) return;
    if (!a->sorted) kipu_select_largest(a->data, a->size, k);
    a->sorted = true;
    a->size = k;
}

/* ---- top-p */

static void apply_top_p(kipu_sampler *s, kipu_token_array *a) {
    float sum = 0;
    if (s->p >= 1) return;
    kipu_softmax(a);
    for (size_t i = 0; i < a->size; i++) {
        sum += a->data[i].p;
        if (sum >= s->p && i + 1 >= s->keep) a->size = i + 1;
    }
}

/* ---- min-p: p_i >= p * p_max is logit_i >= max + ln p, so neither softmax nor sorting is needed */

static float maximum(const kipu_token_array *a) {
    float max = -INFINITY;
    for (size_t i = 0; i < a->size; i++) if (a->data[i].logit > max) max = a->data[i].logit;
    return max;
}

static bool min_p_unsorted(kipu_token_array *a, float p, size_t keep) {
    float least = maximum(a) + logf(p);
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < a->size; i++) n += a->data[i].logit >= least;
    if (n < 1 || n < keep) return false;
    for (size_t i = 0; i < a->size; i++) if (a->data[i].logit >= least) a->data[kept++] = a->data[i];
    a->size = kept;
    return true;
}

static void apply_min_p(kipu_sampler *s, kipu_token_array *a) {
    if (!(s->p > 0) || (!a->sorted && min_p_unsorted(a, s->p, s->keep))) return;
    sort(a);
    float least = a->data[0].logit + logf(s->p);
    size_t i = 1;
    while (i < a->size && (a->data[i].logit >= least || i < s->keep)) i++;
    a->size = i;
}

/* ---- temperature */

static void apply_temp(kipu_sampler *s, kipu_token_array *a) {
    if (s->p > 0) {
        for (size_t i = 0; i < a->size; i++) a->data[i].logit /= s->p;
        return;
    }
    float max = maximum(a);
    bool found = false;
    for (size_t i = 0; i < a->size; i++) {
        if (!found && a->data[i].logit == max) found = true;
        else a->data[i].logit = -INFINITY;
    }
}

static const sampler_kind top_k = {"top-k", apply_top_k, NULL}, top_p = {"top-p", apply_top_p, NULL}, min_p = {"min-p", apply_min_p, NULL},
                          temp = {"temp", apply_temp, NULL};

static kipu_sampler *make(const sampler_kind *kind, float p, size_t keep) {
    kipu_sampler *s = kipu_sampler_make(kind);
    if (s) s->p = p;
    if (s) s->keep = keep;
    return s;
}

kipu_sampler *kipu_sampler_top_k(int32_t k) { return make(&top_k, 0, k > 0 ? (size_t)k : 0); }
kipu_sampler *kipu_sampler_top_p(float p, size_t min_keep) { return make(&top_p, p, min_keep); }
kipu_sampler *kipu_sampler_min_p(float p, size_t min_keep) { return make(&min_p, p, min_keep); }
kipu_sampler *kipu_sampler_temp(float t) { return make(&temp, t, 0); }
