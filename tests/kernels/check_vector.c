/* Kernels over vectors: all lengths up to 100 and some long ones, with NaN, infinities and subnormals among the inputs. */
#include "check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/half.h"

/* ------------------------------------------------------------------------------- one call
 * All kernels are brought to one form: up to three float inputs, float output; `in_place`: the output is input number in_place - 1. */

typedef struct vector_case {
    const kipu_kernels *k;
    float *y;
    const float *a, *b, *c;
    int64_t n;
    float f;      /* eps, factor or cap */
} vector_case;

static void call_rms_norm(const vector_case *v) { v->k->rms_norm(v->y, v->a, v->b, v->n, v->f); }
static void call_rms_norm_plain(const vector_case *v) { v->k->rms_norm(v->y, v->a, NULL, v->n, v->f); }
static void call_swiglu(const vector_case *v) { v->k->swiglu(v->y, v->a, v->b, v->n); }
static void call_geglu(const vector_case *v) { v->k->geglu(v->y, v->a, v->b, v->n); }
static void call_add(const vector_case *v) { v->k->add(v->y, v->a, v->b, v->n); }
static void call_scale(const vector_case *v) { v->k->scale(v->y, v->a, v->f, v->n); }
static void call_softcap(const vector_case *v) { v->k->softcap(v->y, v->a, v->f, v->n); }
static void call_rope_norm(const vector_case *v) { v->k->rope_norm(v->y, v->b, v->c, (int)v->n); }
static void call_rope_neox(const vector_case *v) { v->k->rope_neox(v->y, v->b, v->c, (int)v->n); }

typedef struct vector_kernel {
    const char *name;
    void (*call)(const vector_case *v);
    bool in_place_only, may_be_a, may_be_b, even;
} vector_kernel;

static const vector_kernel vector_kernels[] = {
    {"rms_norm", call_rms_norm, false, true, false, false},
    {"rms_norm w=NULL", call_rms_norm_plain, false, true, false, false},
    {"swiglu", call_swiglu, false, false, false, false},
    {"geglu", call_geglu, false, false, false, false},
    {"add", call_add, false, true, true, false},
    {"scale", call_scale, false, false, false, false},
    {"softcap", call_softcap, false, false, false, false},
    {"rope_norm", call_rope_norm, true, true, false, true},
    {"rope_neox", call_rope_neox, true, true, false, true},
};

/* kind 0: normal; 1: every tenth special; 2: large, so that exp over- and underflows; 3: all special. */
static void fill_inputs(float *x, size_t n, int kind) {
    for (size_t i = 0; i < n; i++) {
        x[i] = check_gauss() * (kind == 2 ? 60 : 2);
        if (kind == 3 || (kind == 1 && check_below(10) == 0)) x[i] = check_special();
    }
}

/* The output of one tier, into a fresh buffer or over input a (1) or b (2). */
static check_buffer run_vector(const vector_kernel *kernel, const kipu_kernels *k, const check_buffer in[3], size_t n, float f,
                               int in_place, check_place place) {
    check_buffer y = check_alloc(4 * n, place);
    if (in_place) memcpy(y.data, in[in_place - 1].data, 4 * n);
    vector_case v = {k, y.data, in[0].data, in[1].data, in[2].data, (int64_t)n, f};
    if (in_place == 1) v.a = y.data;
    if (in_place == 2) v.b = y.data;
    kernel->call(&v);
    return y;
}

static void check_vector_case(const vector_kernel *kernel, const kipu_kernels *k, const kipu_kernels *ref, size_t n, int kind,
                              int in_place) {
    check_place place = check_below(2) ? CHECK_AT_START : CHECK_AT_END;
    size_t n_table = kernel->even ? n / 2 : n;
    check_buffer in[3] = {check_alloc(4 * n, place), check_alloc(4 * n_table, place), check_alloc(4 * n_table, place)};
    fill_inputs(in[0].data, n, kind);
    fill_inputs(in[1].data, n_table, kind == 1 ? 0 : kind);
    fill_inputs(in[2].data, n_table, 0);
    for (int i = 0; i < 3; i++) check_read_only(&in[i]);
    float f = (const float[]){1e-5f, 30.0f, 50.0f, 0.125f}[check_below(4)];
    check_case("%s %s n=%zu kind=%d in_place=%d", kipu_tier_name(k->tier), kernel->name, n, kind, in_place);
    check_buffer want = run_vector(kernel, ref, in, n, f, in_place, place), got = run_vector(kernel, k, in, n, f, in_place, place);
    check_end(check_floats("y", got.data, want.data, n) && check_canary("y", &got));
    for (int i = 0; i < 3; i++) check_free(&in[i]);
    check_free(&want);
    check_free(&got);
}

