#include <string.h>
#include "ops/attention.h"

enum { CHANNELS = 128 };   /* K elements of one step, so that the rounded rows stay on the stack */

/* K block:  [n_embd_k][16]   channel 0: lane 0 1 .. 15 | channel 1: lane 0 .. 15 | ...    A token fills one lane. */

static void columns_half(uint16_t *block, uint16_t rows[][CHANNELS], const int32_t *lanes, int n, int channels) {
    for (int t = 0; t < n; t++)
        for (int i = 0; i < channels; i++) block[i * KIPU_BLOCK_CELLS + lanes[t]] = rows[t][i];
}

/* All sixteen lanes in order: whole channels at a time. */
static void block_half(uint16_t *block, uint16_t rows[][CHANNELS], int channels) {
    for (int i = 0; i < channels; i++) {
        uint16_t column[KIPU_BLOCK_CELLS];
        for (int t = 0; t < KIPU_BLOCK_CELLS; t++) column[t] = rows[t][i];
        memcpy(block + i * KIPU_BLOCK_CELLS, column, sizeof column);
    }
}

static void columns_float(float *block, const float *k, int32_t n_embd, const int32_t *lanes, int n) {
    for (int32_t i = 0; i < n_embd; i++)
        for (int t = 0; t < n; t++) block[(size_t)i * KIPU_BLOCK_CELLS + lanes[t]] = k[(size_t)t * n_embd + i];
}

static void store_k_half(const kipu_kernels *kernels, uint16_t *block, const float *k, int32_t n_embd, const int32_t *lanes, int n) {
    uint16_t rows[KIPU_BLOCK_CELLS][CHANNELS];
    bool whole = n == KIPU_BLOCK_CELLS && lanes[0] == 0;   /* ascending, so the others follow */
    for (int32_t c = 0; c < n_embd; c += CHANNELS) {
        int channels = n_embd - c < CHANNELS ? n_embd - c : CHANNELS;
        uint16_t *to = block + (size_t)c * KIPU_BLOCK_CELLS;
        for (int t = 0; t < n; t++) kernels->to_half(rows[t], k + (size_t)t * n_embd + c, channels);
        if (whole) block_half(to, rows, channels);
        else columns_half(to, rows, lanes, n, channels);
    }
}

/* How many of the tokens from t on lie in one K block, in ascending lanes. */
static int same_block(const int32_t *cells, int t, int t1, int32_t *lanes) {
    int n = 0;
    for (; t + n < t1 && n < KIPU_BLOCK_CELLS && cells[t + n] / KIPU_BLOCK_CELLS == cells[t] / KIPU_BLOCK_CELLS; n++) {
        lanes[n] = cells[t + n] % KIPU_BLOCK_CELLS;
        if (n && lanes[n] <= lanes[n - 1]) break;
    }
    return n;
}

static void store_v(const kipu_kernels *kernels, const kipu_kv_layer *layer, int32_t cell, const float *v) {
    char *row = kipu_kv_v_row(layer, cell);
    if (layer->type_v == KIPU_F16) kernels->to_half((uint16_t *)row, v, layer->n_embd_v);
    else memcpy(row, v, layer->n_embd_v * sizeof(float));
}

void kipu_kv_store(const kipu_kernels *kernels, const kipu_kv_layer *layer, const int32_t *cells, const float *k, const float *v, int t0,
                   int t1) {
    int32_t lanes[KIPU_BLOCK_CELLS];
    for (int t = t0, n; t < t1; t += n) {
        n = same_block(cells, t, t1, lanes);
        char *block = kipu_kv_k_block(layer, cells[t] / KIPU_BLOCK_CELLS);
        const float *rows = k + (size_t)t * layer->n_embd_k;
        if (layer->type_k == KIPU_F16) store_k_half(kernels, (uint16_t *)block, rows, layer->n_embd_k, lanes, n);
        else columns_float((float *)block, rows, layer->n_embd_k, lanes, n);
    }
    for (int t = t0; t < t1; t++) store_v(kernels, layer, cells[t], v + (size_t)t * layer->n_embd_v);
}
