#define _GNU_SOURCE   /* sched_getaffinity, CPU_COUNT */
#include "base/cpu.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ features */

typedef struct feature { const char *name; bool present; } feature;

#if defined(__x86_64__)
#include <cpuid.h>

/* Register state the operating system saves: bit 1 SSE, 2 AVX, 5..7 AVX-512. */
static uint64_t saved_state(void) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

enum { FMA, F16C, AVX, AVX2, AVX512F, AVX512BW, AVX512VL, AVX512DQ, AVX512_VBMI, AVX512_VNNI, AVX512_BF16, AVX_VNNI, N_FEATURES };

static void detect(feature f[N_FEATURES]) {
    uint32_t a = 0, b1, c1 = 0, d1, b7 = 0, c7 = 0, d7, a71 = 0, b, c, d;
    __get_cpuid(1, &a, &b1, &c1, &d1);
    bool leaf7 = __get_cpuid_count(7, 0, &a, &b7, &c7, &d7), more = leaf7 && a >= 1 && __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    if (!leaf7) b7 = c7 = 0;
    if (!more) a71 = 0;
    uint64_t saved = saved_state();
    bool avx = (saved & 6) == 6, avx512 = (saved & 0xe6) == 0xe6;
    const feature all[N_FEATURES] = {
        [FMA] = {"FMA", avx && c1 >> 12 & 1}, [F16C] = {"F16C", avx && c1 >> 29 & 1}, [AVX] = {"AVX", avx && c1 >> 28 & 1},
        [AVX2] = {"AVX2", avx && b7 >> 5 & 1}, [AVX512F] = {"AVX512F", avx512 && b7 >> 16 & 1}, [AVX512BW] = {"AVX512BW", avx512 && b7 >> 30 & 1},
        [AVX512VL] = {"AVX512VL", avx512 && b7 >> 31 & 1}, [AVX512DQ] = {"AVX512DQ", avx512 && b7 >> 17 & 1},
        [AVX512_VBMI] = {"AVX512_VBMI", avx512 && c7 >> 1 & 1}, [AVX512_VNNI] = {"AVX512_VNNI", avx512 && c7 >> 11 & 1},
        [AVX512_BF16] = {"AVX512_BF16", avx512 && a71 >> 5 & 1}, [AVX_VNNI] = {"AVX_VNNI", avx && a71 >> 4 & 1}};
    memcpy(f, all, sizeof all);
}

static bool all_of(const feature *f, int from, int to) {
    for (int i = from; i <= to; i++)
        if (!f[i].present) return false;
    return true;
}

bool kipu_cpu_has(kipu_tier tier) {
    feature f[N_FEATURES];
    detect(f);
    switch (tier) {
    case KIPU_TIER_REF: return true;
    case KIPU_TIER_AVX2: return all_of(f, FMA, AVX2);
    case KIPU_TIER_AVX512: return all_of(f, FMA, AVX512_VNNI);
    default: return false;
    }
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

enum { NEON, DOTPROD, I8MM, N_FEATURES };
enum { HWCAP_DOTPROD = 1 << 20, HWCAP_SIMD = 1 << 1, HWCAP2_I8MM_BIT = 1 << 13 };

static void detect(feature f[N_FEATURES]) {
    unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);
    f[NEON] = (feature){"NEON", cap & HWCAP_SIMD};
    f[DOTPROD] = (feature){"DOTPROD", cap & HWCAP_DOTPROD};
    f[I8MM] = (feature){"I8MM", cap2 & HWCAP2_I8MM_BIT};
}

bool kipu_cpu_has(kipu_tier tier) {
    feature f[N_FEATURES];
    detect(f);
    return tier == KIPU_TIER_REF || (tier == KIPU_TIER_NEON && f[NEON].present && f[DOTPROD].present);
}

#else

enum { N_FEATURES = 0 };
static void detect(feature *f) { (void)f; }
bool kipu_cpu_has(kipu_tier tier) { return tier == KIPU_TIER_REF; }

#endif

int kipu_cpu_describe(char *text, int size) {
    feature f[N_FEATURES + 1];
    int at = 0;
    detect(f);
    if (size > 0) text[0] = 0;
    for (int i = 0; i < N_FEATURES; i++) {
        if (!f[i].present) continue;
        int n = snprintf(text + at, size - at, "%s = 1 | ", f[i].name);
        if (n < 0 || n >= size - at) break;
        at += n;
    }
    return at;
}

/* ------------------------------------------------------------------------------------------------ tiers */

static const char *const tier_names[KIPU_TIER_COUNT] = {"ref", "avx2", "avx512", "neon"};

