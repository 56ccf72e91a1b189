/* Samplers that select a candidate. */
#include <math.h>
#include "sample/sampler_internal.h"

/* ---- greedy */

/* Sixteen running maxima, which a compiler keeps in vector registers; then one search for the value. */
size_t kipu_first_maximum(const float *logits, size_t n) {
    float lane[16], max = -INFINITY;
    size_t i = 0;
    for (int j = 0; j < 16; j++) lane[j] = max;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) lane[j] = logits[i + j] > lane[j] ? logits[i + j] : lane[j];
    for (; i < n; i++) max = logits[i] > max ? logits[i] : max;
    for (int j = 0; j < 16; j++) max = lane[j] > max ? lane[j] : max;
    for (i = 0; i < n && logits[i] != max;) i++;
    return i < n ? i : 0;
}

static void apply_greedy(kipu_sampler *s, kipu_token_array *a) {
    (void)s;
    float max = -INFINITY;
    size_t first = 0;
    for (size_t i = 0; i < a->size; i++) max = a->data[i].logit > max ? a->data[i].logit : max;
    while (first < a->size && a->data[first].logit != max) first++;
    a->selected = first < a->size ? (int64_t)first : 0;
}

const sampler_kind kipu_sampler_kind_greedy = {"greedy", apply_greedy, NULL};

kipu_sampler *kipu_sampler_greedy(void) { return kipu_sampler_make(&kipu_sampler_kind_greedy); }

/* ---- dist: one draw from the softmax, as std::discrete_distribution makes it */

/* First index whose cumulative weight reaches the draw; the last one always does. */
static size_t draw_index(const kipu_token_array *a, double draw) {
    double sum = 0, reached = 0;
    for (size_t i = 0; i < a->size; i++) sum += a->data[i].p;
    if (!(sum > 0)) return 0;   /* nothing but NaN */
    for (size_t i = 0; i + 1 < a->size; i++) {
        reached += a->data[i].p / sum;
        if (reached >= draw) return i;
    }
    return a->size - 1;
}

static void apply_dist(kipu_sampler *s, kipu_token_array *a) {
    kipu_softmax(a);
    a->selected = a->size < 2 ? 0 : (int64_t)draw_index(a, kipu_mt19937_unit(&s->random));
}

static void reset_dist(kipu_sampler *s) {
    s->seed = s->seed_asked == (uint32_t)KIPU_NO_SEED ? kipu_random_seed() : s->seed_asked;
    kipu_mt19937_seed(&s->random, s->seed);
}

static const sampler_kind dist = {"dist", apply_dist, reset_dist};

kipu_sampler *kipu_sampler_dist(uint32_t seed) {
    kipu_sampler *s = kipu_sampler_make(&dist);
    if (!s) return NULL;
    s->seed_asked = seed;
    reset_dist(s);
    return s;
}