static size_t length_of(int i) { return i <= 100 ? (size_t)i : (const size_t[]){127, 128, 576, 640, 1000, 1536, 4097}[i - 101]; }

static void check_vector_kernel(const vector_kernel *kernel, const kipu_kernels *k, const kipu_kernels *ref) {
    if (!check_wants(k, kernel->name)) return;
    for (int i = 1; i <= 107; i++) {
        size_t n = length_of(i);
        if (kernel->even && n % 2) continue;
        for (int kind = 0; kind < 4; kind++) {
            if (!kernel->in_place_only) check_vector_case(kernel, k, ref, n, kind, 0);
            if (kernel->may_be_a) check_vector_case(kernel, k, ref, n, kind, 1);
            if (kernel->may_be_b) check_vector_case(kernel, k, ref, n, kind, 2);
        }
    }
}

/* ------------------------------------------------------------------------------- exp and tanh over the whole range of floats */

enum { SWEEP = 4096 };

static void check_sweep(const vector_kernel *kernel, const kipu_kernels *k, const kipu_kernels *ref) {
    static float x[SWEEP], one[SWEEP], got[SWEEP], want[SWEEP];
    if (!check_wants(k, kernel->name)) return;
    for (int i = 0; i < SWEEP; i++) one[i] = 1;
    check_case("%s %s over all magnitudes", kipu_tier_name(k->tier), kernel->name);
    bool ok = true;
    uint32_t step = 9973;   /* a prime: 430 000 of all floats */
    for (uint64_t u = 0; u < 0x100000000 && ok; u += (uint64_t)SWEEP * step) {
        for (int i = 0; i < SWEEP; i++) x[i] = kipu_bits_to_float((uint32_t)(u + (uint64_t)i * step));
        kernel->call(&(vector_case){ref, want, x, one, NULL, SWEEP, 30.0f});
        kernel->call(&(vector_case){k, got, x, one, NULL, SWEEP, 30.0f});
        ok = check_floats("y", got, want, SWEEP);
    }
    check_end(ok);
}

/* ------------------------------------------------------------------------------- quantize */

/* kind 0..3 as fill_inputs; 4: ties and ends; 5: a subnormal group (127 / amax overflows); 6: zeros. */
static void fill_quantize(float *x, size_t k, int kind) {
    fill_inputs(x, k, kind < 4 ? kind : 0);
    for (size_t i = 0; i < k; i++) {
        if (kind == 4) x[i] = i % 32 ? 0.5f * (float)(check_below(509) - 254) : 127.0f;
        if (kind == 5) x[i] = ldexpf(x[i], check_below(2) ? -126 : -140) * (float)check_below(2);
        if (kind == 6) x[i] = check_below(2) ? 0.0f : -0.0f;
    }
}

typedef void (*quantizer)(int8_t *q, float *d, int32_t *s, const float *x, int64_t k);

static void check_quantize_case(const char *tier, const char *name, quantizer f, quantizer ref, size_t n, int kind) {
    check_place place = kind % 2 ? CHECK_AT_START : CHECK_AT_END;
    check_buffer x = check_alloc(4 * n, place), out[6];
    for (int i = 0; i < 6; i++) out[i] = check_alloc(i % 3 == 0 ? n : n / 32 * 4, place);
    fill_quantize(x.data, n, kind);
    check_read_only(&x);
    check_case("%s %s k=%zu kind=%d", tier, name, n, kind);
    ref(out[0].data, out[1].data, out[2].data, x.data, (int64_t)n);
    f(out[3].data, out[4].data, out[5].data, x.data, (int64_t)n);
    bool ok = check_bytes("q", out[3].data, out[0].data, n) && check_floats("d", out[4].data, out[1].data, n / 32)
           && check_bytes("s", out[5].data, out[2].data, n / 8);
    check_end(ok && check_canary("q", &out[3]) && check_canary("d", &out[4]) && check_canary("s", &out[5]));
    check_free(&x);
    for (int i = 0; i < 6; i++) check_free(&out[i]);
}

static void check_quantize(const kipu_kernels *k, const kipu_kernels *ref) {
    if (!check_wants(k, "quantize")) return;
    const char *tier = kipu_tier_name(k->tier);
    for (size_t n = 32; n <= 640; n += 32)
        for (int kind = 0; kind < 7; kind++) check_quantize_case(tier, "quantize", k->quantize, ref->quantize, n, kind);
    for (int i = 0; i < 50; i++) check_quantize_case(tier, "quantize", k->quantize, ref->quantize, 2048, i % 7);
    for (int i = 0; i < 70; i++) check_quantize_case(tier, "quantize_wide", k->quantize_wide, ref->quantize_wide, 256 * (1 + i % 5), i % 7);
}

