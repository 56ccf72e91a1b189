/* One function of each tier that was built: its table, or NULL. The build defines KIPU_HAVE_... for tiers whose folder it compiled. */
#ifndef KIPU_KERNELS_TIERS_H
#define KIPU_KERNELS_TIERS_H

#include "kernels/kernels.h"

const kipu_kernels *kipu_kernels_ref(void);
const kipu_kernels *kipu_kernels_avx2(void);
const kipu_kernels *kipu_kernels_avx512(void);
const kipu_kernels *kipu_kernels_neon(void);

#endif
