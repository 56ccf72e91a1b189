/* From a panel block to what vpmaddubsw eats: 32 unsigned bytes, 8 rows (lanes) x 4 consecutive k.
 *
 * Every function takes the format as its first argument and is always inlined with a constant, so each `if` on it is decided at compile
 * time. A panel is worked in two sides of 8 rows: side 0 is rows 0..7, side 1 rows 8..15. A block is walked in steps, a step in words (64
 * bytes: word w of 16 rows, 32 of one side), and one word gives up to four vectors of codes:
 *
 *     format          groups/block  groups/step  words/step  codes/word   code c of word w belongs to
 *     Q4_0 Q4_1            1             1            4           2       group 0, k4 = w + 4c     (low, high nibble)
 *     Q5_0 Q5_1            1             1            4           2       the same, 5th bit from the qh word
 *     Q8_0                 1             1            8           1       group 0, k4 = w
 *     Q4_K Q5_K            8             2            8           2       group c of the step, k4 = w
 *     Q6_K                 8             4            8           4       group c of the step, k4 = w
 *
 * k4 counts words of four activations inside their group of 32. Codes are unsigned: true code + zero; those of Q8_0 stay signed. */
#ifndef KIPU_KERNELS_AVX2_MATMUL_CODES_AVX2_H
#define KIPU_KERNELS_AVX2_MATMUL_CODES_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include "kernels/kernels.h"

#define KIPU_INLINE static inline __attribute__((always_inline))

enum { WORD = 64, HALVES = 32, BYTES = 16 };   /* one 32-bit word, one 2-byte field, one byte field of 16 rows */
enum { SIDES = 2, SIDE_ROWS = 8 };

/* ---------------------------------------------------------------------------------------------- constants of the formats */
KIPU_INLINE bool is_k_quant(int type) { return type == KIPU_Q4_K || type == KIPU_Q5_K || type == KIPU_Q6_K; }
KIPU_INLINE bool has_min(int type) { return type == KIPU_Q4_1 || type == KIPU_Q5_1 || type == KIPU_Q4_K || type == KIPU_Q5_K; }
KIPU_INLINE bool has_fifth_bit(int type) { return type == KIPU_Q5_0 || type == KIPU_Q5_1 || type == KIPU_Q5_K; }

KIPU_INLINE int block_groups(int type) { return is_k_quant(type) ? 8 : 1; }
KIPU_INLINE int step_groups(int type) { return type == KIPU_Q6_K ? 4 : is_k_quant(type) ? 2 : 1; }
KIPU_INLINE int block_steps(int type) { return type == KIPU_Q6_K ? 2 : is_k_quant(type) ? 4 : 1; }
KIPU_INLINE int step_words(int type) { return is_k_quant(type) || type == KIPU_Q8_0 ? 8 : 4; }
KIPU_INLINE int word_codes(int type) { return type == KIPU_Q6_K ? 4 : type == KIPU_Q8_0 ? 1 : 2; }

/* Which group of the step, and which k4 of that group, code c of word w is. */
KIPU_INLINE int code_group(int type, int c) { return is_k_quant(type) ? c : 0; }
KIPU_INLINE int code_k4(int type, int w, int c) { return is_k_quant(type) ? w : w + 4 * c; }

/* What was added to make codes unsigned: sum (u - zero) q = sum u q - zero * sum q. */
KIPU_INLINE int zero_point(int type) { return type == KIPU_Q4_0 ? 8 : type == KIPU_Q5_0 ? 16 : type == KIPU_Q6_K ? 32 : 0; }

/* Bytes of one panel block. */
KIPU_INLINE int block_bytes(int type) {
    switch (type) {
    case KIPU_Q4_0: return 16 * 18;
    case KIPU_Q4_1: return 16 * 20;
    case KIPU_Q5_0: return 16 * 22;
    case KIPU_Q5_1: return 16 * 24;
    case KIPU_Q8_0: return 16 * 34;
    case KIPU_Q4_K: return 16 * 144;
    case KIPU_Q5_K: return 16 * 176;
    default: return 16 * 210;
    }
}

/* ---------------------------------------------------------------------------------------------- scales */

