/* The block formats of GGUF tensors: one row of the table each. Ids are ggml's.
 * Bytes of each format: docs/formats/. The structs stand in blocks.h. */
#ifndef KIPU_QUANTS_FORMATS_H
#define KIPU_QUANTS_FORMATS_H

#include <stddef.h>
#include <stdint.h>

enum {
    KIPU_F32 = 0, KIPU_F16 = 1, KIPU_Q4_0 = 2, KIPU_Q4_1 = 3, KIPU_Q5_0 = 6, KIPU_Q5_1 = 7, KIPU_Q8_0 = 8, KIPU_Q8_1 = 9,
    KIPU_Q2_K = 10, KIPU_Q3_K = 11, KIPU_Q4_K = 12, KIPU_Q5_K = 13, KIPU_Q6_K = 14, KIPU_Q8_K = 15, KIPU_IQ2_XXS = 16, KIPU_IQ2_XS = 17,
    KIPU_IQ3_XXS = 18, KIPU_IQ1_S = 19, KIPU_IQ4_NL = 20, KIPU_IQ3_S = 21, KIPU_IQ2_S = 22, KIPU_IQ4_XS = 23, KIPU_I8 = 24,
    KIPU_I16 = 25, KIPU_I32 = 26, KIPU_I64 = 27, KIPU_F64 = 28, KIPU_IQ1_M = 29, KIPU_BF16 = 30, KIPU_TQ1_0 = 34, KIPU_TQ2_0 = 35,
    KIPU_MXFP4 = 39, KIPU_TYPE_COUNT = 40
};

typedef struct kipu_format {
    const char *name;    /* "Q4_0" */
    uint16_t block;      /* elements per block, 1 for plain types */
    uint16_t bytes;      /* bytes per block */
} kipu_format;

/* NULL for an id that GGUF does not know. Static storage. */
const kipu_format *kipu_format_of(int type);

/* Bytes of one row of k elements; 0 if the type is unknown or k is no multiple of the block. */
size_t kipu_row_bytes(int type, int64_t k);

#endif