const char *kipu_tier_name(kipu_tier tier) { return tier < KIPU_TIER_COUNT ? tier_names[tier] : "?"; }

kipu_status kipu_tier_from_name(const char *name, kipu_tier *tier, kipu_error *err) {
    for (int t = 0; t < KIPU_TIER_COUNT; t++) {
        if (strcmp(name, tier_names[t])) continue;
        *tier = (kipu_tier)t;
        return KIPU_OK;
    }
    return kipu_fail(err, KIPU_E_ARG, "KIPU_CPU is '%.64s', expected ref, avx2, avx512 or neon", name);
}

/* ------------------------------------------------------------------------------------------------ how many */

/* First line of a file below the system root (KIPU_SYSFS_ROOT in tests). */
static bool read_line(const char *path, char *line, int size) {
    const char *root = getenv("KIPU_SYSFS_ROOT");
    char full[1024];
    if (snprintf(full, sizeof full, "%s%s", root ? root : "", path) >= (int)sizeof full) return false;
    FILE *f = fopen(full, "re");
    if (!f) return false;
    bool ok = fgets(line, size, f) != NULL;
    fclose(f);
    return ok;
}

static double quota_v2(const char *dir) {
    char path[768], line[128];
    double quota, period;
    if (snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", dir) >= (int)sizeof path) return 0;
    return read_line(path, line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period : 0;
}

static double quota_v1(const char *dir) {
    static const char *const mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    for (int i = 0; i < 2; i++) {
        char path[768], line[128];
        if (snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", mounts[i], dir) >= (int)sizeof path || !read_line(path, line, sizeof line)) continue;
        double quota = atof(line);
        snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", mounts[i], dir);
        double period = read_line(path, line, sizeof line) ? atof(line) : 0;
        return quota > 0 && period > 0 ? quota / period : 0;
    }
    return 0;
}

/* The smallest quota on the way from a group up to the root; 0: none. `dir` is eaten. */
static double smallest_quota(char *dir, double (*quota_of)(const char *)) {
    double smallest = 0;
    for (;;) {
        double q = quota_of(dir);
        if (q > 0 && (smallest == 0 || q < smallest)) smallest = q;
        char *cut = strrchr(dir, '/');
        if (!cut) return smallest;
        *cut = 0;
    }
}

/* /proc/self/cgroup: "0::/group" (v2) or "4:cpu,cpuacct:/group" (v1). */
static double cgroup_quota(void) {
    const char *root = getenv("KIPU_SYSFS_ROOT");
    char full[1024], line[768];
    double smallest = 0;
    if (snprintf(full, sizeof full, "%s/proc/self/cgroup", root ? root : "") >= (int)sizeof full) return 0;
    FILE *f = fopen(full, "re");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':'), *dir = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!dir) continue;
        *dir++ = 0;
        dir[strcspn(dir, "\n")] = 0;
        if (!strcmp(dir, "/")) *dir = 0;
        bool v2 = controllers[1] == 0;
        if (!v2 && !strstr(controllers, "cpu")) continue;
        double q = smallest_quota(dir, v2 ? quota_v2 : quota_v1);
        if (q > 0 && (smallest == 0 || q < smallest)) smallest = q;
    }
    fclose(f);
    return smallest;
}

static int affinity_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static int cap_by_quota(int n) {
    double quota = cgroup_quota();
    int whole = (int)quota + (quota > (int)quota);
    return quota > 0 && whole < n ? (whole > 0 ? whole : 1) : n;
}

static int forced_count(void) {
    const char *n = getenv("KIPU_CPUS");
    int count = n ? atoi(n) : 0;
    return count > 0 && count <= 512 ? count : 0;
}

int kipu_cpu_usable(void) {
    int forced = forced_count();
    return forced ? forced : cap_by_quota(affinity_count());
}

/* CPUs of the mask that are the first of the mask in their core's list of siblings. */
static int cores_in_affinity(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return affinity_count();
    int cores = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[128], line[256];
        if (!CPU_ISSET(cpu, &set)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        bool first = true;
        if (read_line(path, line, sizeof line))
            for (char *at = line; at && *at; at = strpbrk(at, ",") ? strpbrk(at, ",") + 1 : NULL) {
                int from = atoi(at), to = strchr(at, '-') && (!strchr(at, ',') || strchr(at, '-') < strchr(at, ',')) ? atoi(strchr(at, '-') + 1) : from;
                for (int s = from; s <= to && s < cpu; s++) first = first && !CPU_ISSET(s, &set);
            }
        cores += first;
    }
    return cores > 0 ? cores : 1;
}

int kipu_cpu_physical(void) {
    int forced = forced_count();
    return forced ? forced : cap_by_quota(cores_in_affinity());
}
