#include "engine/model.h"

#include <string.h>
#include "base/memory_alloc.h"
#include "engine/weights.h"

struct kipu_model {
    kipu_gguf *file;
    kipu_vocab *vocab;
    kipu_program *program;
    const kipu_kernels *kernels;
    bool vocab_only;
    kipu_weights weights;
};

static kipu_status fill(kipu_model *m, bool vocab_only, kipu_vocab_warn warn, void *warn_arg, kipu_error *err) {
    kipu_vocab_source source = kipu_gguf_vocab_source(m->file);
    m->vocab_only = vocab_only;
    KIPU_TRY(kipu_kernels_get(&m->kernels, err));
    KIPU_TRY(kipu_program_new(&m->program, err));
    return kipu_vocab_new(&m->vocab, &source, warn, warn_arg, err);
}

kipu_status kipu_model_new(kipu_model **out, kipu_gguf *file, bool vocab_only, kipu_vocab_warn warn, void *warn_arg, kipu_error *err) {
    kipu_model *m = kipu_alloc(sizeof *m);
    kipu_status status = KIPU_E_MEMORY;
    if (m) {
        m->file = file;
        status = fill(m, vocab_only, warn, warn_arg, err);
    } else {
        kipu_gguf_close(file);
        kipu_fail(err, status, "no memory for a model");
    }
    if (status == KIPU_OK) *out = m;
    else kipu_model_free(m);
    return status;
}

void kipu_model_free(kipu_model *m) {
    if (!m) return;
    kipu_weights_free(&m->weights);
    kipu_program_free(m->program);
    kipu_vocab_free(m->vocab);
    kipu_gguf_close(m->file);
    kipu_free(m);
}

kipu_status kipu_model_weight(kipu_model *m, const char *name, int n_dims, const int64_t *ne, bool optional, int32_t *index,
                              kipu_error *err) {
    return kipu_weights_declare(&m->weights, m->file, m->kernels, name, n_dims, ne, optional, index, err);
}

kipu_status kipu_model_load(kipu_model *m, int n_threads, bool check_tensors, kipu_progress progress, void *progress_arg, kipu_error *err) {
    if (m->vocab_only) return KIPU_OK;
    return kipu_weights_load(&m->weights, m->file, n_threads, check_tensors, progress, progress_arg, err);
}

const kipu_gguf *kipu_model_file(const kipu_model *m) { return m->file; }
const kipu_vocab *kipu_model_vocab(const kipu_model *m) { return m->vocab; }
kipu_program *kipu_model_program(kipu_model *m) { return m->program; }
const kipu_kernels *kipu_model_kernels(const kipu_model *m) { return m->kernels; }
const kipu_weight *kipu_model_weight_at(const kipu_model *m, int32_t index) { return &m->weights.weight[index]; }
int32_t kipu_model_n_weights(const kipu_model *m) { return m->weights.count; }

uint64_t kipu_model_tensor_bytes(const kipu_model *m) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < kipu_gguf_n_tensors(m->file); i++) bytes += kipu_gguf_tensor_at(m->file, i)->bytes;
    return bytes;
}

uint64_t kipu_model_n_params(const kipu_model *m) {
    uint64_t n = 0;
    for (int64_t i = 0; i < kipu_gguf_n_tensors(m->file); i++) {
        const kipu_gguf_tensor *t = kipu_gguf_tensor_at(m->file, i);
        n += (uint64_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
    }
    return n;
}
