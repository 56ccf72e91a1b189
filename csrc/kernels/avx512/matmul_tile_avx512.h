/* The inner product of the quantised gemm: decoded panels times a tile of tokens, the same for all formats.
 *
 * K is cut into chunks of 1024. A chunk of up to 8 panels is decoded into scratch (L2; two panels at a time pass through L1), then every
 * tile of 8 tokens meets it. Float sums wait in y between groups and chunks, which is exact.
 *
 *     scratch 189 KiB   | token_chunk | panel_chunk 0 | ... | panel_chunk 7 | */
#ifndef KIPU_KERNELS_AVX512_MATMUL_TILE_AVX512_H
#define KIPU_KERNELS_AVX512_MATMUL_TILE_AVX512_H

#include <stdbool.h>
#include "kernels/kernels.h"

enum {
    CHUNK_K = 1024,
    CHUNK_GROUPS = CHUNK_K / KIPU_GROUP,
    CHUNK_PANELS = 8,        /* decoded side by side */
    TILE_TOKENS = 8,
    TOKEN_STRIDE = CHUNK_K + 64  /* an odd number of cache lines: eight tokens never share one L1 set */
};

/* 1024 k of 16 rows, ready for use. */
typedef struct panel_chunk {
    uint8_t codes[CHUNK_K * KIPU_PANEL_ROWS];               /* [k / 4][16 rows][4], code + zero */
    float scale[CHUNK_GROUPS][KIPU_PANEL_ROWS];
    float extra[CHUNK_GROUPS][2][KIPU_PANEL_ROWS];          /* formats with min: [0] the min; Q6_K: the scales of both half groups */
} panel_chunk;

/* 1024 k of up to eight tokens. */
typedef struct token_chunk {
    int8_t q[TILE_TOKENS][TOKEN_STRIDE];
    int32_t seed[2][TILE_TOKENS][CHUNK_GROUPS];             /* start value of the integer sums: -zero * s; Q6_K: of both half groups */
    float d[TILE_TOKENS][CHUNK_GROUPS];
    float ds[TILE_TOKENS][CHUNK_GROUPS];                    /* d * s, formats with min */
} token_chunk;

typedef struct gemm_scratch {
    token_chunk tokens;
    panel_chunk panels[CHUNK_PANELS];
} gemm_scratch;

_Static_assert(sizeof(gemm_scratch) <= KIPU_GEMM_SCRATCH, "the chunk must fit the scratch");

/* y[panel][token][16] += panel . token over the groups of the chunk. */
typedef struct tile_job {
    float *y;
    size_t y_stride;         /* floats from panel to panel */
    const panel_chunk *panels;
    const token_chunk *tokens;
    int n_panels, n_groups;
    int nt;                  /* tokens, 1..8 */
    bool first;              /* chunk of the row: y = instead of y += */
} tile_job;

/* What a group adds to its output, see kernels.h: a product; a product and a min; the products of both halves of the group. */
void kipu_tile_plain__avx512(const tile_job *job);
void kipu_tile_min__avx512(const tile_job *job);
void kipu_tile_halves__avx512(const tile_job *job);

#endif
