/* How many CPUs: what the scheduler allows (affinity), what the container pays for (cgroup quota), what is a core of its own. */
#define _GNU_SOURCE   /* sched_getaffinity, CPU_COUNT */
#include "base/cpu.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 1024, MAX_CPUS = 512 };

/* ------------------------------------------------------------------------------------------------ files */

/* Opens "dir" + "name" below the system root (KIPU_SYSFS_ROOT in tests). */
static FILE *open_system(const char *dir, const char *name) {
    const char *root = getenv("KIPU_SYSFS_ROOT");
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s%s%s", root ? root : "", dir, name);
    return n < (int)sizeof path ? fopen(path, "re") : NULL;
}

static bool read_line(const char *dir, const char *name, char line[LINE_BYTES]) {
    FILE *file = open_system(dir, name);
    if (!file) return false;
    bool ok = fgets(line, LINE_BYTES, file) != NULL;
    fclose(file);
    return ok;
}

/* ------------------------------------------------------------------------------------------------ quota */

/* CPUs per period; infinite where there is none ("max", -1) or the files make no sense. */
static double ratio(double quota, double period) { return quota > 0 && period > 0 ? quota / period : INFINITY; }

/* cgroup v2, cpu.max: "150000 100000" or "max 100000" */
static double quota_v2(const char *dir) {
    char line[LINE_BYTES];
    double quota, period;
    return read_line(dir, "/cpu.max", line) && sscanf(line, "%lf %lf", &quota, &period) == 2 ? ratio(quota, period) : INFINITY;
}

/* cgroup v1: one number in each of two files */
static double quota_v1(const char *dir) {
    char quota[LINE_BYTES], period[LINE_BYTES];
    if (!read_line(dir, "/cpu.cfs_quota_us", quota) || !read_line(dir, "/cpu.cfs_period_us", period)) return INFINITY;
    return ratio(atof(quota), atof(period));
}

/* The smallest quota on the way from a group up to the root of its hierarchy: each one binds. In a container the group's path may
 * be the host's and exist only in part here; the way up still ends at the container's own root. */
static double quota_along(const char *mount, const char *group, double (*quota_of)(const char *dir)) {
    char dir[PATH_BYTES];
    int n = snprintf(dir, sizeof dir, "%s%s", mount, group);
    double smallest = INFINITY;
    if (n >= (int)sizeof dir) return smallest;
    for (size_t root = strlen(mount);;) {
        smallest = fmin(smallest, quota_of(dir));
        char *cut = strrchr(dir + root, '/');
        if (!cut) return smallest;
        *cut = 0;
    }
}

/* Is "cpu" one of "cpu,cpuacct"? ("cpuset" is another one.) */
static bool lists_cpu(const char *controllers) {
    for (const char *at = controllers; *at;) {
        size_t n = strcspn(at, ",");
        if (n == 3 && !memcmp(at, "cpu", 3)) return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* One line of /proc/self/cgroup: "0::/group" (v2) or "4:cpu,cpuacct:/group" (v1). The line is cut to pieces. */
static double quota_of_line(char *line) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return INFINITY;
    controllers++;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    if (!*controllers) return quota_along("/sys/fs/cgroup", group, quota_v2);
    if (!lists_cpu(controllers)) return INFINITY;
    return fmin(quota_along("/sys/fs/cgroup/cpu", group, quota_v1), quota_along("/sys/fs/cgroup/cpu,cpuacct", group, quota_v1));
}

static double cgroup_quota(void) {
    char line[LINE_BYTES];
    double smallest = INFINITY;
    FILE *file = open_system("/proc/self", "/cgroup");
    if (!file) return smallest;
    while (fgets(line, sizeof line, file)) smallest = fmin(smallest, quota_of_line(line));
    fclose(file);
    return smallest;
}

static int cap_by_quota(int n) { return (int)fmax(1, fmin(n, ceil(cgroup_quota()))); }

/* ------------------------------------------------------------------------------------------------ affinity and cores */

static int count_online(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* Has the core of `cpu` a smaller CPU in the set? list: its siblings, "0-1,64-65". */
static bool has_earlier_sibling(const char *list, int cpu, const cpu_set_t *set) {
    for (char *at = (char *)list;;) {
        char *end;
        long from = strtol(at, &end, 10), to = from;
        if (end == at) return false;
        if (*end == '-') to = strtol(end + 1, &end, 10);
        for (long s = from; s >= 0 && s <= to && s < cpu; s++)
            if (CPU_ISSET(s, set)) return true;
        if (*end != ',') return false;
        at = end + 1;
    }
}

static int count_cores(const cpu_set_t *set) {
    int cores = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char dir[128], list[LINE_BYTES];
        if (!CPU_ISSET(cpu, set)) continue;
        snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%d/topology", cpu);
        cores += !read_line(dir, "/thread_siblings_list", list) || !has_earlier_sibling(list, cpu, set);
    }
    return cores;
}

/* KIPU_CPUS, 0: not set or not a count. */
static int forced_count(void) {
    const char *text = getenv("KIPU_CPUS");
    int n = text ? atoi(text) : 0;
    return n > 0 && n <= MAX_CPUS ? n : 0;
}

int kipu_cpu_usable(void) {
    cpu_set_t set;
    if (forced_count()) return forced_count();
    return cap_by_quota(sched_getaffinity(0, sizeof set, &set) ? count_online() : CPU_COUNT(&set));
}

int kipu_cpu_physical(void) {
    cpu_set_t set;
    if (forced_count()) return forced_count();
    return cap_by_quota(sched_getaffinity(0, sizeof set, &set) ? count_online() : count_cores(&set));
}
