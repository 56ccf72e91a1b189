/* The AVX-512 tier: F, BW, VL, DQ, VBMI, VNNI. */
#ifndef KIPU_KERNELS_AVX512_TABLE_AVX512_H
#define KIPU_KERNELS_AVX512_TABLE_AVX512_H

#include "kernels/kernels.h"

/* Static storage, built at the first call; any thread; never NULL. Only for machines where kipu_cpu_has(KIPU_TIER_AVX512). */
const kipu_kernels *kipu_kernels_avx512(void);

#endif
