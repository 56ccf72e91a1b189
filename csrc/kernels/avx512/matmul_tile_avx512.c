/* Register tile: 2 panels x 8 tokens = 16 integer sums. Per k4: 2 loads of codes, 8 broadcasts of four activations, 16 vpdpbusd; per group
 * of 32 k the sums are converted, scaled and added to 16 float sums. Both sets together are 32 registers, so gcc keeps a few of the float
 * sums on the stack meanwhile; that costs load and store slots, of which there are enough. */
#include "kernels/avx512/matmul_tile_avx512.h"
#include "kernels/avx512/matmul_codes_avx512.h"

enum {
    K4 = KIPU_GROUP / 4,
    HALVES_TOKENS = 4    /* Q6_K holds three vectors per output: two tiles of 4 tokens, one behind the other */
};

/* What a group adds to its output, see kernels.h: a product; a product and a min; the products of both halves of the group. */
typedef enum tile_family { TILE_PLAIN, TILE_MIN, TILE_HALVES } tile_family;

/* A tile's constants: family, panels (1 or 2), first token and number of tokens. Passed by value and known at compile time. */
typedef struct shape {
    tile_family family;
    int np, from, nt;
} shape;

typedef __m512i int_sums[2][TILE_TOKENS];      /* [panel][token], lanes are rows */
typedef __m512 float_sums[2][TILE_TOKENS];

KIPU_INLINE __m512i broadcast4(const int8_t *q) { return _mm512_set1_epi32(*(const unaligned_word *)q); }

/* volatile: gcc would broadcast once for two panels and copy, which costs an arithmetic slot instead of a load slot. */
KIPU_INLINE __m512i load_seed(const int32_t *seed) {
    __m512i x;
    __asm__ volatile("vpbroadcastd %1, %0" : "=v"(x) : "m"(*seed));
    return x;
}

/* In place by force: gcc surrounds the intrinsic with register moves. */
KIPU_INLINE __m512i dot4_reg(__m512i acc, __m512i code, __m512i q) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(code), "v"(q));
    return acc;
}

KIPU_INLINE void start_sums(shape s, int_sums sum, const token_chunk *tokens, int half, int g) {
#pragma GCC unroll 8
    for (int t = 0; t < s.nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < s.np; p++)
            sum[p][t] = load_seed(&tokens->seed[half][s.from + t][g]);
    }
}

/* sum += codes . q over `count` k4 from `first` of group g on. */
KIPU_INLINE void add_products(shape s, int_sums sum, const tile_job *job, int g, int first, int count) {
    const uint8_t *codes = job->panels->codes + (g * K4 + first) * WORD;
    const int8_t *q = &job->tokens->q[s.from][g * KIPU_GROUP + 4 * first];
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
        __m512i code[2];
#pragma GCC unroll 2
        for (int p = 0; p < s.np; p++)
            code[p] = load_word(codes + p * sizeof(panel_chunk) + i * WORD);
#pragma GCC unroll 8
        for (int t = 0; t < s.nt; t++) {
            __m512i b = broadcast4(q + t * TOKEN_STRIDE + 4 * i);
#pragma GCC unroll 2
            for (int p = 0; p < s.np; p++)
                sum[p][t] = dot4_reg(sum[p][t], code[p], b);
        }
    }
}

/* Q6_K: dot = sum * scale of half 0, += sum * scale of half 1. Products and their sum stay below 2^24, so this is exact. */
KIPU_INLINE void scale_half(shape s, float_sums dot, int_sums sum, const panel_chunk *panels, int half, int g) {
#pragma GCC unroll 8
    for (int t = 0; t < s.nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < s.np; p++) {
            __m512 x = _mm512_cvtepi32_ps(sum[p][t]), scale = _mm512_loadu_ps(panels[p].extra[g][half]);
            dot[p][t] = half == 0 ? _mm512_mul_ps(x, scale) : _mm512_fmadd_ps(x, scale, dot[p][t]);
        }
    }
}

