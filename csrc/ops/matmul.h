/* Products of one activation matrix with one to four weight matrices, results finished on the way out.
 *
 * The op owns loops, threads and edges: it cuts the panels of all matrices into one list of jobs, calls gemv or gemm for a tile
 * [tokens][16 rows] and finishes the tile: bias, residual, gated unit, soft cap, rows beyond the matrix dropped. */
#ifndef KIPU_OPS_MATMUL_H
#define KIPU_OPS_MATMUL_H

#include <stddef.h>
#include <stdint.h>
#include "ops/worker.h"

enum { KIPU_MAX_LINEAR = 4 };

typedef struct kipu_linear {
    const kipu_matmul_kernels *mm;
    const char *panels;         /* P16 */
    size_t panel_bytes;
    int64_t rows;               /* outputs */
    const float *bias;          /* (rows) or NULL */
    const float *residual;      /* (n, rows) added last, or NULL */
    float *out;                 /* (n, rows) */
} kipu_linear;

typedef enum kipu_finish { KIPU_STORE, KIPU_SWIGLU, KIPU_GEGLU } kipu_finish;

typedef struct kipu_matmul {
    int n_linear;
    kipu_linear linear[KIPU_MAX_LINEAR];
    kipu_finish finish;         /* gated units: linear[0] is the gate, linear[1] the up projection, result in linear[0].out */
    float softcap;              /* 0: none; with KIPU_STORE only */
    const int32_t *row_of;      /* (n) row of `out` for each token, or NULL: token t is row t */
} kipu_matmul;

/* Bytes of worker scratch kipu_matmul_run uses. */
size_t kipu_matmul_scratch(void);

/* Called by all workers with the same matmul and their acts (equal contents). One zeroed job counter. */
void kipu_matmul_run(kipu_op_worker *ow, const kipu_matmul *m, const kipu_acts *acts, kipu_jobs *jobs);

#endif
