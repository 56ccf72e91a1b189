/* The inside of a memory: only for the files of csrc/memory. */
#ifndef KIPU_MEMORY_MEMORY_STRUCT_H
#define KIPU_MEMORY_MEMORY_STRUCT_H

#include "memory/kv_cache.h"

struct kipu_memory {
    kipu_kv_cache cache[2];   /* base (or the only one), window */
    bool pair;                /* cache[1] is in use */
    int32_t n_swa;            /* 0 without a pair */
    int32_t n_layer;
    kipu_kv_layer *layers;    /* (n_layer) */
    bool *in_window;          /* (n_layer) the layer's rows are in cache[1] */
};

/* The window cache, or the only one. */
static inline const kipu_kv_cache *kipu_memory_cache(const kipu_memory *m, bool window) { return &m->cache[window && m->pair]; }
static inline kipu_kv_cache *kipu_memory_cache_mut(kipu_memory *m, bool window) { return &m->cache[window && m->pair]; }

#endif
