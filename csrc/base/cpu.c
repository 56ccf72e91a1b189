#include "base/cpu.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A feature is a bit of one of the machine's feature words, and the register state that the system must save for it. */
typedef struct feature {
    const char *name;
    int word, bit;
    uint64_t state;
} feature;

static const char *const tier_names[KIPU_TIER_COUNT] = {"ref", "avx2", "avx512", "neon"};

enum { IMPOSSIBLE = 1 << 30 };   /* a feature bit that no machine has: tiers of other machines need it */

#define BIT(feature) (1u << (feature))

#if defined(__x86_64__)
#include <cpuid.h>

enum { LEAF1_ECX, LEAF7_EBX, LEAF7_ECX, LEAF7_1_EAX, N_WORDS };
enum { YMM = 0x06, ZMM = 0xe6 };   /* bits of XCR0: SSE and AVX state; and the three parts of AVX-512 state */
enum { FMA, F16C, AVX, AVX2, AVX512F, AVX512BW, AVX512VL, AVX512DQ, AVX512_VBMI, AVX512_VNNI, AVX512_BF16, AVX_VNNI, N_FEATURES };

static const feature features[N_FEATURES] = {
    [FMA] = {"FMA", LEAF1_ECX, 12, YMM},
    [F16C] = {"F16C", LEAF1_ECX, 29, YMM},
    [AVX] = {"AVX", LEAF1_ECX, 28, YMM},
    [AVX2] = {"AVX2", LEAF7_EBX, 5, YMM},
    [AVX512F] = {"AVX512F", LEAF7_EBX, 16, ZMM},
    [AVX512BW] = {"AVX512BW", LEAF7_EBX, 30, ZMM},
    [AVX512VL] = {"AVX512VL", LEAF7_EBX, 31, ZMM},
    [AVX512DQ] = {"AVX512DQ", LEAF7_EBX, 17, ZMM},
    [AVX512_VBMI] = {"AVX512_VBMI", LEAF7_ECX, 1, ZMM},
    [AVX512_VNNI] = {"AVX512_VNNI", LEAF7_ECX, 11, ZMM},
    [AVX512_BF16] = {"AVX512_BF16", LEAF7_1_EAX, 5, ZMM},
    [AVX_VNNI] = {"AVX_VNNI", LEAF7_1_EAX, 4, YMM},
};

enum { AVX2_TIER = BIT(FMA) | BIT(F16C) | BIT(AVX) | BIT(AVX2) };

static const uint32_t tier_needs[KIPU_TIER_COUNT] = {
    [KIPU_TIER_AVX2] = AVX2_TIER,
    [KIPU_TIER_AVX512] = AVX2_TIER | BIT(AVX512F) | BIT(AVX512BW) | BIT(AVX512VL) | BIT(AVX512DQ) | BIT(AVX512_VBMI) | BIT(AVX512_VNNI),
    [KIPU_TIER_NEON] = IMPOSSIBLE,
};

/* Fills the feature words (absent leaves stay 0). Returns the register state that the system saves, 0 if it does not say. */
static uint64_t read_words(uint32_t words[N_WORDS]) {
    enum { OSXSAVE = 27 };
    uint32_t a, b, c, d, last_subleaf;
    if (!__get_cpuid(1, &a, &b, &words[LEAF1_ECX], &d)) return 0;
    if (__get_cpuid_count(7, 0, &last_subleaf, &words[LEAF7_EBX], &words[LEAF7_ECX], &d) && last_subleaf >= 1)
        __get_cpuid_count(7, 1, &words[LEAF7_1_EAX], &b, &c, &d);
    if (!(words[LEAF1_ECX] >> OSXSAVE & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

enum { CAP, CAP2, N_WORDS };
enum { NEON, FP16, DOTPROD, I8MM, N_FEATURES };

static const feature features[N_FEATURES] = {   /* bits of Linux: arch/arm64, uapi/asm/hwcap.h */
    [NEON] = {"NEON", CAP, 1, 0},
    [FP16] = {"FP16", CAP, 10, 0},
    [DOTPROD] = {"DOTPROD", CAP, 20, 0},
    [I8MM] = {"I8MM", CAP2, 13, 0},
};

static const uint32_t tier_needs[KIPU_TIER_COUNT] = {
    [KIPU_TIER_AVX2] = IMPOSSIBLE,
    [KIPU_TIER_AVX512] = IMPOSSIBLE,
    [KIPU_TIER_NEON] = BIT(NEON) | BIT(FP16) | BIT(DOTPROD),
};

static uint64_t read_words(uint32_t words[N_WORDS]) {
    words[CAP] = (uint32_t)getauxval(AT_HWCAP);
    words[CAP2] = (uint32_t)getauxval(AT_HWCAP2);
    return 0;
}

#else

enum { N_WORDS = 1, N_FEATURES = 1 };

static const feature features[N_FEATURES] = {{"", 0, 0, 0}};
static const uint32_t tier_needs[KIPU_TIER_COUNT] = {0, IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE};

static uint64_t read_words(uint32_t words[N_WORDS]) { return words[0]; }

#endif

/* ------------------------------------------------------------------------------------------------ */

static uint32_t present;   /* bit = feature */

static void detect(void) {
    uint32_t words[N_WORDS] = {0};
    uint64_t saved = read_words(words);
    for (int i = 0; i < N_FEATURES; i++)
        if (words[features[i].word] >> features[i].bit & 1 && (saved & features[i].state) == features[i].state) present |= BIT(i);
}

/* Once: under a hypervisor each cpuid costs tens of microseconds. */
static uint32_t present_features(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, detect);
    return present;
}

bool kipu_cpu_has(kipu_tier tier) { return tier < KIPU_TIER_COUNT && (present_features() & tier_needs[tier]) == tier_needs[tier]; }

int kipu_cpu_describe(char *text, int size) {
    int at = 0;
    if (size > 0) text[0] = 0;
    for (int i = 0; i < N_FEATURES; i++) {
        char entry[64];
        int n = snprintf(entry, sizeof entry, "%s = 1 | ", features[i].name);
        if (!(present_features() & BIT(i)) || n >= size - at) continue;
        memcpy(text + at, entry, n + 1);
        at += n;
    }
    return at;
}

const char *kipu_tier_name(kipu_tier tier) { return tier < KIPU_TIER_COUNT ? tier_names[tier] : "?"; }

kipu_status kipu_tier_from_name(const char *name, kipu_tier *tier, kipu_error *err) {
    for (int t = 0; t < KIPU_TIER_COUNT; t++) {
        if (strcmp(name, tier_names[t])) continue;
        *tier = (kipu_tier)t;
        return KIPU_OK;
    }
    return kipu_fail(err, KIPU_E_ARG, "unknown kernel tier '%.64s', expected ref, avx2, avx512 or neon", name);
}