/* ------------------------------------------------------------------------------- halves */

static void check_from_half(const kipu_kernels *k, size_t n, uint32_t first) {
    check_place place = n % 2 ? CHECK_AT_START : CHECK_AT_END;
    check_buffer x = check_alloc(2 * n, place), got = check_alloc(4 * n, place), want = check_alloc(4 * n, place);
    for (size_t i = 0; i < n; i++) {
        ((uint16_t *)x.data)[i] = (uint16_t)(first + i);
        ((float *)want.data)[i] = kipu_half_to_float((uint16_t)(first + i));
    }
    check_read_only(&x);
    check_case("%s from_half n=%zu first=%u", kipu_tier_name(k->tier), n, first);
    k->from_half(got.data, x.data, (int64_t)n);
    check_end(check_bytes("y", got.data, want.data, 4 * n) && check_canary("y", &got));
    check_free(&x);
    check_free(&got);
    check_free(&want);
}

/* Floats `step` bit patterns apart. NaN included: the payload's upper bits stay, as in base/half.h. */
static void check_to_half(const kipu_kernels *k, size_t n, uint32_t first, uint32_t step) {
    check_place place = n % 2 ? CHECK_AT_START : CHECK_AT_END;
    check_buffer x = check_alloc(4 * n, place), got = check_alloc(2 * n, place), want = check_alloc(2 * n, place);
    for (size_t i = 0; i < n; i++) {
        ((float *)x.data)[i] = kipu_bits_to_float(first + (uint32_t)i * step);
        ((uint16_t *)want.data)[i] = kipu_float_to_half(((float *)x.data)[i]);
    }
    check_read_only(&x);
    check_case("%s to_half n=%zu first=0x%08x step=%u", kipu_tier_name(k->tier), n, first, step);
    k->to_half(got.data, x.data, (int64_t)n);
    check_end(check_bytes("y", got.data, want.data, 2 * n) && check_canary("y", &got));
    check_free(&x);
    check_free(&got);
    check_free(&want);
}

static void check_halves(const kipu_kernels *k) {
    if (check_wants(k, "from_half")) {
        check_from_half(k, 65536, 0);
        for (size_t n = 1; n <= 100; n++) check_from_half(k, n, (uint32_t)check_random() & 0xffff);
    }
    if (check_wants(k, "to_half")) {
        check_to_half(k, 1 << 20, 0, 4099);
        check_to_half(k, 1 << 20, 0, 4096);                  /* every tie between two halves */
        for (size_t n = 1; n <= 100; n++) check_to_half(k, n, (uint32_t)check_random(), 0x01357913);
    }
}

/* ------------------------------------------------------------------------------- argmax */

static void check_argmax_case(const kipu_kernels *k, const kipu_kernels *ref, size_t n, int kind) {
    check_buffer x = check_alloc(4 * n, n % 2 ? CHECK_AT_START : CHECK_AT_END);
    float *p = x.data;
    fill_inputs(p, n, kind < 4 ? kind : 0);
    for (size_t i = 0; i < n; i++) {
        if (kind == 4) p[i] = (float)check_below(3);         /* many equal maxima */
        if (kind == 5) p[i] = NAN;
        if (kind == 6) p[i] = check_below(2) ? NAN : -INFINITY;
        if (kind == 7) p[i] = check_below(2) ? 0.0f : -0.0f;
    }
    check_read_only(&x);
    check_case("%s argmax n=%zu kind=%d", kipu_tier_name(k->tier), n, kind);
    long long got = (long long)k->argmax(p, (int64_t)n), want = (long long)ref->argmax(p, (int64_t)n);
    if (got != want) printf("  argmax = %lld, expected %lld\n", got, want);
    check_end(got == want);
    check_free(&x);
}

static void check_argmax(const kipu_kernels *k, const kipu_kernels *ref) {
    if (!check_wants(k, "argmax")) return;
    for (int i = 1; i <= 107; i++)
        for (int kind = 0; kind < 8; kind++) check_argmax_case(k, ref, length_of(i), kind);
    check_argmax_case(k, ref, 262144, 0);
    check_argmax_case(k, ref, 262145, 4);
}

void check_vector(const kipu_kernels *k, const kipu_kernels *ref) {
    for (size_t i = 0; i < sizeof vector_kernels / sizeof vector_kernels[0]; i++) check_vector_kernel(&vector_kernels[i], k, ref);
    check_sweep(&vector_kernels[2], k, ref);   /* swiglu */
    check_sweep(&vector_kernels[3], k, ref);   /* geglu */
    check_sweep(&vector_kernels[6], k, ref);   /* softcap */
    check_quantize(k, ref);
    check_halves(k);
    check_argmax(k, ref);
}
