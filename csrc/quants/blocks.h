/* One struct per block format: the bytes of a block as they stand in a file, little endian. w is the value of element e.
 * d, m, dmin are half floats. `field@byte` in the drawings. All structs hold 2-byte alignment at most (MXFP4, Q8_K: see there).
 * The text behind each drawing: docs/formats/. */
#ifndef KIPU_QUANTS_BLOCKS_H
#define KIPU_QUANTS_BLOCKS_H

#include <stdint.h>

/* ------------------------------------------------------------------------------- 32 elements, one scale
 * qs of the 4- and 5-bit formats: byte j holds element j in its low and element j + 16 in its high nibble. */

/* | d@0 | qs[16]@2 |                      w = d * (q - 8) */
typedef struct kipu_block_q4_0 { uint16_t d; uint8_t qs[16]; } kipu_block_q4_0;
_Static_assert(sizeof(kipu_block_q4_0) == 18, "Q4_0");

/* | d@0 | m@2 | qs[16]@4 |                w = d * q + m */
typedef struct kipu_block_q4_1 { uint16_t d, m; uint8_t qs[16]; } kipu_block_q4_1;
_Static_assert(sizeof(kipu_block_q4_1) == 20, "Q4_1");

/* | d@0 | qh[4]@2 | qs[16]@6 |            w = d * (q - 16); bit e of qh (32 bits) is the fifth bit of element e */
typedef struct kipu_block_q5_0 { uint16_t d; uint8_t qh[4]; uint8_t qs[16]; } kipu_block_q5_0;
_Static_assert(sizeof(kipu_block_q5_0) == 22, "Q5_0");

/* | d@0 | m@2 | qh[4]@4 | qs[16]@8 |      w = d * q + m; qh as Q5_0 */
typedef struct kipu_block_q5_1 { uint16_t d, m; uint8_t qh[4]; uint8_t qs[16]; } kipu_block_q5_1;
_Static_assert(sizeof(kipu_block_q5_1) == 24, "Q5_1");

/* | d@0 | qs[32]@2 |                      w = d * q */
typedef struct kipu_block_q8_0 { uint16_t d; int8_t qs[32]; } kipu_block_q8_0;
_Static_assert(sizeof(kipu_block_q8_0) == 34, "Q8_0");

/* | d@0 | s@2 | qs[32]@4 |                w = d * q; s = d * sum q. An activation format of the reference, never a weight. */
typedef struct kipu_block_q8_1 { uint16_t d, s; int8_t qs[32]; } kipu_block_q8_1;
_Static_assert(sizeof(kipu_block_q8_1) == 36, "Q8_1");

/* | d@0 | qs[16]@2 |                      w = d * LUT16[q]; LUT16 = -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113 */
typedef struct kipu_block_iq4_nl { uint16_t d; uint8_t qs[16]; } kipu_block_iq4_nl;
_Static_assert(sizeof(kipu_block_iq4_nl) == 18, "IQ4_NL");

/* | e@0 | qs[16]@1 |                      w = 2^(e - 128) * {0 1 2 3 4 6 8 12 and their negatives}[q].
 * 17 bytes: not even 2-aligned in a row. */
typedef struct kipu_block_mxfp4 { uint8_t e; uint8_t qs[16]; } kipu_block_mxfp4;
_Static_assert(sizeof(kipu_block_mxfp4) == 17, "MXFP4");

/* ------------------------------------------------------------------------------- 256 elements, a scale per 16 or 32 */

/* | scales[16]@0 | qs[64]@16 | d@80 | dmin@82 |      scales[e/16]: low nibble s, high nibble m
 * e = 128h + r: q = 2 bits of qs[32h + r%32] at 2 (r/32);         w = d * s * q - dmin * m */
typedef struct kipu_block_q2_k { uint8_t scales[16]; uint8_t qs[64]; uint16_t d, dmin; } kipu_block_q2_k;
_Static_assert(sizeof(kipu_block_q2_k) == 84, "Q2_K");

