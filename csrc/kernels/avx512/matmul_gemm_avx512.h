/* Many tokens times quantised panels. Always inlined with a constant format: it decodes, the tile kernels multiply. */
#ifndef KIPU_KERNELS_AVX512_MATMUL_GEMM_AVX512_H
#define KIPU_KERNELS_AVX512_MATMUL_GEMM_AVX512_H

#include "kernels/avx512/matmul_gemv_avx512.h"
#include "kernels/avx512/matmul_tile_avx512.h"

KIPU_INLINE void run_tile(int type, const tile_job *job) {
    if (type == KIPU_Q6_K)
        kipu_tile_halves__avx512(job);
    else if (has_min(type))
        kipu_tile_min__avx512(job);
    else
        kipu_tile_plain__avx512(job);
}

/* One block -> groups g.. of the chunk: scales, then codes. */
KIPU_INLINE void decode_scales(int type, panel_chunk *out, int g, const uint8_t *block) {
    block_scales scales = load_scales(type, block);
#pragma GCC unroll 8
    for (int i = 0; i < block_groups(type); i++) {
        _mm512_storeu_ps(out->scale[g + i], group_scale(type, &scales, i));
        if (has_min(type))
            _mm512_storeu_ps(out->extra[g + i][0], group_min(type, &scales, i));
        if (type == KIPU_Q6_K) {
            _mm512_storeu_ps(out->extra[g + i][0], half_scale(block, 2 * i));
            _mm512_storeu_ps(out->extra[g + i][1], half_scale(block, 2 * i + 1));
        }
    }
}

KIPU_INLINE void decode_codes(int type, panel_chunk *out, int g, const uint8_t *block) {
    uint8_t *codes = out->codes + g * KIPU_GROUP * KIPU_PANEL_ROWS;
#pragma GCC unroll 4
    for (int step = 0; step < block_groups(type) / step_groups(type); step++) {
#pragma GCC unroll 8
        for (int w = 0; w < step_words(type); w++) {
            __m512i code[2];
            prefetch_share(type, block, step, w);
            decode_word(type, code, block, step, w);
#pragma GCC unroll 2
            for (int c = 0; c < word_codes(type); c++) {
                int k4 = (step * step_groups(type) + code_group(type, c)) * (KIPU_GROUP / 4) + code_k4(type, w, c);
                _mm512_storeu_si512(codes + k4 * WORD, code[c]);
            }
        }
    }
}

KIPU_INLINE void decode_chunk(int type, panel_chunk *out, const uint8_t *block, int n_groups) {
    for (int g = 0; g < n_groups; g += block_groups(type), block += block_bytes(type)) {
        decode_scales(type, out, g, block);
        decode_codes(type, out, g, block);
    }
}

/* Seeds of the half groups of Q6_K. */
KIPU_INLINE void load_half_seeds(token_chunk *out, int t, const int8_t *q, int n_groups) {
    for (int g = 0; g < n_groups; g += 8) {
        int32_t sums[64];
        half_sums(sums, q + g * KIPU_GROUP);
        for (int i = 0; i < 8; i++) {
            out->seed[0][t][g + i] = -zero_point(KIPU_Q6_K) * sums[8 * i];
            out->seed[1][t][g + i] = -zero_point(KIPU_Q6_K) * sums[8 * i + 4];
        }
    }
}

/* Scale, seed and d * s of groups g..g+15 (those of the mask) of one token. */
KIPU_INLINE void load_groups(int type, token_chunk *out, int t, int g, __mmask16 mask, const float *d, const int32_t *s) {
    __m512 scale = _mm512_maskz_loadu_ps(mask, d + g);
    __m512i sum = _mm512_maskz_loadu_epi32(mask, s + g);
    _mm512_storeu_ps(&out->d[t][g], scale);
    if (type != KIPU_Q6_K)
        _mm512_storeu_si512(&out->seed[0][t][g], zero_seeds(type, sum));
    if (has_min(type))
        _mm512_storeu_ps(&out->ds[t][g], _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)));
}

KIPU_INLINE void copy_codes(int8_t *out, const int8_t *q, int n_groups) {
    for (int g = 0; g < n_groups; g++)
        _mm256_storeu_si256((__m256i *)(out + g * KIPU_GROUP), _mm256_loadu_si256((const __m256i *)(q + g * KIPU_GROUP)));
}

