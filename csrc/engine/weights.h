/* The weights of a model: declared by name and shape, then read and packed together into one arena. */
#ifndef KIPU_ENGINE_WEIGHTS_H
#define KIPU_ENGINE_WEIGHTS_H

#include "engine/model.h"

typedef struct kipu_weights {
    kipu_weight *weight;
    int32_t count, room;
    char *arena;
    size_t arena_bytes;
} kipu_weights;

/* As kipu_model_weight. */
kipu_status kipu_weights_declare(kipu_weights *w, const kipu_gguf *file, const kipu_kernels *kernels, const char *name, int n_dims,
                                 const int64_t *ne, bool optional, int32_t *index, kipu_error *err);
/* As kipu_model_load. */
kipu_status kipu_weights_load(kipu_weights *w, const kipu_gguf *file, int n_threads, bool check, kipu_progress progress, void *progress_arg,
                              kipu_error *err);
void kipu_weights_free(kipu_weights *w);

#endif
