/* Many tokens times quantised panels. Always inlined with a constant format. */
#ifndef KIPU_KERNELS_AVX2_MATMUL_GEMM_AVX2_H
#define KIPU_KERNELS_AVX2_MATMUL_GEMM_AVX2_H

#include <string.h>
#include "kernels/avx2/matmul_gemv_avx2.h"
#include "kernels/avx2/matmul_tile_avx2.h"

/* ---------------------------------------------------------------------------------------------- panels into scratch */
KIPU_INLINE void store_side(void *p, int side, __m256i x) { _mm256_storeu_si256((__m256i *)((uint8_t *)p + side * WORD / SIDES), x); }

KIPU_INLINE void decode_scales(int type, panel_chunk *out, int g, const uint8_t *block, int side) {
    block_scales scales = load_scales(type, block, side);
#pragma GCC unroll 8
    for (int i = 0; i < block_groups(type); i++) {
        _mm256_storeu_ps(&out->scale[g + i][side * SIDE_ROWS], group_scale(type, &scales, i));
        if (has_min(type))
            _mm256_storeu_ps(&out->min[g + i][side * SIDE_ROWS], group_min(type, &scales, i));
        if (type == KIPU_Q6_K) {
            store_side(out->half_scale[g + i][0], side, half_scale(block, 2 * i, side));
            store_side(out->half_scale[g + i][1], side, half_scale(block, 2 * i + 1, side));
        }
    }
}

KIPU_INLINE void decode_codes(int type, uint8_t *codes, const uint8_t *block, int side) {
#pragma GCC unroll 4
    for (int step = 0; step < block_steps(type); step++) {
#pragma GCC unroll 8
        for (int w = 0; w < step_words(type); w++) {
            __m256i code[4];
            if (side == 0)
                prefetch_share(type, block, step, w);
            decode_word(type, code, block, step, w, side);
#pragma GCC unroll 4
            for (int c = 0; c < word_codes(type); c++) {
                int k4 = (step * step_groups(type) + code_group(type, c)) * K4 + code_k4(type, w, c);
                store_side(codes + k4 * WORD, side, code[c]);
            }
        }
    }
}

