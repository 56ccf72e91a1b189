/* A model: the open file's facts, packed weights, vocabulary and the recorded program. Immutable once loaded; any thread. */
#ifndef KIPU_ENGINE_MODEL_H
#define KIPU_ENGINE_MODEL_H

#include <stdbool.h>
#include "engine/gguf.h"
#include "engine/program.h"
#include "kernels/kernels.h"
#include "text/vocab.h"

typedef enum kipu_layout { KIPU_PANELS, KIPU_VECTOR } kipu_layout;   /* a matrix in P16 panels, or n floats (norms, biases, rope factors) */

typedef struct kipu_weight {
    char name[64];
    kipu_layout layout;
    int type;                     /* of the file; vectors are held as floats */
    int64_t k, rows;              /* matrix [k, rows]; vector: k values, rows 1 */
    const kipu_matmul_kernels *mm;
    const char *data;             /* panels or floats, 64-byte aligned */
    size_t panel_bytes;           /* 16 rows */
    int64_t n_panels;
    const kipu_gguf_tensor *source;
} kipu_weight;

/* false cancels the load. progress 0..1. */
typedef bool (*kipu_progress)(void *arg, float progress);

typedef struct kipu_model kipu_model;

/* Takes the file over (it is closed with the model, or at once on failure). */
kipu_status kipu_model_new(kipu_model **out, kipu_gguf *file, bool vocab_only, kipu_vocab_warn warn, void *warn_arg, kipu_error *err);
void kipu_model_free(kipu_model *m);
const kipu_gguf *kipu_model_file(const kipu_model *m);
const kipu_vocab *kipu_model_vocab(const kipu_model *m);
kipu_program *kipu_model_program(kipu_model *m);              /* the recorder writes here before kipu_model_load */

/* Declares a weight that the program uses and checks name and shape (ne, fastest first; n_dims 1 or 2). *index for the program's nodes.
 * Absent: KIPU_OK and *index -1 if optional, else KIPU_E_FORMAT. The same name twice gives the same index. */
kipu_status kipu_model_weight(kipu_model *m, const char *name, int n_dims, const int64_t *ne, bool optional, int32_t *index,
                              kipu_error *err);
/* Reads and packs all declared weights on n_threads threads. Tensors of the file that nobody declared: KIPU_E_FORMAT "wrong number of
 * tensors". progress is called on this thread alone: with 0, now and then, with 1. KIPU_E_STATE: loaded before, or tried to. */
kipu_status kipu_model_load(kipu_model *m, int n_threads, bool check_tensors, kipu_progress progress, void *progress_arg, kipu_error *err);

const kipu_weight *kipu_model_weight_at(const kipu_model *m, int32_t index);
int32_t kipu_model_n_weights(const kipu_model *m);
uint64_t kipu_model_tensor_bytes(const kipu_model *m);       /* of all tensors of the file */
uint64_t kipu_model_n_params(const kipu_model *m);
const kipu_kernels *kipu_model_kernels(const kipu_model *m);

/* Rows [r0, r1) of a matrix in file order and format (out: (r1 - r0) * row bytes), whatever the layout in memory. */
kipu_status kipu_weight_rows(const kipu_weight *w, int64_t r0, int64_t r1, void *out, kipu_error *err);
/* One row as floats. */
void kipu_weight_row_floats(const kipu_weight *w, int64_t row, float *out, void *scratch_row);

#endif
