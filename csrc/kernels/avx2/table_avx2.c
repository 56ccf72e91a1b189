/* A copy of the ref table with the entries this tier improves. */
#include "kernels/tiers.h"
#include <pthread.h>
#include "kernels/avx2/attention_avx2.h"
#include "kernels/avx2/matmul_avx2.h"
#include "kernels/avx2/rows_avx2.h"

static kipu_kernels table;
static kipu_matmul_kernels matmul[KIPU_TYPE_COUNT];

static const kipu_matmul_kernels *const improved[KIPU_TYPE_COUNT] = {
    [KIPU_F32] = &kipu_matmul_f32__avx2,
    [KIPU_F16] = &kipu_matmul_f16__avx2,
    [KIPU_BF16] = &kipu_matmul_bf16__avx2,
    [KIPU_Q4_0] = &kipu_matmul_q4_0__avx2,
    [KIPU_Q4_1] = &kipu_matmul_q4_1__avx2,
    [KIPU_Q5_0] = &kipu_matmul_q5_0__avx2,
    [KIPU_Q5_1] = &kipu_matmul_q5_1__avx2,
    [KIPU_Q8_0] = &kipu_matmul_q8_0__avx2,
    [KIPU_Q4_K] = &kipu_matmul_q4_k__avx2,
    [KIPU_Q5_K] = &kipu_matmul_q5_k__avx2,
    [KIPU_Q6_K] = &kipu_matmul_q6_k__avx2,
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
    table.quantize = kipu_quantize__avx2;
    table.quantize_wide = kipu_quantize_wide__avx2;
    table.rms_norm = kipu_rms_norm__avx2;
    table.rope_norm = kipu_rope_norm__avx2;
    table.rope_neox = kipu_rope_neox__avx2;
    table.swiglu = kipu_swiglu__avx2;
    table.geglu = kipu_geglu__avx2;
    table.add = kipu_add__avx2;
    table.scale = kipu_scale__avx2;
    table.softcap = kipu_softcap__avx2;
    table.to_half = kipu_to_half__avx2;
    table.from_half = kipu_from_half__avx2;
    table.argmax = kipu_argmax__avx2;
    table.attention = kipu_attention__avx2;
    table.attention_merge = kipu_attention_merge__avx2;
}

static void build(void) {
    table = *kipu_kernels_ref();
    table.tier = KIPU_TIER_AVX2;
    for (int type = 0; type < KIPU_TYPE_COUNT; type++)
        if (improved[type])
            improve_matmul(type);
    improve_others();
}

const kipu_kernels *kipu_kernels_avx2(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build);
    return &table;
}
