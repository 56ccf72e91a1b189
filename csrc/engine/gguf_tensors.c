/* The tensor directory: names, shapes, types, places; every promise checked against the file. */
#include <stdlib.h>
#include <string.h>
#include "base/memory_alloc.h"
#include "engine/gguf_parts.h"
#include "quants/formats.h"

static kipu_status read_name(kipu_part *p, kipu_gguf_tensor *t, kipu_error *err) {
    kipu_text name;
    KIPU_TRY(kipu_head_text(p, &name, "a tensor name", err));
    KIPU_REQUIRE(name.size >= 1 && name.size < sizeof t->name, err, KIPU_E_FORMAT, "a tensor name has %zu bytes, expected 1..63: '%.*s'",
                 name.size, name.size < 64 ? (int)name.size : 64, name.data);
    KIPU_REQUIRE(!memchr(name.data, 0, name.size), err, KIPU_E_FORMAT, "tensor name '%.63s' holds a NUL byte", name.data);
    memcpy(t->name, name.data, name.size);
    return KIPU_OK;
}

static kipu_status read_shape(kipu_part *p, kipu_gguf_tensor *t, uint64_t *elements, kipu_error *err) {
    uint32_t n_dims;
    KIPU_TRY(kipu_head_u32(p, &n_dims, "a tensor's number of dimensions", err));
    KIPU_REQUIRE(n_dims >= 1 && n_dims <= 4, err, KIPU_E_FORMAT, "%u dimensions, expected 1..4", n_dims);
    t->n_dims = (int)n_dims;
    *elements = 1;
    for (int i = 0; i < 4; i++) {
        uint64_t ne = 1;
        if (i < t->n_dims) KIPU_TRY(kipu_head_u64(p, &ne, "a tensor's dimension", err));
        KIPU_REQUIRE(ne >= 1 && ne <= INT64_MAX, err, KIPU_E_FORMAT, "dimension %d is %llu, expected 1 to 2^63 - 1", i,
                     (unsigned long long)ne);
        KIPU_REQUIRE(*elements <= INT64_MAX / ne, err, KIPU_E_FORMAT, "more than 2^63 - 1 elements");
        *elements *= ne;
        t->ne[i] = (int64_t)ne;
    }
    return KIPU_OK;
}

/* Types that were in files once, or nearly. */
static const char *removed_name(uint32_t type) {
    static const char *const names[] = {[4] = "Q4_2", [5] = "Q4_3", [31] = "Q4_0_4_4", [32] = "Q4_0_4_8", [33] = "Q4_0_8_8",
                                        [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8"};
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

static kipu_status read_type(kipu_part *p, kipu_gguf_tensor *t, uint64_t elements, kipu_error *err) {
    uint32_t type;
    KIPU_TRY(kipu_head_u32(p, &type, "a tensor's type", err));
    const kipu_format *f = type <= INT32_MAX ? kipu_format_of((int)type) : NULL;
    KIPU_REQUIRE(f || !removed_name(type), err, KIPU_E_FORMAT, "type %u is %s, which GGUF gave up", type, removed_name(type));
    KIPU_REQUIRE(f, err, KIPU_E_FORMAT, "unknown type %u", type);
    KIPU_REQUIRE(t->ne[0] % f->block == 0, err, KIPU_E_FORMAT, "rows of %lld values, %s needs a multiple of %d", (long long)t->ne[0],
                 f->name, f->block);
    KIPU_REQUIRE(elements / f->block <= UINT64_MAX / f->bytes, err, KIPU_E_FORMAT, "more than 2^64 bytes");
    t->type = (int)type;
    t->bytes = elements / f->block * f->bytes;
    return KIPU_OK;
}

static kipu_status read_promises(kipu_part *p, kipu_gguf_tensor *t, kipu_error *err) {
    uint64_t elements = 0;
    KIPU_TRY(read_shape(p, t, &elements, err));
    KIPU_TRY(read_type(p, t, elements, err));
    KIPU_TRY(kipu_head_u64(p, &t->offset, "a tensor's offset", err));
    KIPU_REQUIRE(t->offset % p->alignment == 0, err, KIPU_E_FORMAT, "offset %llu, expected a multiple of %llu",
                 (unsigned long long)t->offset, (unsigned long long)p->alignment);
    return KIPU_OK;
}

static kipu_status read_tensor(kipu_part *p, kipu_gguf_tensor *t, kipu_error *err) {
    KIPU_TRY(read_name(p, t, err));
    return kipu_head_name_failure(read_promises(p, t, err), "tensor", (kipu_text){t->name, strlen(t->name)}, err);
}

static kipu_status check_place(const kipu_part *p, kipu_gguf_tensor *t, kipu_error *err) {
    uint64_t room = p->file.size > p->data_start ? p->file.size - p->data_start : 0;
    KIPU_REQUIRE(t->offset <= room && t->bytes <= room - t->offset, err, KIPU_E_FORMAT,
                 "tensor '%s': %llu bytes at offset %llu of the data, the file has %llu bytes of data", t->name,
                 (unsigned long long)t->bytes, (unsigned long long)t->offset, (unsigned long long)room);
    t->offset += p->data_start;
    return KIPU_OK;
}

static int by_offset(const void *a, const void *b) {
    const kipu_gguf_tensor *x = *(const kipu_gguf_tensor *const *)a, *y = *(const kipu_gguf_tensor *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static kipu_status check_overlap(kipu_part *p, kipu_error *err) {
    kipu_gguf_tensor **order = kipu_alloc_array(p->n_tensors + 1, sizeof *order);
    KIPU_REQUIRE(order, err, KIPU_E_MEMORY, "no memory for %lld tensors", (long long)p->n_tensors);
    for (int64_t i = 0; i < p->n_tensors; i++) order[i] = &p->tensors[i];
    qsort(order, p->n_tensors, sizeof *order, by_offset);
    kipu_status status = KIPU_OK;
    for (int64_t i = 1; i < p->n_tensors && status == KIPU_OK; i++)
        if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
            status = kipu_fail(err, KIPU_E_FORMAT, "tensors '%s' and '%s' overlap", order[i - 1]->name, order[i]->name);
    kipu_free(order);
    return status;
}

kipu_status kipu_part_read_tensors(kipu_part *p, kipu_error *err) {
    p->tensors = kipu_alloc_array(p->n_tensors + 1, sizeof *p->tensors);
    KIPU_REQUIRE(p->tensors, err, KIPU_E_MEMORY, "no memory for %lld tensors", (long long)p->n_tensors);
    for (int64_t i = 0; i < p->n_tensors; i++) KIPU_TRY(read_tensor(p, &p->tensors[i], err));
    p->data_start = (p->head.at + p->alignment - 1) / p->alignment * p->alignment;
    for (int64_t i = 0; i < p->n_tensors; i++) KIPU_TRY(check_place(p, &p->tensors[i], err));
    return check_overlap(p, err);
}
