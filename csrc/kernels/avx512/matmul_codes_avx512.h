/* From a panel block to what vpdpbusd eats: 64 unsigned bytes, 16 rows (lanes) x 4 consecutive k.
 *
 * Every function takes the format as its first argument and is always inlined with a constant, so each `if` on it is decided at compile
 * time. A block is walked in steps, a step in words (64 bytes: word w of 16 rows), and one word gives up to two vectors of codes:
 *
 *     format          groups/block  groups/step  words/step  codes/word   code c of word w belongs to
 *     Q4_0 Q4_1            1             1            4           2       group 0, k4 = w + 4c     (low, high nibble)
 *     Q5_0 Q5_1            1             1            4           2       the same, 5th bit from the qh word
 *     Q8_0                 1             1            8           1       group 0, k4 = w
 *     Q4_K Q5_K Q6_K       8             2            8           2       group c of the step, k4 = w
 *
 * k4 counts words of four activations inside their group of 32. Codes are unsigned: true code + zero. */
#ifndef KIPU_KERNELS_AVX512_MATMUL_CODES_AVX512_H
#define KIPU_KERNELS_AVX512_MATMUL_CODES_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include "kernels/kernels.h"

#define KIPU_INLINE static inline __attribute__((always_inline))

enum { WORD = 64, HALVES = 32, BYTES = 16 };   /* one 32-bit word, one 2-byte field, one byte field of 16 rows */

/* ---------------------------------------------------------------------------------------------- constants of the formats */
KIPU_INLINE bool is_k_quant(int type) { return type == KIPU_Q4_K || type == KIPU_Q5_K || type == KIPU_Q6_K; }
KIPU_INLINE bool has_min(int type) { return type == KIPU_Q4_1 || type == KIPU_Q5_1 || type == KIPU_Q4_K || type == KIPU_Q5_K; }

KIPU_INLINE int block_groups(int type) { return is_k_quant(type) ? 8 : 1; }
KIPU_INLINE int step_groups(int type) { return is_k_quant(type) ? 2 : 1; }
KIPU_INLINE int step_words(int type) { return is_k_quant(type) || type == KIPU_Q8_0 ? 8 : 4; }
KIPU_INLINE int word_codes(int type) { return type == KIPU_Q8_0 ? 1 : 2; }

/* Which group of the step, and which k4 of that group, code c of word w is. */
KIPU_INLINE int code_group(int type, int c) { return is_k_quant(type) ? c : 0; }
KIPU_INLINE int code_k4(int type, int w, int c) { return is_k_quant(type) ? w : w + 4 * c; }

/* What was added to make codes unsigned: sum (u - zero) q = sum u q - zero * sum q. */
KIPU_INLINE int zero_point(int type) {
    return type == KIPU_Q4_0 ? 8 : type == KIPU_Q5_0 ? 16 : type == KIPU_Q6_K ? 32 : type == KIPU_Q8_0 ? 128 : 0;
}

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
KIPU_INLINE __m512i load_word(const uint8_t *p) { return _mm512_loadu_si512((const void *)p); }
KIPU_INLINE __m512 load_halves(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }

/* The scales of one block, unpacked as far as all its groups share. */
typedef struct block_scales {
    __m512 d, m;         /* d and m or dmin */
    __m512i sc[2], mn[2];  /* Q4_K, Q5_K: 6-bit scales and mins, byte j of a lane = sub-block 4i + j */
} block_scales;

/* The 12 scale bytes of Q4_K and Q5_K are three words A B C of four bytes; byte j, bits 7..0:
 *     A = hhssssss   B = HHmmmmmm   C = MMMMSSSS        sub-block j: s, m;   sub-block 4 + j: hhSSSS, HHMMMM */
KIPU_INLINE void unpack_scales_k(block_scales *s, const uint8_t *words) {
    __m512i six = _mm512_set1_epi8(0x3f), low = _mm512_set1_epi8(0x0f), high = _mm512_set1_epi8(0x30);
    __m512i a = load_word(words), b = load_word(words + WORD), c = load_word(words + 2 * WORD);
    s->sc[0] = _mm512_and_si512(a, six);
    s->mn[0] = _mm512_and_si512(b, six);
    s->sc[1] = _mm512_or_si512(_mm512_and_si512(c, low), _mm512_and_si512(_mm512_srli_epi16(a, 2), high));
    s->mn[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(c, 4), low), _mm512_and_si512(_mm512_srli_epi16(b, 2), high));
}

KIPU_INLINE block_scales load_scales(int type, const uint8_t *block) {
    block_scales s = {0};
    s.d = load_halves(block);
    if (has_min(type))
        s.m = load_halves(block + HALVES);
    if (type == KIPU_Q4_K || type == KIPU_Q5_K)
        unpack_scales_k(&s, block + 2 * HALVES);
    return s;
}

/* Byte j of each lane as float. */
KIPU_INLINE __m512 byte_to_float(__m512i word, int j) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(word, 8 * (unsigned)j), _mm512_set1_epi32(0xff)));
}

/* Factor of group g of the block. */
KIPU_INLINE __m512 group_scale(int type, const block_scales *s, int g) {
    if (type == KIPU_Q4_K || type == KIPU_Q5_K)
        return _mm512_mul_ps(s->d, byte_to_float(s->sc[g / 4], g % 4));
    return s->d;
}

