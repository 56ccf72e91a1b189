/* kipu for native code: one versioned table of functions, no Python in the token loop.
 *
 *     const kipu_api *kipu = kipu_import();                    // once, with the GIL; NULL with a Python error set on failure
 *     kipu_ctx *ctx = kipu->context_of(python_context);        // borrowed: keep the Python object alive and do not free it meanwhile
 *     Py_BEGIN_ALLOW_THREADS
 *     int32_t code = kipu->decode(ctx, &batch, message, sizeof message);   // 0, 1, 2, -1, -2, -3 as llama_decode
 *     Py_END_ALLOW_THREADS
 *
 * Models, contexts and samplers are made through Python; everything here but kipu_import and the ..._of functions works without the GIL.
 * Functions that take a kipu_ctx wait for its lock, one call at a time. Logits are valid until the next decode of that context.
 * No call ends the process. Compiling needs only this header and Python.h: directory kipu.get_include().
 */
#ifndef KIPU_H
#define KIPU_H

#include <stddef.h>
#include <stdint.h>

#define KIPU_API_VERSION 1
#define KIPU_API_CAPSULE "kipu._core.api"

typedef struct kipu_ctx kipu_ctx;             /* a context */
typedef struct kipu_voc kipu_voc;             /* a vocabulary */
typedef struct kipu_smpl kipu_smpl;           /* a sampler or a chain */

/* The layout of llama_batch. Pointers may be NULL as there: positions continue, sequence 0, logits of the last token. */
typedef struct kipu_api_batch {
    int32_t n_tokens;
    int32_t *token;                           /* (n_tokens), or NULL with embd */
    float *embd;                              /* (n_tokens, n_embd) */
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
} kipu_api_batch;

typedef struct kipu_api {
    int32_t version;                          /* KIPU_API_VERSION: fields are only ever added at the end */
    int32_t size;                             /* sizeof(kipu_api) of the library */

    /* From Python objects, with the GIL: borrowed, NULL with TypeError or ValueError (freed) set. */
    kipu_ctx *(*context_of)(void *py_context);        /* kipu.Context or the handle of llama_init_from_model */
    kipu_voc *(*vocab_of)(void *py_vocab);            /* kipu.Model or the handle of llama_model_get_vocab */
    kipu_smpl *(*sampler_of)(void *py_sampler);       /* the handle of llama_sampler_chain_init and others */

    /* llama_decode; -1 where that would assert. message: `size` bytes for the reason, empty on success; may be NULL. */
    int32_t (*decode)(kipu_ctx *ctx, const kipu_api_batch *batch, char *message, size_t size);
    float *(*logits_ith)(kipu_ctx *ctx, int32_t i);   /* n_vocab floats; NULL: no such output */
    uint32_t (*n_ctx)(kipu_ctx *ctx);

    void (*memory_clear)(kipu_ctx *ctx, int data);
    int (*memory_seq_rm)(kipu_ctx *ctx, int32_t seq, int32_t p0, int32_t p1);         /* 1 removed, 0 refused */
    void (*memory_seq_cp)(kipu_ctx *ctx, int32_t src, int32_t dst, int32_t p0, int32_t p1);
    void (*memory_seq_keep)(kipu_ctx *ctx, int32_t seq);
    int32_t (*memory_seq_pos_min)(kipu_ctx *ctx, int32_t seq);                        /* -1: empty */
    int32_t (*memory_seq_pos_max)(kipu_ctx *ctx, int32_t seq);

    /* Contracts of llama_tokenize and llama_token_to_piece (negative: minus the size needed). */
    int32_t (*n_vocab)(const kipu_voc *vocab);
    int32_t (*tokenize)(const kipu_voc *vocab, const char *text, int32_t text_len, int32_t *tokens, int32_t n_max, int add_special,
                        int parse_special);
    int32_t (*token_to_piece)(const kipu_voc *vocab, int32_t token, char *buf, int32_t length, int32_t lstrip, int special);
    int (*is_eog)(const kipu_voc *vocab, int32_t token);

    /* llama_sampler_sample on the logits of output i; -1: no such output, or nothing was selected. */
    int32_t (*sample)(kipu_smpl *sampler, kipu_ctx *ctx, int32_t i);
} kipu_api;

#ifdef Py_PYTHON_H
/* The table of the installed kipu; NULL with ImportError set if it is older than this header. */
static inline const kipu_api *kipu_import(void) {
    const kipu_api *api = (const kipu_api *)PyCapsule_Import(KIPU_API_CAPSULE, 0);
    if (api && (api->version < KIPU_API_VERSION || api->size < (int32_t)sizeof(kipu_api))) {
        PyErr_Format(PyExc_ImportError, "kipu's function table has version %d, this program needs %d", (int)api->version, KIPU_API_VERSION);
        return NULL;
    }
    return api;
}
#endif

#endif
