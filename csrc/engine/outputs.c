#include "engine/outputs.h"

#include <stdatomic.h>
#include <stddef.h>
#include "base/memory_alloc.h"
#include "engine/context.h"

struct kipu_output {
    atomic_int references;
    int64_t floats;             /* capacity */
    _Alignas(64) float data[];
};

void kipu_output_release(void *buffer) {
    kipu_output *b = buffer;
    if (b && atomic_fetch_sub(&b->references, 1) == 1) kipu_free(b);
}

static kipu_output *new_buffer(int64_t floats) {
    if (floats > (int64_t)(PTRDIFF_MAX / sizeof(float) - 16)) return NULL;
    kipu_output *b = kipu_alloc(sizeof *b + (size_t)floats * sizeof(float));
    if (!b) return NULL;
    atomic_init(&b->references, 1);
    b->floats = floats;
    return b;
}

static int is_free(const kipu_output *b, int64_t floats) { return b && atomic_load(&b->references) == 1 && b->floats >= floats; }

kipu_status kipu_outputs_reserve(kipu_outputs *o, int64_t n_rows, int64_t width, kipu_error *err) {
    int64_t floats = n_rows * width;
    if (is_free(o->buffer[o->current], floats)) return KIPU_OK;
    int other = !o->current;
    if (!is_free(o->buffer[other], floats)) {
        kipu_output *b = new_buffer(floats);
        KIPU_REQUIRE(b, err, KIPU_E_MEMORY, "no memory for %lld rows of %lld outputs", (long long)n_rows, (long long)width);
        kipu_output_release(o->buffer[other]);
        o->buffer[other] = b;
    }
    o->current = other;
    return KIPU_OK;
}

float *kipu_outputs_data(const kipu_outputs *o) { return o->buffer[o->current] ? o->buffer[o->current]->data : NULL; }

kipu_output *kipu_outputs_retain(kipu_outputs *o) {
    kipu_output *b = o->buffer[o->current];
    if (b) atomic_fetch_add(&b->references, 1);
    return b;
}

void kipu_outputs_free(kipu_outputs *o) {
    for (int i = 0; i < 2; i++) kipu_output_release(o->buffer[i]), o->buffer[i] = NULL;
}
