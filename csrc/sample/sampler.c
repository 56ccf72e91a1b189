/* Sampler objects and chains. */
#include <string.h>
#include "base/memory_alloc.h"
#include "sample/sampler_internal.h"

kipu_sampler *kipu_sampler_make(const sampler_kind *kind) {
    kipu_sampler *s = kipu_alloc(sizeof *s);
    if (!s) return NULL;
    s->kind = kind;
    s->seed = s->seed_asked = (uint32_t)KIPU_NO_SEED;
    return s;
}

void kipu_sampler_free(kipu_sampler *s) {
    if (!s) return;
    for (int32_t i = 0; i < s->n_members; i++) kipu_sampler_free(s->member[i]);   /* as deep as chains are nested */
    kipu_free(s->member);
    kipu_free(s->scratch);
    kipu_free(s);
}

const char *kipu_sampler_name(const kipu_sampler *s) { return s->kind->name; }

void kipu_sampler_apply(kipu_sampler *s, kipu_token_array *candidates) {
    if (candidates->size) s->kind->apply(s, candidates);
}

void kipu_sampler_reset(kipu_sampler *s) {
    if (s->kind->reset) s->kind->reset(s);
}

/* None of these samplers looks back; those that do will. */
void kipu_sampler_accept(kipu_sampler *s, int32_t token) {
    for (int32_t i = 0; i < s->n_members; i++) kipu_sampler_accept(s->member[i], token);
}

uint32_t kipu_sampler_seed(const kipu_sampler *s) {
    for (int32_t i = s->n_members; i-- > 0;) {
        uint32_t seed = kipu_sampler_seed(s->member[i]);
        if (seed != (uint32_t)KIPU_NO_SEED) return seed;
    }
    return s->seed;
}

static bool add_member(kipu_sampler *chain, kipu_sampler *s);

kipu_sampler *kipu_sampler_clone(const kipu_sampler *s) {
    kipu_sampler *copy = kipu_alloc(sizeof *copy);
    if (!copy) return NULL;
    *copy = *s;
    copy->chain = NULL;
    copy->member = NULL;
    copy->n_members = copy->member_room = 0;
    copy->scratch = NULL;
    copy->scratch_room = 0;
    for (int32_t i = 0; i < s->n_members; i++) {
        kipu_sampler *member = kipu_sampler_clone(s->member[i]);
        if (member && add_member(copy, member)) continue;
        kipu_sampler_free(member);
        kipu_sampler_free(copy);
        return NULL;
    }
    return copy;
}

/* ---- chains */

static void apply_chain(kipu_sampler *s, kipu_token_array *a) {
    for (int32_t i = 0; i < s->n_members; i++) kipu_sampler_apply(s->member[i], a);
}

static void reset_chain(kipu_sampler *s) {
    for (int32_t i = 0; i < s->n_members; i++) kipu_sampler_reset(s->member[i]);
}

const sampler_kind kipu_sampler_kind_chain = {"chain", apply_chain, reset_chain};

kipu_sampler *kipu_sampler_chain(void) { return kipu_sampler_make(&kipu_sampler_kind_chain); }

static bool is_chain(const kipu_sampler *s) { return s->kind == &kipu_sampler_kind_chain; }

static bool add_member(kipu_sampler *chain, kipu_sampler *s) {
    if (chain->n_members == chain->member_room) {
        int32_t room = chain->member_room ? 2 * chain->member_room : 8;
        kipu_sampler **fresh = kipu_alloc_array((size_t)room, sizeof *fresh);
        if (!fresh) return false;
        if (chain->n_members) memcpy(fresh, chain->member, (size_t)chain->n_members * sizeof *fresh);
        kipu_free(chain->member);
        chain->member = fresh;
        chain->member_room = room;
    }
    chain->member[chain->n_members++] = s;
    s->chain = chain;
    return true;
}

/* Nested chains are walked by recursion, so their depth is limited. */
enum { DEEPEST = 16 };

static int height(const kipu_sampler *s) {
    int highest = 0;
    for (int32_t i = 0; i < s->n_members; i++) {
        int h = height(s->member[i]);
        if (h > highest) highest = h;
    }
    return highest + 1;
}

