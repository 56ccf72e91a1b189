# The reader of GGUF files.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "text/vocab.h" nogil:
    ctypedef struct kipu_text:
        const char *data
        size_t size

cdef extern from "engine/gguf.h" nogil:
    enum:
        KIPU_KV_U8, KIPU_KV_I8, KIPU_KV_U16, KIPU_KV_I16, KIPU_KV_U32, KIPU_KV_I32, KIPU_KV_F32, KIPU_KV_BOOL, KIPU_KV_STRING,
        KIPU_KV_ARRAY, KIPU_KV_U64, KIPU_KV_I64, KIPU_KV_F64
    ctypedef struct kipu_gguf:
        pass
    ctypedef struct kipu_gguf_value:
        kipu_text key
        int type, item
        int64_t count
        const void *data
    ctypedef struct kipu_gguf_tensor:
        char name[64]
        int type, n_dims
        int64_t ne[4]
        int file
        uint64_t offset, bytes
    kipu_status kipu_gguf_open(kipu_gguf **out, const char *const *paths, int n_paths, kipu_error *err)
    void kipu_gguf_close(kipu_gguf *g)
    kipu_status kipu_gguf_override(kipu_gguf *g, const char *key, int type, const void *data, kipu_error *err)
    int64_t kipu_gguf_n_values(const kipu_gguf *g)
    const kipu_gguf_value *kipu_gguf_value_at(const kipu_gguf *g, int64_t i)
    const kipu_gguf_value *kipu_gguf_find(const kipu_gguf *g, const char *key)
    int64_t kipu_gguf_n_tensors(const kipu_gguf *g)
    const kipu_gguf_tensor *kipu_gguf_tensor_at(const kipu_gguf *g, int64_t i)
    uint64_t kipu_gguf_file_bytes(const kipu_gguf *g)
    uint32_t kipu_gguf_version(const kipu_gguf *g)
    kipu_status kipu_gguf_read(const kipu_gguf *g, const kipu_gguf_tensor *t, uint64_t offset, uint64_t size, void *dst, kipu_error *err)
