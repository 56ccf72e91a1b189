/* What the processor and the operating system offer. Detected once, read-only afterwards; any thread. */
#ifndef KIPU_BASE_CPU_H
#define KIPU_BASE_CPU_H

#include <stdbool.h>
#include "base/error.h"

typedef enum kipu_tier { KIPU_TIER_REF = 0, KIPU_TIER_AVX2, KIPU_TIER_AVX512, KIPU_TIER_NEON, KIPU_TIER_COUNT } kipu_tier;

/* True if processor and OS register state (cpuid and xgetbv, or hwcaps) allow the tier's instructions.
 * avx2: AVX2, FMA, F16C. avx512: F, BW, VL, DQ, VBMI, VNNI (and what avx2 needs). ref: always. */
bool kipu_cpu_has(kipu_tier tier);

/* "ref", "avx2", "avx512", "neon". Static storage. */
const char *kipu_tier_name(kipu_tier tier);

/* Tier with this name; KIPU_E_ARG names the known ones. */
kipu_status kipu_tier_from_name(const char *name, kipu_tier *tier, kipu_error *err);

/* Feature list for humans, "AVX2 = 1 | AVX512_VNNI = 1 | ", only what is present; at most `size` bytes, NUL-terminated. Length written. */
int kipu_cpu_describe(char *text, int size);

/* CPUs this process may really use: scheduling affinity capped by the cgroup v1/v2 CPU quota (rounded up), at least 1.
 * KIPU_CPUS=n replaces the count (tests). KIPU_SYSFS_ROOT=dir replaces "/" for the cgroup files (tests). */
int kipu_cpu_usable(void);

/* Physical cores among the CPUs of the affinity mask, capped by the quota, at least 1. The default thread count. */
int kipu_cpu_physical(void);

#endif