/* Codes and scales of one chunk of a panel. */
KIPU_INLINE void decode_chunk(int type, panel_chunk *out, const uint8_t *block, int n_groups) {
    for (int g = 0; g < n_groups; g += block_groups(type), block += block_bytes(type)) {
#pragma GCC unroll 2
        for (int side = 0; side < SIDES; side++) {
            decode_scales(type, out, g, block, side);
            decode_codes(type, out->codes + g * K4 * WORD, block, side);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- tokens into scratch */
KIPU_INLINE void copy_codes(int8_t *out, const int8_t *q, int n_groups) {
    for (int g = 0; g < n_groups; g++)
        _mm256_storeu_si256((__m256i *)(out + g * KIPU_GROUP), _mm256_loadu_si256((const __m256i *)(q + g * KIPU_GROUP)));
}

/* Start values of four groups. Each lane of `pairs` holds two 16-bit sums over one word of four activations; the four words of each half
 * group are added, and the halves too if they share a start value. */
KIPU_INLINE void load_seeds(int type, token_chunk *out, int g) {
    __m256i pairs[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        pairs[i] = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256((const __m256i *)(out->q + (g + i) * KIPU_GROUP)));
    __m256i a = _mm256_add_epi16(_mm256_unpacklo_epi32(pairs[0], pairs[1]), _mm256_unpackhi_epi32(pairs[0], pairs[1]));
    __m256i b = _mm256_add_epi16(_mm256_unpacklo_epi32(pairs[2], pairs[3]), _mm256_unpackhi_epi32(pairs[2], pairs[3]));
    a = _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    a = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(a, __builtin_ctz((unsigned)tile_zero(type))));
    __m128i first = _mm256_castsi256_si128(a), second = _mm256_extracti128_si256(a, 1);
    if (type == KIPU_Q6_K)
        _mm_storeu_si128((__m128i *)&out->seed[1][g], second);
    _mm_storeu_si128((__m128i *)&out->seed[0][g], type == KIPU_Q6_K ? first : _mm_add_epi16(first, second));
}

/* n_groups groups of one token. Beyond them seeds of old bytes are made, which nobody reads. */
KIPU_INLINE void load_token(int type, token_chunk *out, const int8_t *q, const float *d, const int32_t *s, int n_groups) {
    copy_codes(out->q, q, n_groups);
    for (int g = 0; tile_zero(type) && g < n_groups; g += 4)
        load_seeds(type, out, g);
    memcpy(out->d, d, sizeof(float) * (size_t)n_groups);
    for (int g = 0; has_min(type) && g < n_groups; g++) {
        out->ds[g] = d[g] * (float)s[g];
        out->lift[g] = tile_zero(type) * s[g];
    }
}

KIPU_INLINE void load_tokens(int type, token_chunk *out, const kipu_acts *a, int t0, int nt, int first, int n_groups) {
    int64_t groups = a->k / KIPU_GROUP;
    for (int t = 0; t < nt; t++) {
        int64_t at = (t0 + t) * groups + first;
        load_token(type, &out[t], a->q + at * KIPU_GROUP, a->d + at, a->s + at, n_groups);
    }
}

/* ---------------------------------------------------------------------------------------------- loops */

/* One panel times up to CHUNK_TOKENS tokens: full tiles, then one of 2 and one of 1 token as needed. */
KIPU_INLINE void tiles(int type, float *y, const panel_chunk *panel, const token_chunk *tokens, int nt, int n_groups) {
    int t = 0;
    for (; t + TILE_TOKENS <= nt; t += TILE_TOKENS)
        tile_of(type, TILE_TOKENS, y + t * KIPU_PANEL_ROWS, panel, tokens + t, n_groups);
    if (t + 2 <= nt) {
        tile_of(type, 2, y + t * KIPU_PANEL_ROWS, panel, tokens + t, n_groups);
        t += 2;
    }
    if (t < nt)
        tile_of(type, 1, y + t * KIPU_PANEL_ROWS, panel, tokens + t, n_groups);
}

/* Up to CHUNK_PANELS panels times all tokens. y[panel][token][16]. */
KIPU_INLINE void gemm_panels(int type, float *y, const uint8_t *panels, int n_panels, const kipu_acts *a, int t0, int nt,
                             gemm_scratch *scratch) {
    int groups = a->k / KIPU_GROUP;
    size_t panel_bytes = (size_t)(groups / block_groups(type)) * block_bytes(type);
    memset(y, 0, sizeof(float) * n_panels * nt * KIPU_PANEL_ROWS);
    for (int first = 0; first < groups; first += CHUNK_GROUPS) {
        int n_groups = groups - first < CHUNK_GROUPS ? groups - first : CHUNK_GROUPS;
        const uint8_t *in = panels + (size_t)(first / block_groups(type)) * block_bytes(type);
        for (int p = 0; p < n_panels; p++)
            decode_chunk(type, &scratch->panels[p], in + p * panel_bytes, n_groups);
        for (int t = 0; t < nt; t += CHUNK_TOKENS) {
            int n = nt - t < CHUNK_TOKENS ? nt - t : CHUNK_TOKENS;
            load_tokens(type, scratch->tokens, a, t0 + t, n, first, n_groups);
            for (int p = 0; p < n_panels; p++)
                tiles(type, y + ((size_t)p * nt + t) * KIPU_PANEL_ROWS, &scratch->panels[p], scratch->tokens, n, n_groups);
        }
    }
}

/* One panel, decoded in registers, in passes over few tokens each, of which only the first one waits for memory. */
KIPU_INLINE void gemm_few(int type, float *y, const uint8_t *panel, const kipu_acts *a, int t0, int nt) {
    for (int t = 0, pass; t < nt; t += pass) {
        few_acts acts = acts_from(a, t0 + t);
        float *out = y + t * KIPU_PANEL_ROWS;
        pass = nt - t >= few_tokens(type) ? few_tokens(type) : nt - t >= 2 ? 2 : 1;
        if (pass == 1)
            gemv_panel(type, 1, out, panel, acts);
        else if (pass == 2)
            gemv_panel(type, 2, out, panel, acts);
        else
            gemv_panel(type, few_tokens(type), out, panel, acts);
    }
}

/* Up to this many tokens gemm_few is faster; in two passes only for Q8_0, which has next to nothing to decode. */
KIPU_INLINE int most_few(int type) { return type == KIPU_Q8_0 ? 2 * few_tokens(type) : few_tokens(type); }

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
