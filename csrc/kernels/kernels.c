/* The choice of a tier: once, at the first question. */
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include "kernels/tiers.h"

const kipu_kernels *kipu_kernels_of(kipu_tier tier) {
    if (!kipu_cpu_has(tier)) return NULL;
    switch (tier) {
    case KIPU_TIER_REF: return kipu_kernels_ref();
#ifdef KIPU_HAVE_AVX2
    case KIPU_TIER_AVX2: return kipu_kernels_avx2();
#endif
#ifdef KIPU_HAVE_AVX512
    case KIPU_TIER_AVX512: return kipu_kernels_avx512();
#endif
#ifdef KIPU_HAVE_NEON
    case KIPU_TIER_NEON: return kipu_kernels_neon();
#endif
    default: return NULL;
    }
}

typedef struct choice {
    const kipu_kernels *kernels;
    kipu_error err;
} choice;

static choice chosen;

static void choose_best(void) {
    static const kipu_tier best_first[] = {KIPU_TIER_AVX512, KIPU_TIER_AVX2, KIPU_TIER_NEON, KIPU_TIER_REF};
    for (int i = 0; !chosen.kernels; i++) chosen.kernels = kipu_kernels_of(best_first[i]);
}

static void choose(void) {
    const char *wanted = getenv("KIPU_CPU");
    kipu_error *err = &chosen.err;
    kipu_tier tier;
    if (!wanted || !*wanted) {
        choose_best();
    } else if (kipu_tier_from_name(wanted, &tier, err)) {
        kipu_fail(err, err->status, "KIPU_CPU: %s", err->message);
    } else if (!(chosen.kernels = kipu_kernels_of(tier))) {
        const char *reason = kipu_cpu_has(tier) ? "build was made without" : "machine cannot run";
        kipu_fail(err, KIPU_E_UNSUPPORTED, "KIPU_CPU: kernel tier '%s', which this %s", wanted, reason);
    }
}

kipu_status kipu_kernels_get(const kipu_kernels **out, kipu_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    KIPU_REQUIRE(chosen.kernels, err, chosen.err.status, "%s", chosen.err.message);
    *out = chosen.kernels;
    return KIPU_OK;
}