/* Groups first.. of tokens t0.. into the tile: copies at fixed distances, so that the tile kernel needs one address for all of them. */
KIPU_INLINE void load_tokens(int type, token_chunk *out, const kipu_acts *a, int t0, int nt, int first, int n_groups) {
    int64_t groups = a->k / KIPU_GROUP;
    for (int t = 0; t < nt; t++) {
        const int8_t *q = a->q + (int64_t)(t0 + t) * a->k + (int64_t)first * KIPU_GROUP;
        const float *d = a->d + (t0 + t) * groups + first;
        const int32_t *s = a->s + (t0 + t) * groups + first;
        copy_codes(out->q[t], q, n_groups);
        for (int g = 0; g < n_groups; g += 16)
            load_groups(type, out, t, g, n_groups - g < 16 ? (__mmask16)((1u << (n_groups - g)) - 1) : 0xffff, d, s);
        if (type == KIPU_Q6_K)
            load_half_seeds(out, t, q, n_groups);
    }
}

/* All tokens times the decoded chunk of n_panels panels. */
KIPU_INLINE void multiply_chunk(int type, tile_job job, const kipu_acts *a, int t0, int nt, int first, token_chunk *tokens) {
    for (int t = 0; t < nt; t += TILE_TOKENS, job.y += TILE_TOKENS * KIPU_PANEL_ROWS) {
        job.nt = nt - t < TILE_TOKENS ? nt - t : TILE_TOKENS;
        load_tokens(type, tokens, a, t0 + t, job.nt, first, job.n_groups);
        run_tile(type, &job);
    }
}

/* Up to CHUNK_PANELS panels times all tokens, chunk by chunk of k. */
KIPU_INLINE void gemm_panels(int type, float *y, const uint8_t *panels, int n_panels, const kipu_acts *a, int t0, int nt,
                             gemm_scratch *scratch) {
    int groups = a->k / KIPU_GROUP;
    size_t panel_bytes = (size_t)(groups / block_groups(type)) * block_bytes(type);
    tile_job job = {y, (size_t)nt * KIPU_PANEL_ROWS, scratch->panels, &scratch->tokens, n_panels, 0, 0, true};
    for (int first = 0; first < groups; first += CHUNK_GROUPS, job.first = false) {
        const uint8_t *in = panels + (size_t)(first / block_groups(type)) * block_bytes(type);
        job.n_groups = groups - first < CHUNK_GROUPS ? groups - first : CHUNK_GROUPS;
        for (int p = 0; p < n_panels; p++)
            decode_chunk(type, &scratch->panels[p], in + p * panel_bytes, job.n_groups);
        multiply_chunk(type, job, a, t0, nt, first, &scratch->tokens);
    }
}

/* Up to here, decoding in every pass costs less than the detour through scratch. */
KIPU_INLINE int most_few(int type) { return (type == KIPU_Q6_K ? 2 : 3) * FEW_TOKENS; }

/* One panel times few tokens, in passes of equal length, of which only the first one waits for memory. */
KIPU_INLINE void gemm_few(int type, float *y, const uint8_t *panel, const kipu_acts *a, int t0, int nt) {
    for (int passes = (nt + FEW_TOKENS - 1) / FEW_TOKENS; passes > 0; passes--) {
        int pass = (nt + passes - 1) / passes;
        few_acts acts = acts_from(a, t0);
        switch (pass) {
        case 1: gemv_panel(type, 1, y, panel, acts); break;
        case 2: gemv_panel(type, 2, y, panel, acts); break;
        case 3: gemv_panel(type, 3, y, panel, acts); break;
        default: gemv_panel(type, 4, y, panel, acts); break;
        }
        nt -= pass;
        t0 += pass;
        y += pass * KIPU_PANEL_ROWS;
    }
}

/* The body of every quantised gemm of kernels.h. */
KIPU_INLINE void gemm_body(int type, float *y, const void *panels, int n_panels, const kipu_acts *a, int t0, int nt, void *scratch) {
    size_t panel_bytes = (size_t)(a->k / KIPU_GROUP / block_groups(type)) * block_bytes(type);
    bool few = nt <= most_few(type);
    int step = few ? 1 : CHUNK_PANELS;
    for (int p = 0; p < n_panels; p += step) {
        float *out = y + (size_t)p * nt * KIPU_PANEL_ROWS;
        const uint8_t *in = (const uint8_t *)panels + p * panel_bytes;
        if (few)
            gemm_few(type, out, in, a, t0, nt);
        else
            gemm_panels(type, out, in, n_panels - p < step ? n_panels - p : step, a, t0, nt, scratch);
    }
}

#endif
