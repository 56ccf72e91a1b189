/* How close the AVX-512 matmul kernels come to the limits of one core.
 *
 *     A="-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vbmi -mavx512vnni"
 *     gcc -std=gnu11 -O3 -ffp-contract=off $A -mprefer-vector-width=512 -Icsrc benchmarks/kernels_bench.c csrc/kernels/avx512/[a-z]*.c \
 *         csrc/kernels/ref/[a-z]*.c csrc/quants/formats.c -lm -lpthread -o kernels_bench && ./kernels_bench [format ...]
 *
 * Prints the limits (register-only VNNI and FMA loops, streaming read), then per format: gemv GB/s over weights that do not fit any cache
 * and its share of the stream; gemm GMAC/s at few and at 512 tokens and its share of the VNNI peak (FMA peak for float formats).
 * Best of several; one thread. Limits are measured again beside every format, because shared machines change their mind. */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#include "kernels/tiers.h"

enum { COLD_BYTES = 288 << 20, MAX_TOKENS = 512, MAX_K = 2048, MAX_ROWS = 2048 };

/* CPU seconds of this thread: time given to other processes does not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Shortest of n calls, seconds. */
typedef void (*job)(void *arg);
static double best_of(int n, job f, void *arg) {
    double best = 1e9;
    while (n-- > 0) {
        double t = now();
        f(arg);
        t = now() - t;
        if (t < best)
            best = t;
    }
    return best;
}

/* ---------------------------------------------------------------------------------------------- limits */
enum { PEAK_LOOPS = 100000 };

