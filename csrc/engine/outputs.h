/* Result rows of a decode in reference-counted buffers: an array that someone still holds is never written again. */
#ifndef KIPU_ENGINE_OUTPUTS_H
#define KIPU_ENGINE_OUTPUTS_H

#include <stdint.h>
#include "base/error.h"

typedef struct kipu_output kipu_output;

/* Two buffers alternate as long as their readers let go in time. */
typedef struct kipu_outputs {
    kipu_output *buffer[2];
    int current;
    int32_t n_rows;             /* valid rows of the current buffer */
} kipu_outputs;

/* Makes a buffer of n_rows * width floats current that nobody else holds. On failure nothing changed. */
kipu_status kipu_outputs_reserve(kipu_outputs *o, int64_t n_rows, int64_t width, kipu_error *err);
float *kipu_outputs_data(const kipu_outputs *o);
kipu_output *kipu_outputs_retain(kipu_outputs *o);
void kipu_outputs_free(kipu_outputs *o);

#endif