/* What is added per unit of activation: m, or -dmin * m_g. */
KIPU_INLINE __m512 group_min(int type, const block_scales *s, int g) {
    if (!is_k_quant(type))
        return s->m;
    __m512 mw = _mm512_mul_ps(s->m, byte_to_float(s->mn[g / 4], g % 4));
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(mw), _mm512_set1_epi32(INT32_MIN)));
}

/* Q6_K: scale i of 16 (half a group each) as float. */
KIPU_INLINE __m512 half_scale(const uint8_t *block, int i) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(block + HALVES + BYTES * i));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

/* ---------------------------------------------------------------------------------------------- codes */
KIPU_INLINE __m512i low_nibbles(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
KIPU_INLINE __m512i high_nibbles(__m512i x) { return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15)); }

/* a | (b & mask) */
KIPU_INLINE __m512i or_masked(__m512i a, __m512i b, int mask) {
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8((char)mask), 0xf8);
}

/* Bits n..n+7 to bits 0..7, n may be negative; bits that come from a neighbour byte must be masked away. */
KIPU_INLINE __m512i shift_right(__m512i x, int n) {
    return n >= 0 ? _mm512_srli_epi16(x, (unsigned)n) : _mm512_slli_epi16(x, (unsigned)-n);
}

/* Bit 4*k4 + j of each lane's 32 bits to bit 4 of byte j. One vpmultishiftqb picks, for every byte, eight bits of the 64-bit element
 * from a start bit on: 4*k4 + j - 4 in even lanes, 32 more in odd ones (modulo 64; of the eight only bit 4 is used). */
KIPU_INLINE __m512i fifth_bits(__m512i qh, int k4) {
    __m512i start = _mm512_set1_epi64(0x1f1e1d1c3f3e3d3cLL + 0x0404040404040404LL * k4);
    return _mm512_multishift_epi64_epi8(start, qh);
}

/* Q4_0 Q4_1 Q5_0 Q5_1 */
KIPU_INLINE void decode_nibbles(int type, __m512i code[2], const uint8_t *block, int w) {
    bool five = type == KIPU_Q5_0 || type == KIPU_Q5_1;
    const uint8_t *qh = block + (has_min(type) ? 2 : 1) * HALVES, *qs = qh + (five ? WORD : 0);
    __m512i x = load_word(qs + w * WORD);
    code[0] = low_nibbles(x);
    code[1] = high_nibbles(x);
    if (five) {
        __m512i bits = load_word(qh);
        code[0] = or_masked(code[0], fifth_bits(bits, w), 16);
        code[1] = or_masked(code[1], fifth_bits(bits, w + 4), 16);
    }
}

/* Q4_K Q5_K: step s holds the groups 2s (low nibbles) and 2s + 1; the 5th bits of group g are bit g of the 32 bytes qh. */
KIPU_INLINE void decode_k45(int type, __m512i code[2], const uint8_t *block, int step, int w) {
    const uint8_t *qh = block + 2 * HALVES + 3 * WORD, *qs = qh + (type == KIPU_Q5_K ? 8 * WORD : 0);
    __m512i x = load_word(qs + (8 * step + w) * WORD);
    code[0] = low_nibbles(x);
    code[1] = high_nibbles(x);
    if (type == KIPU_Q5_K) {
        __m512i bits = load_word(qh + w * WORD);
        code[0] = or_masked(code[0], shift_right(bits, 2 * step - 4), 16);
        code[1] = or_masked(code[1], shift_right(bits, 2 * step - 3), 16);
    }
}

/* Q6_K: steps 2h and 2h + 1 are groups 0, 1 and 2, 3 of half h of the block: the low and the high nibbles of ql words 0..7 (groups 0, 2)
 * and 8..15 (1, 3); qh holds two more bits of all four. */
KIPU_INLINE void decode_k6(__m512i code[2], const uint8_t *block, int step, int w) {
    int half = step / 2, high = step % 2;
    const uint8_t *ql = block + HALVES + 16 * BYTES + 16 * half * WORD;
    const uint8_t *qh = block + HALVES + 16 * BYTES + 32 * WORD + 8 * half * WORD;
    __m512i a = load_word(ql + w * WORD), b = load_word(ql + (8 + w) * WORD), bits = load_word(qh + w * WORD);
    code[0] = or_masked(high ? high_nibbles(a) : low_nibbles(a), shift_right(bits, 4 * high - 4), 0x30);
    code[1] = or_masked(high ? high_nibbles(b) : low_nibbles(b), shift_right(bits, 4 * high - 2), 0x30);
}

KIPU_INLINE void decode_word(int type, __m512i code[2], const uint8_t *block, int step, int w) {
    if (type == KIPU_Q6_K)
        decode_k6(code, block, step, w);
    else if (is_k_quant(type))
        decode_k45(type, code, block, step, w);
    else if (type == KIPU_Q8_0)
        code[0] = _mm512_xor_si512(load_word(block + HALVES + w * WORD), _mm512_set1_epi8((char)0x80));
    else
        decode_nibbles(type, code, block, w);
}

/* ---------------------------------------------------------------------------------------------- the dot product */
typedef int32_t unaligned_word __attribute__((may_alias, aligned(1)));

/* acc + codes . four activations, broadcast from memory. gcc does not fold the broadcast into vpdpbusd, hence the line of assembly. */
KIPU_INLINE __m512i dot4(__m512i acc, __m512i code, const int8_t *q) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(code), "m"(*(const unaligned_word *)q));
    return acc;
}

#endif
