/* The ref tier: complete, and the start of every other tier, which copies it and overwrites what it does better. */
#ifndef KIPU_KERNELS_REF_TABLE_REF_H
#define KIPU_KERNELS_REF_TABLE_REF_H

#include "kernels/kernels.h"

/* Static storage; any thread; never NULL. */
const kipu_kernels *kipu_kernels_ref(void);

#endif