/* Chains from this one up to the outermost. A chain must not come to hold itself: *loop tells whether s is one of them. */
static int depth(const kipu_sampler *chain, const kipu_sampler *s, bool *loop) {
    int n = 0;
    for (*loop = false; chain; chain = chain->chain, n++) *loop = *loop || chain == s;
    return n;
}

kipu_status kipu_sampler_chain_add(kipu_sampler *chain, kipu_sampler *s, kipu_error *err) {
    bool loop;
    KIPU_REQUIRE(is_chain(chain), err, KIPU_E_ARG, "sampler '%s' is no chain", chain->kind->name);
    KIPU_REQUIRE(!s->chain, err, KIPU_E_ARG, "sampler '%s' is already in a chain", s->kind->name);
    int levels = depth(chain, s, &loop) + height(s);
    KIPU_REQUIRE(!loop, err, KIPU_E_ARG, "a chain cannot be added to itself");
    KIPU_REQUIRE(levels <= DEEPEST, err, KIPU_E_ARG, "chains would be nested %d deep, expected at most %d", levels, DEEPEST);
    KIPU_REQUIRE(add_member(chain, s), err, KIPU_E_MEMORY, "no memory for sampler %d of a chain", (int)chain->n_members);
    return KIPU_OK;
}

static bool has_member(const kipu_sampler *chain, int32_t i) { return i >= 0 && i < chain->n_members; }

kipu_sampler *kipu_sampler_chain_get(const kipu_sampler *chain, int32_t i) { return has_member(chain, i) ? chain->member[i] : NULL; }
int32_t kipu_sampler_chain_n(const kipu_sampler *chain) { return chain->n_members; }

kipu_sampler *kipu_sampler_chain_remove(kipu_sampler *chain, int32_t i) {
    if (!has_member(chain, i)) return NULL;
    kipu_sampler *s = chain->member[i];
    memmove(chain->member + i, chain->member + i + 1, (size_t)(--chain->n_members - i) * sizeof *chain->member);
    s->chain = NULL;
    return s;
}

/* ---- one token from logits */

static bool is_greedy(const kipu_sampler *s) {
    while (is_chain(s) && s->n_members == 1) s = s->member[0];
    return s->kind == &kipu_sampler_kind_greedy;
}

static bool reserve_scratch(kipu_sampler *s, size_t n) {
    if (n <= s->scratch_room) return true;
    kipu_free(s->scratch);
    s->scratch = kipu_alloc_array(n, sizeof *s->scratch);
    s->scratch_room = s->scratch ? n : 0;
    return s->scratch != NULL;
}

static kipu_status choose(kipu_sampler *s, const float *logits, size_t n, int32_t *token, kipu_error *err) {
    KIPU_REQUIRE(reserve_scratch(s, n), err, KIPU_E_MEMORY, "no memory for %zu candidates", n);
    for (size_t i = 0; i < n; i++) s->scratch[i] = (kipu_token_data){(int32_t)i, logits[i], 0};
    kipu_token_array a = {s->scratch, n, -1, false};
    kipu_sampler_apply(s, &a);
    KIPU_REQUIRE(a.selected >= 0 && (size_t)a.selected < a.size, err, KIPU_E_STATE,
                 "no sampler of '%s' selects a token; greedy or dist is missing", s->kind->name);
    *token = a.data[a.selected].id;
    return KIPU_OK;
}

kipu_status kipu_sampler_sample(kipu_sampler *s, const float *logits, int32_t n_vocab, int32_t *token, kipu_error *err) {
    int32_t chosen = -1;
    KIPU_REQUIRE(n_vocab > 0, err, KIPU_E_ARG, "n_vocab is %d, expected at least 1", (int)n_vocab);
    if (is_greedy(s)) chosen = (int32_t)kipu_first_maximum(logits, (size_t)n_vocab);
    else KIPU_TRY(choose(s, logits, (size_t)n_vocab, &chosen, err));
    kipu_sampler_accept(s, chosen);
    *token = chosen;
    return KIPU_OK;
}