/* | hmask[32]@0 | qs[64]@32 | scales[12]@96 | d@108 |
 * q = 2 bits as Q2_K + 4 * bit 4h + r/32 of hmask[r%32] - 4;      w = d * (s - 32) * q
 * s of 16 elements i: nibble i (scales[i] low for i < 8, scales[i-8] high) + 16 * 2 bits of scales[8 + i%4] at 2 (i/4) */
typedef struct kipu_block_q3_k { uint8_t hmask[32]; uint8_t qs[64]; uint8_t scales[12]; uint16_t d; } kipu_block_q3_k;
_Static_assert(sizeof(kipu_block_q3_k) == 110, "Q3_K");

/* | d@0 | dmin@2 | scales[12]@4 | qs[128]@16 |       byte 32c + l: low nibble e = 64c + l, high nibble e = 64c + 32 + l
 * scale s and min m of 32 elements j, 6 bits each, w = d * s * q - dmin * m:
 *
 *     scales[j]       j < 4    | s_{j+4} bits 4,5 | s_j  6 bits |
 *     scales[4 + j]   j < 4    | m_{j+4} bits 4,5 | m_j  6 bits |
 *     scales[8 + j]   j < 4    | m_{j+4} bits 0-3 | s_{j+4} bits 0-3 | */
typedef struct kipu_block_q4_k { uint16_t d, dmin; uint8_t scales[12]; uint8_t qs[128]; } kipu_block_q4_k;
_Static_assert(sizeof(kipu_block_q4_k) == 144, "Q4_K");

/* | d@0 | dmin@2 | scales[12]@4 | qh[32]@16 | qs[128]@48 |    as Q4_K; the fifth bit is bit e/32 of qh[e%32] */
typedef struct kipu_block_q5_k { uint16_t d, dmin; uint8_t scales[12]; uint8_t qh[32]; uint8_t qs[128]; } kipu_block_q5_k;
_Static_assert(sizeof(kipu_block_q5_k) == 176, "Q5_K");

/* | ql[128]@0 | qh[64]@128 | scales[16]@192 | d@208 |         w = d * scales[e/16] * (q - 32); for half h and l < 32:
 *
 *     e = 128h + l        low nibble of ql[64h + l]         bits 0,1 of qh[32h + l]
 *     e = 128h + 32 + l   low nibble of ql[64h + 32 + l]    bits 2,3
 *     e = 128h + 64 + l   high nibble of ql[64h + l]        bits 4,5
 *     e = 128h + 96 + l   high nibble of ql[64h + 32 + l]   bits 6,7 */
typedef struct kipu_block_q6_k { uint8_t ql[128]; uint8_t qh[64]; int8_t scales[16]; uint16_t d; } kipu_block_q6_k;
_Static_assert(sizeof(kipu_block_q6_k) == 210, "Q6_K");

/* | d@0 (float) | qs[256]@4 | sums[16]@260 |         an activation format of the reference, never a weight. 4-byte aligned. */
typedef struct kipu_block_q8_k { float d; int8_t qs[256]; int16_t sums[16]; } kipu_block_q8_k;
_Static_assert(sizeof(kipu_block_q8_k) == 292, "Q8_K");

/* | d@0 | sh@2 | sl[4]@4 | qs[128]@8 |               32 elements i in Q4_0's order, w = d * (s - 32) * LUT16[q]
 * s = nibble i of sl + 16 * 2 bits of sh at 2i */
typedef struct kipu_block_iq4_xs { uint16_t d, sh; uint8_t sl[4]; uint8_t qs[128]; } kipu_block_iq4_xs;
_Static_assert(sizeof(kipu_block_iq4_xs) == 136, "IQ4_XS");

/* ------------------------------------------------------------------------------- 256 elements, points of a grid
 * "sign index": 7 bits; the eighth sign makes their parity even. */

/* | d@0 | qs[32]@2 |     per 32 elements 8 bytes: 4 grid indices, then 32 bits = 4 sign indices of 7 bits, s of 4 bits on top
 * w = d * (s + 1/2) / 4 * grid[256][8] * sign */