/* One side of a word, of a 2-byte field, of a byte field. */
KIPU_INLINE __m256i load_word(const uint8_t *p, int side) { return _mm256_loadu_si256((const __m256i *)(p + side * WORD / SIDES)); }
KIPU_INLINE __m256 load_halves(const uint8_t *p, int side) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + side * HALVES / SIDES)));
}
KIPU_INLINE __m256i load_bytes(const uint8_t *p, int side) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + side * BYTES / SIDES)));
}

/* The scales of one side of a block, unpacked as far as all its groups share. */
typedef struct block_scales {
    __m256 d, m;           /* d and m or dmin */
    __m256i sc[2], mn[2];  /* Q4_K, Q5_K: 6-bit scales and mins, byte j of a lane of [i] = sub-block 4i + j */
} block_scales;

/* The 12 scale bytes of Q4_K and Q5_K are three words A B C of four bytes; byte j, bits 7..0:
 *     A = hhssssss   B = HHmmmmmm   C = MMMMSSSS        sub-block j: s, m;   sub-block 4 + j: hhSSSS, HHMMMM */
KIPU_INLINE void unpack_scales_k(block_scales *s, const uint8_t *words, int side) {
    __m256i six = _mm256_set1_epi8(0x3f), low = _mm256_set1_epi8(0x0f), high = _mm256_set1_epi8(0x30);
    __m256i a = load_word(words, side), b = load_word(words + WORD, side), c = load_word(words + 2 * WORD, side);
    s->sc[0] = _mm256_and_si256(a, six);
    s->mn[0] = _mm256_and_si256(b, six);
    s->sc[1] = _mm256_or_si256(_mm256_and_si256(c, low), _mm256_and_si256(_mm256_srli_epi16(a, 2), high));
    s->mn[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(c, 4), low), _mm256_and_si256(_mm256_srli_epi16(b, 2), high));
}

KIPU_INLINE block_scales load_scales(int type, const uint8_t *block, int side) {
    block_scales s = {0};
    s.d = load_halves(block, side);
    if (has_min(type))
        s.m = load_halves(block + HALVES, side);
    if (type == KIPU_Q4_K || type == KIPU_Q5_K)
        unpack_scales_k(&s, block + 2 * HALVES, side);
    return s;
}

/* Byte j of each lane as float. */
KIPU_INLINE __m256 byte_to_float(__m256i word, int j) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(word, 8 * j), _mm256_set1_epi32(0xff)));
}

/* Factor of group g of the block. */
KIPU_INLINE __m256 group_scale(int type, const block_scales *s, int g) {
    if (type == KIPU_Q4_K || type == KIPU_Q5_K)
        return _mm256_mul_ps(s->d, byte_to_float(s->sc[g / 4], g % 4));
    return s->d;
}

/* What is added per unit of activation: m, or -dmin * m_g. */
KIPU_INLINE __m256 group_min(int type, const block_scales *s, int g) {
    if (!is_k_quant(type))
        return s->m;
    return _mm256_xor_ps(_mm256_mul_ps(s->m, byte_to_float(s->mn[g / 4], g % 4)), _mm256_set1_ps(-0.0f));
}

/* Q6_K: scale i of 16 (half a group each) twice in each lane, as factors of vpmaddwd. */
KIPU_INLINE __m256i half_scale(const uint8_t *block, int i, int side) {
    __m256i sc = load_bytes(block + HALVES + BYTES * i, side);
    return _mm256_blend_epi16(sc, _mm256_slli_epi32(sc, 16), 0xaa);
}

/* ---------------------------------------------------------------------------------------------- codes */
KIPU_INLINE __m256i low_nibbles(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
KIPU_INLINE __m256i high_nibbles(__m256i x) { return _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15)); }

/* a | (b & mask) */
KIPU_INLINE __m256i or_masked(__m256i a, __m256i b, int mask) {
    return _mm256_or_si256(a, _mm256_and_si256(b, _mm256_set1_epi8((char)mask)));
}

/* Bits n..n+7 to bits 0..7, n may be negative; bits that come from a neighbour byte must be masked away. */
KIPU_INLINE __m256i shift_right(__m256i x, int n) { return n >= 0 ? _mm256_srli_epi16(x, n) : _mm256_slli_epi16(x, -n); }

/* 16 in byte j of each lane where bit 4*k4 + j of its 32 bits is set: the byte with these bits goes to all four, each keeps its own. */
KIPU_INLINE __m256i fifth_bits(__m256i qh, int k4) {
    __m256i lane = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    __m256i bytes = _mm256_shuffle_epi8(qh, _mm256_add_epi8(lane, _mm256_set1_epi8((char)(k4 / 2))));
    __m256i bit = _mm256_set1_epi32(k4 % 2 ? (int)0x80402010 : 0x08040201);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), _mm256_set1_epi8(16));
}

