#include "ops/rope.h"
#include <math.h>

static const double two_pi = 6.283185307179586;

static double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

/* Pair whose wavelength turns `beta` times within the original context. */
static double correction(const kipu_rope_params *p, double beta) {
    return p->n_rot * log(p->n_ctx_orig / (beta * two_pi)) / (2 * log(p->base));
}

void kipu_rope_frequencies(const kipu_rope_params *p, double *frequency, double *magnitude) {
    double low = 0, high = 0;
    if (p->ext_factor != 0) {
        low = fmax(0, floor(correction(p, p->beta_fast)));
        high = fmin(p->n_rot - 1, ceil(correction(p, p->beta_slow)));
    }
    for (int i = 0; i < p->n_rot / 2; i++) {
        double f = pow(p->base, -2.0 * i / p->n_rot) / (p->factors ? p->factors[i] : 1);
        double mix = 0;
        if (p->ext_factor != 0) mix = (1 - clamp((i - low) / fmax(0.001, high - low), 0, 1)) * p->ext_factor;
        frequency[i] = p->scale * f * (1 - mix) + f * mix;
    }
    *magnitude = p->attn_factor * (p->ext_factor != 0 ? 1 + 0.1 * log(1 / p->scale) : 1);
}

void kipu_rope_table(const double *frequency, double magnitude, int32_t n_rot, int32_t pos, float *cos_out, float *sin_out) {
    for (int i = 0; i < n_rot / 2; i++) {
        double angle = pos * frequency[i];
        cos_out[i] = (float)(cos(angle) * magnitude);
        sin_out[i] = (float)(sin(angle) * magnitude);
    }
}
