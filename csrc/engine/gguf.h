/* GGUF files: header, metadata, tensor directory; versions 2 and 3, one file or a split set. Read with pread, checked completely before
 * anything is believed; a hostile file costs at most 4 x its size + 16 MiB and gives an error that names the key or tensor, what was
 * found and what was expected. Immutable after opening; any thread.
 */
#ifndef KIPU_ENGINE_GGUF_H
#define KIPU_ENGINE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "text/vocab.h"   /* kipu_text, kipu_vocab_source */

typedef struct kipu_gguf kipu_gguf;

/* Metadata keys of a file, tensors of a file or set: the largest models have a few hundred of the one and a few thousand of the other. */
enum { KIPU_GGUF_MOST_VALUES = 65536, KIPU_GGUF_MOST_TENSORS = 65536 };

enum { KIPU_KV_U8, KIPU_KV_I8, KIPU_KV_U16, KIPU_KV_I16, KIPU_KV_U32, KIPU_KV_I32, KIPU_KV_F32, KIPU_KV_BOOL, KIPU_KV_STRING, KIPU_KV_ARRAY,
       KIPU_KV_U64, KIPU_KV_I64, KIPU_KV_F64 };

typedef struct kipu_gguf_value {
    kipu_text key;
    int type;                 /* KIPU_KV_* */
    int item;                 /* arrays: type of the items, else -1. Arrays of arrays are refused (KIPU_E_UNSUPPORTED). */
    int64_t count;            /* arrays: number of items, else 1 */
    const void *data;         /* scalars and plain arrays: little-endian values (aligned to 8); strings: kipu_text[count] */
    union { uint64_t number; kipu_text text; } scalar;   /* what data of a scalar points at */
} kipu_gguf_value;

typedef struct kipu_gguf_tensor {
    char name[64];            /* NUL-terminated, at most 63 bytes */
    int type;                 /* a type of quants/formats.h */
    int n_dims;               /* 1..4 */
    int64_t ne[4];            /* fastest first, 1 beyond n_dims, all >= 1 */
    int file;                 /* which part of a split set */
    uint64_t offset;          /* of the data in that part */
    uint64_t bytes;
} kipu_gguf_tensor;

/* paths: one path, or all parts in order (n_paths > 1). With one path whose split.count > 1 the other parts are found next to it by name.
 * KIPU_E_UNSUPPORTED: arrays of arrays, more keys or tensors than the limits above. */
kipu_status kipu_gguf_open(kipu_gguf **out, const char *const *paths, int n_paths, kipu_error *err);
void kipu_gguf_close(kipu_gguf *g);

int64_t kipu_gguf_n_values(const kipu_gguf *g);
const kipu_gguf_value *kipu_gguf_value_at(const kipu_gguf *g, int64_t i);           /* file order; of the first part */
const kipu_gguf_value *kipu_gguf_find(const kipu_gguf *g, const char *key);         /* NULL: absent */
int64_t kipu_gguf_n_tensors(const kipu_gguf *g);
const kipu_gguf_tensor *kipu_gguf_tensor_at(const kipu_gguf *g, int64_t i);
const kipu_gguf_tensor *kipu_gguf_find_tensor(const kipu_gguf *g, const char *name);
uint64_t kipu_gguf_file_bytes(const kipu_gguf *g);                                  /* all parts */
uint32_t kipu_gguf_version(const kipu_gguf *g);

/* Puts a value in place of the file's (or adds one): kipu_gguf_find and everything above it then see that. Only before the file is shared.
 * type and data: KIPU_KV_I64 int64_t, KIPU_KV_F64 double, KIPU_KV_BOOL bool, KIPU_KV_STRING kipu_text; all is copied.
 * KIPU_E_ARG: the file has a value of another kind (integer, float, bool, string, array) under this key; nothing changed. */
kipu_status kipu_gguf_override(kipu_gguf *g, const char *key, int type, const void *data, kipu_error *err);

/* Bytes [offset, offset + size) of a tensor's data into dst. KIPU_E_IO if the file has become shorter. */
kipu_status kipu_gguf_read(const kipu_gguf *g, const kipu_gguf_tensor *t, uint64_t offset, uint64_t size, void *dst, kipu_error *err);

/* Any scalar or bool as the wanted kind; false if absent or of another kind. Integers of every width count as integer. */
bool kipu_gguf_integer(const kipu_gguf *g, const char *key, int64_t *out);
bool kipu_gguf_float(const kipu_gguf *g, const char *key, double *out);
bool kipu_gguf_boolean(const kipu_gguf *g, const char *key, bool *out);
bool kipu_gguf_string(const kipu_gguf *g, const char *key, kipu_text *out);
/* A source for kipu_vocab_new that reads this file (integer arrays of another width than i32 are converted on first use and kept). */
kipu_vocab_source kipu_gguf_vocab_source(kipu_gguf *g);

#endif
