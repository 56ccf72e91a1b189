/* What all quantised formats have in common: a block is one or eight groups of 32 codes with a scale, and maybe a minimum.
 * Decoding and products are written once over this form; a format is the function that takes its block apart. */
#ifndef KIPU_KERNELS_REF_GROUPS_REF_H
#define KIPU_KERNELS_REF_GROUPS_REF_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/ref/panel_ref.h"
#include "quants/blocks.h"

/* Element i is (d * scale[i / 16]) * q[i], or that + m if the format has minima. */
typedef struct kipu_group {
    int8_t q[32];      /* zero point already subtracted */
    int8_t scale[2];   /* integer scales of the halves (Q6_K); 1, 1 for all others */
    float d, m;        /* Q4_K, Q5_K: d * s and -(dmin * m), both exact in a float */
} kipu_group;

typedef union kipu_any_block {
    unsigned char bytes[210];
    kipu_block_q4_0 q4_0;
    kipu_block_q4_1 q4_1;
    kipu_block_q5_0 q5_0;
    kipu_block_q5_1 q5_1;
    kipu_block_q8_0 q8_0;
    kipu_block_q4_k q4_k;
    kipu_block_q5_k q5_k;
    kipu_block_q6_k q6_k;
} kipu_any_block;

typedef struct kipu_quant {
    kipu_panel_layout layout;
    bool has_min;
    void (*groups)(kipu_group *g /* layout.block / 32 */, const kipu_any_block *block);
} kipu_quant;

extern const kipu_quant kipu_quant_q4_0, kipu_quant_q4_1, kipu_quant_q5_0, kipu_quant_q5_1, kipu_quant_q8_0;
extern const kipu_quant kipu_quant_q4_k, kipu_quant_q5_k, kipu_quant_q6_k;

#endif
