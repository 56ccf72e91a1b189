/* Rotary position embedding: frequencies of a model and context, tables of a batch.
 * Su et al. 2021 (RoFormer); Peng et al. 2023 (YaRN), as architectures.md A4.3 states them. */
#ifndef KIPU_OPS_ROPE_H
#define KIPU_OPS_ROPE_H

#include <stdint.h>

typedef struct kipu_rope_params {
    int32_t n_rot;               /* values rotated per head, even */
    double base, scale;          /* frequency base; scale multiplies positions (1 / factor) */
    double ext_factor, attn_factor, beta_fast, beta_slow;   /* YaRN; ext_factor 0: off */
    double n_ctx_orig;
    const float *factors;        /* (n_rot / 2) divisors, or NULL */
} kipu_rope_params;

/* Radians per position of each pair (n_rot / 2) and the magnitude of cos and sin. */
void kipu_rope_frequencies(const kipu_rope_params *p, double *frequency, double *magnitude);

/* cos and sin tables (n_rot / 2) of one position. */
void kipu_rope_table(const double *frequency, double magnitude, int32_t n_rot, int32_t pos, float *cos_out, float *sin_out);

#endif
