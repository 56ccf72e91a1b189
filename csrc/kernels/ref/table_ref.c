#include "kernels/ref/table_ref.h"
#include "kernels/ref/attention_ref.h"
#include "kernels/ref/matmul_ref.h"
#include "kernels/ref/vector_ref.h"

static const kipu_kernels table = {
    .tier = KIPU_TIER_REF,
    .matmul = {
        [KIPU_F32] = &kipu_matmul_f32__ref,
        [KIPU_F16] = &kipu_matmul_f16__ref,
        [KIPU_BF16] = &kipu_matmul_bf16__ref,
        [KIPU_Q4_0] = &kipu_matmul_q4_0__ref,
        [KIPU_Q4_1] = &kipu_matmul_q4_1__ref,
        [KIPU_Q5_0] = &kipu_matmul_q5_0__ref,
        [KIPU_Q5_1] = &kipu_matmul_q5_1__ref,
        [KIPU_Q8_0] = &kipu_matmul_q8_0__ref,
        [KIPU_Q4_K] = &kipu_matmul_q4_k__ref,
        [KIPU_Q5_K] = &kipu_matmul_q5_k__ref,
        [KIPU_Q6_K] = &kipu_matmul_q6_k__ref,
    },
    .quantize = kipu_quantize__ref,
    .quantize_wide = kipu_quantize_wide__ref,
    .rms_norm = kipu_rms_norm__ref,
    .rope_norm = kipu_rope_norm__ref,
    .rope_neox = kipu_rope_neox__ref,
    .swiglu = kipu_swiglu__ref,
    .geglu = kipu_geglu__ref,
    .add = kipu_add__ref,
    .scale = kipu_scale__ref,
    .softcap = kipu_softcap__ref,
    .to_half = kipu_to_half__ref,
    .from_half = kipu_from_half__ref,
    .argmax = kipu_argmax__ref,
    .attention = kipu_attention__ref,
    .attention_merge = kipu_attention_merge__ref,
};

const kipu_kernels *kipu_kernels_ref(void) { return &table; }