typedef struct kipu_block_iq2_xxs { uint16_t d; uint16_t qs[32]; } kipu_block_iq2_xxs;
_Static_assert(sizeof(kipu_block_iq2_xxs) == 66, "IQ2_XXS");

/* | d@0 | qs[32]@2 | scales[8]@66 |      per 8 elements: 9 bits grid index, 7 bits sign index; nibble s per 16 */
typedef struct kipu_block_iq2_xs { uint16_t d; uint16_t qs[32]; uint8_t scales[8]; } kipu_block_iq2_xs;
_Static_assert(sizeof(kipu_block_iq2_xs) == 74, "IQ2_XS");

/* | d@0 | qs[32]@2 | signs[32]@34 | qh[8]@66 | scales[8]@74 |    per 8 elements: 8 + 2 bits grid index, a byte of signs; nibble s per 16 */
typedef struct kipu_block_iq2_s { uint16_t d; uint8_t qs[32], signs[32], qh[8], scales[8]; } kipu_block_iq2_s;
_Static_assert(sizeof(kipu_block_iq2_s) == 82, "IQ2_S");

/* | d@0 | qs[64]@2 | signs[32]@66 |      a grid index per 4; per 32 elements 32 bits as in IQ2_XXS
 * w = d * (s + 1/2) / 2 * grid[256][4] * sign */
typedef struct kipu_block_iq3_xxs { uint16_t d; uint8_t qs[64]; uint8_t signs[32]; } kipu_block_iq3_xxs;
_Static_assert(sizeof(kipu_block_iq3_xxs) == 98, "IQ3_XXS");

/* | d@0 | qs[64]@2 | qh[8]@66 | signs[32]@74 | scales[4]@106 |   8 + 1 bits grid index per 4; nibble s per 32
 * w = d * (1 + 2s) * grid * sign */
typedef struct kipu_block_iq3_s { uint16_t d; uint8_t qs[64]; uint8_t qh[8]; uint8_t signs[32]; uint8_t scales[4]; } kipu_block_iq3_s;
_Static_assert(sizeof(kipu_block_iq3_s) == 110, "IQ3_S");

/* | d@0 | qs[32]@2 | qh[8]@34 |          qh per 32 elements: 4 x 3 high bits of the grid index, 3 bits s, sign of delta
 * w = d * (2s + 1) * (grid[2048][8] +- 1/8) */
typedef struct kipu_block_iq1_s { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; } kipu_block_iq1_s;
_Static_assert(sizeof(kipu_block_iq1_s) == 50, "IQ1_S");

/* | qs[32]@0 | qh[16]@32 | scales[8]@48 |    qh: per 8 elements 3 high index bits and the sign of delta
 * scales as four 16-bit words: 4 x 3 bits s (one per 16 elements), the top nibbles together are d */
typedef struct kipu_block_iq1_m { uint8_t qs[32]; uint8_t qh[16]; uint8_t scales[8]; } kipu_block_iq1_m;
_Static_assert(sizeof(kipu_block_iq1_m) == 56, "IQ1_M");

/* ------------------------------------------------------------------------------- 256 elements, -d, 0 or d */

/* | qs[48]@0 | qh[4]@48 | d@52 |         five base-3 digits per byte (four in qh); w = d * (digit - 1)
 * digit n of byte x: ((x * 3^n mod 256) * 3) >> 8
 * qs[j], j < 32: e = 32n + j;  qs[32 + j], j < 16: e = 160 + 16n + j;  qh[j]: e = 240 + 4n + j */
typedef struct kipu_block_tq1_0 { uint8_t qs[48]; uint8_t qh[4]; uint16_t d; } kipu_block_tq1_0;
_Static_assert(sizeof(kipu_block_tq1_0) == 54, "TQ1_0");

/* | qs[64]@0 | d@64 |                    2 bits as Q2_K; w = d * (q - 1) */
typedef struct kipu_block_tq2_0 { uint8_t qs[64]; uint16_t d; } kipu_block_tq2_0;
_Static_assert(sizeof(kipu_block_tq2_0) == 66, "TQ2_0");

#endif
