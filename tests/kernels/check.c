/* check [TIER] [--filter TEXT] [--time]
 *
 * Runs every kernel of every tier that this machine has (or of TIER) and compares it with ref. The last line counts; exit code 0 if
 * nothing failed, 1 if something did, 2 for wrong arguments, 3 after a crash (which names its case). --time measures instead. */
#define _GNU_SOURCE
#include "check.h"
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/half.h"

static const char *filter;
static char name_of_case[256];
static long n_passed, n_failed;

bool check_wants(const kipu_kernels *k, const char *name) {
    char text[128];
    snprintf(text, sizeof text, "%s %s", kipu_tier_name(k->tier), name);
    return !filter || strstr(text, filter);
}

void check_case(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(name_of_case, sizeof name_of_case, format, args);
    va_end(args);
}

void check_end(bool ok) {
    if (ok) n_passed++;
    else if (++n_failed <= 40) printf("FAILED %s\n", name_of_case);
    else if (n_failed == 41) printf("... further failures are only counted\n");
}

bool check_floats(const char *what, const float *got, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (kipu_float_to_bits(got[i]) == kipu_float_to_bits(want[i]) || (isnan(got[i]) && isnan(want[i]))) continue;
        if (n_failed < 40) printf("  %s[%zu] = %a (%g), expected %a (%g)\n", what, i, got[i], got[i], want[i], want[i]);
        return false;
    }
    return true;
}

bool check_bytes(const char *what, const void *got, const void *want, size_t n) {
    const unsigned char *g = got, *w = want;
    for (size_t i = 0; i < n; i++) {
        if (g[i] == w[i]) continue;
        if (n_failed < 40) printf("  %s: byte %zu = 0x%02x, expected 0x%02x\n", what, i, g[i], w[i]);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------- random numbers: splitmix64 */

static uint64_t random_state;

uint64_t check_random(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int check_below(int n) { return (int)(check_random() % (uint64_t)n); }

/* Sum of twelve uniform numbers: near enough to a normal distribution. */
float check_gauss(void) {
    float sum = -6;
    for (int i = 0; i < 12; i++) sum += (float)(check_random() >> 40) * 0x1p-24f;
    return sum;
}

float check_special(void) {
    static const uint32_t bits[] = {
        0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000, 0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
        0x7f7fffff, 0xff7fffff, 0x3f800000, 0xbf800000, 0x42b17217, 0x42b17218, 0xc2aeac4f, 0xc2aeac50, 0x477fe000, 0x33000000,
    };
    return kipu_bits_to_float(bits[check_below((int)(sizeof bits / sizeof bits[0]))]);
}

void check_fill(void *p, size_t size) {
    for (unsigned char *c = p; size > 0; size--) *c++ = (unsigned char)check_random();
}

void check_fill_gauss(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = check_gauss();
}

/* ------------------------------------------------------------------------------- main */

static void say(const char *text) {
    if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(3);
}

static void crashed(int signal_number) {
    say(signal_number == SIGILL ? "\nILLEGAL INSTRUCTION in " : "\nCRASHED (touched a guard page?) in ");
    say(name_of_case);
    say("\n");
    _exit(3);
}

static void run(const kipu_kernels *k, bool timing) {
    random_state = 20240229;   /* every tier and every filter sees the same inputs */
    if (timing) {
        check_time(k);
        return;
    }
    long before = n_passed + n_failed;
    const kipu_kernels *ref = kipu_kernels_of(KIPU_TIER_REF);
    check_matmul(k, ref);
    check_vector(k, ref);
    check_attention(k, ref);
    printf("%s: %ld cases\n", kipu_tier_name(k->tier), n_passed + n_failed - before);
}

int main(int argc, char **argv) {
    bool timing = false, all = true;
    kipu_tier only = KIPU_TIER_REF;
    kipu_error err = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--time")) timing = true;
        else if (!strcmp(argv[i], "--filter") && i + 1 < argc) filter = argv[++i];
        else if (kipu_tier_from_name(argv[i], &only, &err) == KIPU_OK) all = false;
        else return printf("usage: check [tier] [--filter text] [--time]\n%s\n", err.message), 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int s = 0; s < 4; s++) signal((const int[]){SIGSEGV, SIGBUS, SIGILL, SIGFPE}[s], crashed);
    for (int tier = 0; tier < KIPU_TIER_COUNT; tier++) {
        const kipu_kernels *k = kipu_kernels_of((kipu_tier)tier);
        if (!all && tier != (int)only) continue;
        if (k) run(k, timing);
        else printf("%s: not in this build or not on this machine\n", kipu_tier_name((kipu_tier)tier));
    }
    if (!timing) printf("%ld passed, %ld failed\n", n_passed, n_failed);
    return n_failed ? 1 : 0;
}