/* The exact products of group g, as floats. */
KIPU_INLINE void group_dots(shape s, float_sums dot, const tile_job *job, int g) {
    int_sums sum;
    if (s.family == TILE_HALVES) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            start_sums(s, sum, job->tokens, half, g);
            add_products(s, sum, job, g, half * (K4 / 2), K4 / 2);
            scale_half(s, dot, sum, job->panels, half, g);
        }
        return;
    }
    start_sums(s, sum, job->tokens, 0, g);
    add_products(s, sum, job, g, 0, K4);
#pragma GCC unroll 8
    for (int t = 0; t < s.nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < s.np; p++)
            dot[p][t] = _mm512_cvtepi32_ps(sum[p][t]);
    }
}

/* acc += (scale * d) * dot; with min: acc += min * ds */
KIPU_INLINE void add_group(shape s, float_sums acc, const tile_job *job, int g) {
    const token_chunk *tokens = job->tokens;
    const panel_chunk *panels = job->panels;
    float_sums dot;
    group_dots(s, dot, job, g);
#pragma GCC unroll 8
    for (int t = 0; t < s.nt; t++) {
        __m512 d = _mm512_set1_ps(tokens->d[s.from + t][g]);
#pragma GCC unroll 2
        for (int p = 0; p < s.np; p++) {
            acc[p][t] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_loadu_ps(panels[p].scale[g]), d), dot[p][t], acc[p][t]);
            if (s.family == TILE_MIN)
                acc[p][t] = _mm512_fmadd_ps(_mm512_loadu_ps(panels[p].extra[g][0]), _mm512_set1_ps(tokens->ds[s.from + t][g]), acc[p][t]);
        }
    }
}

KIPU_INLINE void tile(shape s, const tile_job *job) {
    float *y = job->y + s.from * KIPU_PANEL_ROWS;
    float_sums acc;
#pragma GCC unroll 8
    for (int t = 0; t < s.nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < s.np; p++)
            acc[p][t] = job->first ? _mm512_setzero_ps() : _mm512_loadu_ps(y + p * job->y_stride + t * KIPU_PANEL_ROWS);
    }
    for (int g = 0; g < job->n_groups; g++)
        add_group(s, acc, job, g);
#pragma GCC unroll 8
    for (int t = 0; t < s.nt; t++) {
#pragma GCC unroll 2
        for (int p = 0; p < s.np; p++)
            _mm512_storeu_ps(y + p * job->y_stride + t * KIPU_PANEL_ROWS, acc[p][t]);
    }
}

/* All nt tokens of the job. */
KIPU_INLINE void tile_tokens(tile_family family, int np, int nt, const tile_job *job) {
    if (family == TILE_HALVES && nt > HALVES_TOKENS) {
        tile((shape){family, np, 0, HALVES_TOKENS}, job);
        tile((shape){family, np, HALVES_TOKENS, nt - HALVES_TOKENS}, job);
    } else {
        tile((shape){family, np, 0, nt}, job);
    }
}

/* All panels of the job. */
KIPU_INLINE void tile_panels(tile_family family, int nt, tile_job job) {
    for (; job.n_panels > 1; job.n_panels -= 2, job.panels += 2, job.y += 2 * job.y_stride)
        tile_tokens(family, 2, nt, &job);
    if (job.n_panels)
        tile_tokens(family, 1, nt, &job);
}

KIPU_INLINE void tile_family_job(tile_family family, const tile_job *job) {
    switch (job->nt) {
    case 1: tile_panels(family, 1, *job); break;
    case 2: tile_panels(family, 2, *job); break;
    case 3: tile_panels(family, 3, *job); break;
    case 4: tile_panels(family, 4, *job); break;
    case 5: tile_panels(family, 5, *job); break;
    case 6: tile_panels(family, 6, *job); break;
    case 7: tile_panels(family, 7, *job); break;
    default: tile_panels(family, 8, *job); break;
    }
}

void kipu_tile_plain__avx512(const tile_job *job) { tile_family_job(TILE_PLAIN, job); }
void kipu_tile_min__avx512(const tile_job *job) { tile_family_job(TILE_MIN, job); }
void kipu_tile_halves__avx512(const tile_job *job) { tile_family_job(TILE_HALVES, job); }
