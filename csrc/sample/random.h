/* Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), so that a seed gives the same draws as std::mt19937. */
#ifndef KIPU_SAMPLE_RANDOM_H
#define KIPU_SAMPLE_RANDOM_H

#include <stdint.h>

typedef struct kipu_mt19937 {
    uint32_t state[624];
    int next;            /* of the state, 624: to be renewed */
} kipu_mt19937;

void kipu_mt19937_seed(kipu_mt19937 *r, uint32_t seed);
uint32_t kipu_mt19937_next(kipu_mt19937 *r);
/* A double in [0, 1) from two outputs, the first one low: std::generate_canonical<double, 53>. */
double kipu_mt19937_unit(kipu_mt19937 *r);

/* A seed that differs from call to call; never 0xFFFFFFFF. */
uint32_t kipu_random_seed(void);

#endif
