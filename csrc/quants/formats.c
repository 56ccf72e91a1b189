/* The table of GGUF's tensor types. Sizes of the block structs are proved in blocks.h. */
#include "quants/formats.h"
#include "quants/blocks.h"

static const kipu_format formats[KIPU_TYPE_COUNT] = {
    [KIPU_F32] = {"F32", 1, 4},
    [KIPU_F16] = {"F16", 1, 2},
    [KIPU_BF16] = {"BF16", 1, 2},
    [KIPU_F64] = {"F64", 1, 8},
    [KIPU_I8] = {"I8", 1, 1},
    [KIPU_I16] = {"I16", 1, 2},
    [KIPU_I32] = {"I32", 1, 4},
    [KIPU_I64] = {"I64", 1, 8},
    [KIPU_Q4_0] = {"Q4_0", 32, sizeof(kipu_block_q4_0)},
    [KIPU_Q4_1] = {"Q4_1", 32, sizeof(kipu_block_q4_1)},
    [KIPU_Q5_0] = {"Q5_0", 32, sizeof(kipu_block_q5_0)},
    [KIPU_Q5_1] = {"Q5_1", 32, sizeof(kipu_block_q5_1)},
    [KIPU_Q8_0] = {"Q8_0", 32, sizeof(kipu_block_q8_0)},
    [KIPU_Q8_1] = {"Q8_1", 32, sizeof(kipu_block_q8_1)},
    [KIPU_Q2_K] = {"Q2_K", 256, sizeof(kipu_block_q2_k)},
    [KIPU_Q3_K] = {"Q3_K", 256, sizeof(kipu_block_q3_k)},
    [KIPU_Q4_K] = {"Q4_K", 256, sizeof(kipu_block_q4_k)},
    [KIPU_Q5_K] = {"Q5_K", 256, sizeof(kipu_block_q5_k)},
    [KIPU_Q6_K] = {"Q6_K", 256, sizeof(kipu_block_q6_k)},
    [KIPU_Q8_K] = {"Q8_K", 256, sizeof(kipu_block_q8_k)},
    [KIPU_IQ2_XXS] = {"IQ2_XXS", 256, sizeof(kipu_block_iq2_xxs)},
    [KIPU_IQ2_XS] = {"IQ2_XS", 256, sizeof(kipu_block_iq2_xs)},
    [KIPU_IQ2_S] = {"IQ2_S", 256, sizeof(kipu_block_iq2_s)},
    [KIPU_IQ3_XXS] = {"IQ3_XXS", 256, sizeof(kipu_block_iq3_xxs)},
    [KIPU_IQ3_S] = {"IQ3_S", 256, sizeof(kipu_block_iq3_s)},
    [KIPU_IQ1_S] = {"IQ1_S", 256, sizeof(kipu_block_iq1_s)},
    [KIPU_IQ1_M] = {"IQ1_M", 256, sizeof(kipu_block_iq1_m)},
    [KIPU_IQ4_NL] = {"IQ4_NL", 32, sizeof(kipu_block_iq4_nl)},
    [KIPU_IQ4_XS] = {"IQ4_XS", 256, sizeof(kipu_block_iq4_xs)},
    [KIPU_TQ1_0] = {"TQ1_0", 256, sizeof(kipu_block_tq1_0)},
    [KIPU_TQ2_0] = {"TQ2_0", 256, sizeof(kipu_block_tq2_0)},
    [KIPU_MXFP4] = {"MXFP4", 32, sizeof(kipu_block_mxfp4)},
};

const kipu_format *kipu_format_of(int type) {
    if (type < 0 || type >= KIPU_TYPE_COUNT || !formats[type].name) return NULL;
    return &formats[type];
}

size_t kipu_row_bytes(int type, int64_t k) {
    const kipu_format *f = kipu_format_of(type);
    if (!f || k <= 0 || k % f->block) return 0;
    uint64_t blocks = (uint64_t)k / f->block;
    return blocks > SIZE_MAX / f->bytes ? 0 : (size_t)blocks * f->bytes;
}
