/* One file: the head's bytes, the cursor, the header. */
#include <string.h>
#include "base/memory_alloc.h"
#include "engine/gguf_parts.h"

enum { READ_STEP = 1 << 20 };
static const uint64_t head_limit = UINT64_C(1) << 30;      /* no honest metadata comes near */

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t kipu_head_left(const kipu_part *p) { return p->file.size - p->head.at; }

/* Reads on until `end` bytes are there. */
static kipu_status fill(kipu_part *p, uint64_t end, kipu_error *err) {
    kipu_head *h = &p->head;
    if (end <= h->filled) return KIPU_OK;
    KIPU_REQUIRE(end <= h->reserved, err, KIPU_E_UNSUPPORTED, "metadata of more than %llu bytes", (unsigned long long)h->reserved);
    uint64_t upto = min_u64(h->reserved, (end + READ_STEP - 1) / READ_STEP * READ_STEP);
    KIPU_TRY(kipu_file_read(&p->file, h->filled, upto - h->filled, h->bytes + h->filled, err));
    h->filled = upto;
    return KIPU_OK;
}

kipu_status kipu_head_take(kipu_part *p, uint64_t size, const char **bytes, const char *what, kipu_error *err) {
    KIPU_REQUIRE(size <= kipu_head_left(p), err, KIPU_E_FORMAT, "%s at byte %llu needs %llu bytes, the file ends at byte %llu", what,
                 (unsigned long long)p->head.at, (unsigned long long)size, (unsigned long long)p->file.size);
    KIPU_TRY(fill(p, p->head.at + size, err));
    *bytes = p->head.bytes + p->head.at;
    p->head.at += size;
    return KIPU_OK;
}

kipu_status kipu_head_u32(kipu_part *p, uint32_t *out, const char *what, kipu_error *err) {
    const char *bytes = NULL;
    KIPU_TRY(kipu_head_take(p, 4, &bytes, what, err));
    memcpy(out, bytes, 4);
    return KIPU_OK;
}

kipu_status kipu_head_u64(kipu_part *p, uint64_t *out, const char *what, kipu_error *err) {
    const char *bytes = NULL;
    KIPU_TRY(kipu_head_take(p, 8, &bytes, what, err));
    memcpy(out, bytes, 8);
    return KIPU_OK;
}

kipu_status kipu_head_text(kipu_part *p, kipu_text *out, const char *what, kipu_error *err) {
    uint64_t size;
    KIPU_TRY(kipu_head_u64(p, &size, what, err));
    out->size = size;
    return kipu_head_take(p, size, &out->data, what, err);
}

/* Smallest possible entries, so that a count is believed only if the file can hold it. */
enum { SMALLEST_VALUE = 8 + 1 + 4 + 1, SMALLEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8 };

static kipu_status read_header(kipu_part *p, kipu_error *err) {
    const char *magic;
    uint64_t n_tensors, n_values;
    KIPU_TRY(kipu_head_take(p, 4, &magic, "the magic", err));
    KIPU_REQUIRE(!memcmp(magic, "GGUF", 4), err, KIPU_E_FORMAT, "magic is %02x %02x %02x %02x, expected 'GGUF': not a GGUF file",
                 magic[0] & 255, magic[1] & 255, magic[2] & 255, magic[3] & 255);
    KIPU_TRY(kipu_head_u32(p, &p->version, "the version", err));
    KIPU_REQUIRE(p->version & 0xffff, err, KIPU_E_FORMAT, "version is 0x%08x: a big-endian file, expected little-endian", p->version);
    KIPU_REQUIRE(p->version == 2 || p->version == 3, err, KIPU_E_FORMAT, "GGUF version is %u, expected 2 or 3", p->version);
    KIPU_TRY(kipu_head_u64(p, &n_tensors, "the number of tensors", err));
    KIPU_TRY(kipu_head_u64(p, &n_values, "the number of metadata values", err));
    KIPU_REQUIRE(n_values <= kipu_head_left(p) / SMALLEST_VALUE, err, KIPU_E_FORMAT, "the file says it has %llu metadata values, %llu bytes are left",
                 (unsigned long long)n_values, (unsigned long long)kipu_head_left(p));
    KIPU_REQUIRE(n_tensors <= kipu_head_left(p) / SMALLEST_TENSOR && n_tensors <= INT32_MAX && n_values <= INT32_MAX, err, KIPU_E_FORMAT,
                 "the file says it has %llu tensors, %llu bytes are left", (unsigned long long)n_tensors, (unsigned long long)kipu_head_left(p));
    p->n_values = (int64_t)n_values;
    p->n_tensors = (int64_t)n_tensors;
    return KIPU_OK;
}

static kipu_status read_alignment(kipu_part *p, kipu_error *err) {
    const char *key = "general.alignment";
    const kipu_gguf_value *v = kipu_part_find(p, key, strlen(key));
    int64_t alignment = 32;
    if (v) {
        KIPU_REQUIRE(v->type == KIPU_KV_U32, err, KIPU_E_FORMAT, "metadata key '%s' has type %d, expected u32", key, v->type);
        kipu_value_integer(v, &alignment);
    }
    KIPU_REQUIRE(alignment >= 8 && alignment <= 1 << 20 && !(alignment & (alignment - 1)), err, KIPU_E_FORMAT,
                 "metadata key '%s' is %lld, expected a power of two from 8 to %d", key, (long long)alignment, 1 << 20);
    p->alignment = (uint64_t)alignment;
    return KIPU_OK;
}

static kipu_status read_all(kipu_part *p, kipu_error *err) {
    p->head.reserved = min_u64(p->file.size, head_limit);
    KIPU_REQUIRE(p->head.reserved, err, KIPU_E_FORMAT, "the file is empty: not a GGUF file");
    p->head.bytes = kipu_huge_alloc(p->head.reserved);
    KIPU_REQUIRE(p->head.bytes, err, KIPU_E_MEMORY, "no memory for metadata");
    KIPU_TRY(read_header(p, err));
    KIPU_TRY(kipu_part_read_values(p, err));
    KIPU_TRY(read_alignment(p, err));
    return kipu_part_read_tensors(p, err);
}

kipu_status kipu_part_open(kipu_part *p, const char *path, kipu_error *err) {
    *p = (kipu_part){.file.fd = -1};
    KIPU_TRY(kipu_file_open(&p->file, path, err));
    kipu_status status = read_all(p, err);
    if (status != KIPU_OK) kipu_part_close(p);
    return status;
}

void kipu_part_close(kipu_part *p) {
    for (int64_t i = 0; p->values && i < p->n_values; i++)
        kipu_free((void *)p->values[i].data);
    kipu_free(p->values);
    kipu_free(p->tensors);
    kipu_free(p->by_key);
    kipu_huge_free(p->head.bytes, p->head.reserved);
    kipu_file_close(&p->file);
    *p = (kipu_part){.file.fd = -1};
}