/* Q4_0 Q4_1 Q5_0 Q5_1 */
KIPU_INLINE void decode_nibbles(int type, __m256i code[4], const uint8_t *block, int w, int side) {
    const uint8_t *qh = block + (has_min(type) ? 2 : 1) * HALVES, *qs = qh + (has_fifth_bit(type) ? WORD : 0);
    __m256i x = load_word(qs + w * WORD, side);
    code[0] = low_nibbles(x);
    code[1] = high_nibbles(x);
    if (has_fifth_bit(type)) {
        __m256i bits = load_word(qh, side);
        code[0] = _mm256_or_si256(code[0], fifth_bits(bits, w));
        code[1] = _mm256_or_si256(code[1], fifth_bits(bits, w + 4));
    }
}

/* Q4_K Q5_K: step s holds the groups 2s (low nibbles) and 2s + 1; the 5th bits of group g are bit g of the 32 bytes qh. */
KIPU_INLINE void decode_k45(int type, __m256i code[4], const uint8_t *block, int step, int w, int side) {
    const uint8_t *qh = block + 2 * HALVES + 3 * WORD, *qs = qh + (type == KIPU_Q5_K ? 8 * WORD : 0);
    __m256i x = load_word(qs + (8 * step + w) * WORD, side);
    code[0] = low_nibbles(x);
    code[1] = high_nibbles(x);
    if (type == KIPU_Q5_K) {
        __m256i bits = load_word(qh + w * WORD, side);
        code[0] = or_masked(code[0], shift_right(bits, 2 * step - 4), 16);
        code[1] = or_masked(code[1], shift_right(bits, 2 * step - 3), 16);
    }
}

/* Q6_K: step s is one half (128) of the block; ql words 0..7 and 8..15 hold groups 0, 2 and 1, 3; qh two bits of all four. */
KIPU_INLINE void decode_k6(__m256i code[4], const uint8_t *block, int step, int w, int side) {
    const uint8_t *ql = block + HALVES + 16 * BYTES + 16 * step * WORD;
    const uint8_t *qh = block + HALVES + 16 * BYTES + 32 * WORD + 8 * step * WORD;
    __m256i a = load_word(ql + w * WORD, side), b = load_word(ql + (8 + w) * WORD, side), bits = load_word(qh + w * WORD, side);
    code[0] = or_masked(low_nibbles(a), shift_right(bits, -4), 0x30);
    code[1] = or_masked(low_nibbles(b), shift_right(bits, -2), 0x30);
    code[2] = or_masked(high_nibbles(a), bits, 0x30);
    code[3] = or_masked(high_nibbles(b), shift_right(bits, 2), 0x30);
}

KIPU_INLINE void decode_word(int type, __m256i code[4], const uint8_t *block, int step, int w, int side) {
    if (type == KIPU_Q6_K)
        decode_k6(code, block, step, w, side);
    else if (is_k_quant(type))
        decode_k45(type, code, block, step, w, side);
    else if (type == KIPU_Q8_0)
        code[0] = load_word(block + HALVES + w * WORD, side);
    else
        decode_nibbles(type, code, block, w, side);
}

/* ---------------------------------------------------------------------------------------------- the dot product */
typedef int32_t unaligned_word __attribute__((may_alias, aligned(1)));

KIPU_INLINE __m256i broadcast4(const void *q) { return _mm256_set1_epi32(*(const unaligned_word *)q); }

/* x, but the compiler does not know: it would reorder long sums of integers so that all their products wait in memory for the end. */
KIPU_INLINE __m256i in_order(__m256i x) {
    __asm__("" : "+x"(x));
    return x;
}

/* Products of the four codes of each lane and four activations, added in pairs: two 16-bit sums per lane. A pair of Q8_0 reaches
 * 2 * 128 * 127 = 32512, so nothing saturates; |-128| = 128 is right as an unsigned byte. */
KIPU_INLINE __m256i pair_products(int type, __m256i code, __m256i q) {
    if (type == KIPU_Q8_0)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(q, code));
    return _mm256_maddubs_epi16(code, q);
}

#endif