static void vnni_loop(void *arg) {
    (void)arg;
    for (int i = 0; i < PEAK_LOOPS; i++)
        __asm__ volatile(
            "vpdpbusd %%zmm30, %%zmm31, %%zmm0\n vpdpbusd %%zmm30, %%zmm31, %%zmm1\n vpdpbusd %%zmm30, %%zmm31, %%zmm2\n"
            "vpdpbusd %%zmm30, %%zmm31, %%zmm3\n vpdpbusd %%zmm30, %%zmm31, %%zmm4\n vpdpbusd %%zmm30, %%zmm31, %%zmm5\n"
            "vpdpbusd %%zmm30, %%zmm31, %%zmm6\n vpdpbusd %%zmm30, %%zmm31, %%zmm7\n vpdpbusd %%zmm30, %%zmm31, %%zmm8\n"
            "vpdpbusd %%zmm30, %%zmm31, %%zmm9\n vpdpbusd %%zmm30, %%zmm31, %%zmm10\n vpdpbusd %%zmm30, %%zmm31, %%zmm11\n" ::
                : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
}

static void fma_loop(void *arg) {
    (void)arg;
    __asm__ volatile("vpxorq %%zmm30, %%zmm30, %%zmm30\n vpxorq %%zmm31, %%zmm31, %%zmm31" ::: "xmm30", "xmm31");
    for (int i = 0; i < PEAK_LOOPS; i++)
        __asm__ volatile(
            "vfmadd231ps %%zmm30, %%zmm31, %%zmm0\n vfmadd231ps %%zmm30, %%zmm31, %%zmm1\n vfmadd231ps %%zmm30, %%zmm31, %%zmm2\n"
            "vfmadd231ps %%zmm30, %%zmm31, %%zmm3\n vfmadd231ps %%zmm30, %%zmm31, %%zmm4\n vfmadd231ps %%zmm30, %%zmm31, %%zmm5\n"
            "vfmadd231ps %%zmm30, %%zmm31, %%zmm6\n vfmadd231ps %%zmm30, %%zmm31, %%zmm7\n vfmadd231ps %%zmm30, %%zmm31, %%zmm8\n"
            "vfmadd231ps %%zmm30, %%zmm31, %%zmm9\n vfmadd231ps %%zmm30, %%zmm31, %%zmm10\n vfmadd231ps %%zmm30, %%zmm31, %%zmm11\n" ::
                : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
}

static uint8_t *cold;

static void stream_loop(void *arg) {
    __m512i x = _mm512_setzero_si512();
    for (const uint8_t *p = cold; p < cold + COLD_BYTES; p += 256) {
        for (int i = 0; i < 256; i += 64) {
            _mm_prefetch((const char *)p + i + 4096, _MM_HINT_T0);
            x = _mm512_xor_si512(x, _mm512_load_si512(p + i));
        }
    }
    *(int *)arg = _mm512_reduce_add_epi32(x);
}

typedef struct limits { double vnni, fma, stream; } limits;   /* GMAC/s, GMAC/s, GB/s */

static limits measure_limits(void) {
    static volatile int sink;
    int sum;
    limits l;
    l.vnni = 64 * 12e-9 * PEAK_LOOPS / best_of(40, vnni_loop, NULL);
    l.fma = 16 * 12e-9 * PEAK_LOOPS / best_of(40, fma_loop, NULL);
    l.stream = 1e-9 * COLD_BYTES / best_of(5, stream_loop, &sum);
    sink = sum;
    (void)sink;
    return l;
}

/* ---------------------------------------------------------------------------------------------- one matrix product */
typedef struct product {
    const kipu_matmul_kernels *kernels;
    const uint8_t *panels;
    size_t panel_bytes;
    int n_panels;
    kipu_acts acts;
    float *y;
    void *scratch;
} product;

/* All of `cold`, as matrices of n_panels one behind the other. */
static void gemv_cold(void *arg) {
    const product *p = arg;
    size_t matrix = p->panel_bytes * p->n_panels;
    for (size_t at = 0; at + matrix <= COLD_BYTES; at += matrix)
        p->kernels->gemv(p->y, cold + at, p->n_panels, &p->acts, 0);
}

static void gemm_cold(void *arg) {
    const product *p = arg;
    size_t matrix = p->panel_bytes * p->n_panels;
    for (size_t at = 0; at + matrix <= COLD_BYTES; at += matrix)
        p->kernels->gemm(p->y, cold + at, p->n_panels, &p->acts, 0, p->acts.n, p->scratch);
}

static void gemm_warm(void *arg) {
    const product *p = arg;
    int step = p->kernels->gemm_panels;
    for (int i = 0; i < p->n_panels; i += step)
        p->kernels->gemm(p->y, p->panels + i * p->panel_bytes, p->n_panels - i < step ? p->n_panels - i : step, &p->acts, 0, p->acts.n,
                         p->scratch);
}

static kipu_acts activations(int n, int k) {
    static float x[MAX_TOKENS * MAX_K], d[MAX_TOKENS * MAX_K / 32];
    static int8_t q[MAX_TOKENS * MAX_K];
    static int32_t s[MAX_TOKENS * MAX_K / 32];
    memset(s, 0, sizeof s);
    for (int i = 0; i < n * k; i++) {
        q[i] = (int8_t)(i * 7 % 255 - 127);
        x[i] = 0.01f * q[i];
        s[i / 32] += q[i];
    }
    for (int i = 0; i < n * k / 32; i++)
        d[i] = 0.01f;
    return (kipu_acts){n, k, x, q, d, s};
}

static product make_product(const kipu_matmul_kernels *kernels, int type, int n, int rows, int k) {
    static float y[MAX_TOKENS * MAX_ROWS];
    static _Alignas(64) uint8_t scratch[KIPU_GEMM_SCRATCH];
    return (product){kernels, cold, KIPU_PANEL_ROWS * kipu_row_bytes(type, k), rows / KIPU_PANEL_ROWS, activations(n, k), y, scratch};
}

static double gmacs(int type, const kipu_matmul_kernels *kernels, int n, int rows, int k) {
    product p = make_product(kernels, type, n, rows, k);
    return 1e-9 * n * rows * k / best_of(n < 64 ? 200 : 30, gemm_warm, &p);
}

static void bench_format(int type, const kipu_matmul_kernels *kernels) {
    static const int shapes[][2] = {{576, 576}, {1536, 576}, {576, 1536}, {2048, 2048}};   /* rows, k */
    limits l = measure_limits();
    double peak = type == KIPU_F32 || type == KIPU_F16 || type == KIPU_BF16 ? l.fma : l.vnni;
    product p = make_product(kernels, type, 1, 2048, 2048);
    double gemv = 1e-9 * COLD_BYTES / best_of(5, gemv_cold, &p);
    printf("%-5s gemv %5.1f GB/s = %.2f of stream | cold gemm, share of stream:", kipu_format_of(type)->name, gemv, gemv / l.stream);
    for (int n = 2; n <= 8; n += n < 4 ? 1 : 2) {
        p = make_product(kernels, type, n, 2048, 2048);
        printf(" n=%d %.2f", n, 1e-9 * COLD_BYTES / best_of(3, gemm_cold, &p) / l.stream);
    }
    printf("\n      gemm GMAC/s (share of %.0f):", peak);
    for (int i = 0; i < 4; i++) {
        double g = shapes[i][1] % kipu_format_of(type)->block ? 0 : gmacs(type, kernels, 512, shapes[i][0], shapes[i][1]);
        printf(" %dx%d %.0f (%.2f)", shapes[i][0], shapes[i][1], g, g / peak);
    }
    printf(" | 2048x2048:");
    for (int n = 1; n <= 7; n += 2) {
        double g = gmacs(type, kernels, n, 2048, 2048);
        printf(" n=%d %.0f (%.2f)", n, g, g / peak);
    }
    printf("\n");
    fflush(stdout);
}

static int wanted(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcasecmp(name, argv[i]) == 0)
            return 1;
    return argc == 1;
}

int main(int argc, char **argv) {
    static const int types[] = {KIPU_Q4_1, KIPU_Q8_0, KIPU_Q5_0, KIPU_Q4_0, KIPU_Q4_K, KIPU_Q6_K, KIPU_Q5_K, KIPU_Q5_1,
                                KIPU_F16,  KIPU_F32,  KIPU_BF16};
    cold = mmap(NULL, COLD_BYTES + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (cold == MAP_FAILED)
        return 1;
    cold = (uint8_t *)(((uintptr_t)cold + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
    madvise(cold, COLD_BYTES, MADV_HUGEPAGE);
    memset(cold, 0x11, COLD_BYTES);   /* as half floats 0.0006, as floats 1e-28: nothing denormal */
    limits l = measure_limits();
    printf("limits, one thread: VNNI %.0f GMAC/s, FMA %.0f GMAC/s, streaming read %.1f GB/s\n", l.vnni, l.fma, l.stream);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (wanted(kipu_format_of(types[i])->name, argc, argv))
            bench_format(types[i], kipu_kernels_avx512()->matmul[types[i]]);
    return 0;
}
