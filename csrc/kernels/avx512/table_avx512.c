/* A copy of the ref table with the entries this tier improves. */
#include "kernels/tiers.h"
#include <pthread.h>
#include "kernels/avx512/attention_avx512.h"
#include "kernels/avx512/matmul_avx512.h"
#include "kernels/avx512/rows_avx512.h"

static kipu_kernels table;
static kipu_matmul_kernels matmul[KIPU_TYPE_COUNT];

static const kipu_matmul_kernels *const improved[KIPU_TYPE_COUNT] = {
    [KIPU_F32] = &kipu_matmul_f32__avx512,
    [KIPU_F16] = &kipu_matmul_f16__avx512,
    [KIPU_BF16] = &kipu_matmul_bf16__avx512,
    [KIPU_Q4_0] = &kipu_matmul_q4_0__avx512,
    [KIPU_Q4_1] = &kipu_matmul_q4_1__avx512,
    [KIPU_Q5_0] = &kipu_matmul_q5_0__avx512,
    [KIPU_Q5_1] = &kipu_matmul_q5_1__avx512,
    [KIPU_Q8_0] = &kipu_matmul_q8_0__avx512,
    [KIPU_Q4_K] = &kipu_matmul_q4_k__avx512,
    [KIPU_Q5_K] = &kipu_matmul_q5_k__avx512,
    [KIPU_Q6_K] = &kipu_matmul_q6_k__avx512,
};

/* Conversions between file order and panels are ref's: they run at load time only. */
static void improve_matmul(int type) {
    matmul[type] = *table.matmul[type];
    matmul[type].gemv = improved[type]->gemv;
    matmul[type].gemm = improved[type]->gemm;
    matmul[type].gemm_panels = improved[type]->gemm_panels;
    table.matmul[type] = &matmul[type];
}

static void improve_others(void) {
    table.quantize = kipu_quantize__avx512;
    table.quantize_wide = kipu_quantize_wide__avx512;
    table.rms_norm = kipu_rms_norm__avx512;
    table.rope_norm = kipu_rope_norm__avx512;
    table.rope_neox = kipu_rope_neox__avx512;
    table.swiglu = kipu_swiglu__avx512;
    table.geglu = kipu_geglu__avx512;
    table.add = kipu_add__avx512;
    table.scale = kipu_scale__avx512;
    table.softcap = kipu_softcap__avx512;
    table.to_half = kipu_to_half__avx512;
    table.from_half = kipu_from_half__avx512;
    table.argmax = kipu_argmax__avx512;
    table.attention = kipu_attention__avx512;
    table.attention_merge = kipu_attention_merge__avx512;
}

static void build(void) {
    table = *kipu_kernels_ref();
    table.tier = KIPU_TIER_AVX512;
    for (int type = 0; type < KIPU_TYPE_COUNT; type++)
        if (improved[type])
            improve_matmul(type);
    improve_others();
}

const kipu_kernels *kipu_kernels_avx512(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build);
    return &table;
}
