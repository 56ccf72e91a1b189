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

kipu_status kipu_head_name_failure(kipu_status status, const char *what, kipu_text name, kipu_error *err) {
    if (status == KIPU_OK || !err) return status;
    kipu_error inner = *err;
    return kipu_fail(err, status, "%s '%.*s': %s", what, name.size < 64 ? (int)name.size : 64, name.data, inner.message);
}

/* Smallest possible entries, so that a count is believed only if the file can hold it. */
enum { SMALLEST_VALUE = 8 + 1 + 4 + 1, SMALLEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8 };

static kipu_status read_count(kipu_part *p, int64_t *out, const char *what, uint64_t smallest, uint64_t most, kipu_error *err) {
    uint64_t count;
    KIPU_TRY(kipu_head_u64(p, &count, "the header", err));
    KIPU_REQUIRE(count <= kipu_head_left(p) / smallest, err, KIPU_E_FORMAT, "the file says it has %llu %s, %llu bytes are left",
                 (unsigned long long)count, what, (unsigned long long)kipu_head_left(p));
    KIPU_REQUIRE(count <= most, err, KIPU_E_UNSUPPORTED, "the file has %llu %s, expected at most %llu", (unsigned long long)count, what,
                 (unsigned long long)most);
    *out = (int64_t)count;
    return KIPU_OK;
}

static kipu_status read_header(kipu_part *p, kipu_error *err) {
    const char *magic;
    KIPU_TRY(kipu_head_take(p, 4, &magic, "the magic", err));
    KIPU_REQUIRE(!memcmp(magic, "GGUF", 4), err, KIPU_E_FORMAT, "magic is %02x %02x %02x %02x, expected 'GGUF': not a GGUF file",
                 magic[0] & 255, magic[1] & 255, magic[2] & 255, magic[3] & 255);
    KIPU_TRY(kipu_head_u32(p, &p->version, "the version", err));
    KIPU_REQUIRE(p->version == 0 || p->version & 0xffff, err, KIPU_E_FORMAT,
                 "version is 0x%08x: a big-endian file, expected little-endian", p->version);
    KIPU_REQUIRE(p->version == 2 || p->version == 3, err, KIPU_E_FORMAT, "GGUF version is %u, expected 2 or 3", p->version);
    KIPU_TRY(read_count(p, &p->n_tensors, "tensors", SMALLEST_TENSOR, KIPU_GGUF_MOST_TENSORS, err));
    return read_count(p, &p->n_values, "metadata values", SMALLEST_VALUE, KIPU_GGUF_MOST_VALUES, err);
}

static kipu_status read_alignment(kipu_part *p, kipu_error *err) {
    const char *key = "general.alignment";
    const kipu_gguf_value *v = kipu_part_find(p, key, strlen(key));
    int64_t alignment = 32;
    if (v) {
        KIPU_REQUIRE(v->type == KIPU_KV_U32, err, KIPU_E_FORMAT, "metadata key '%s' has type %s, expected u32", key,
                     kipu_value_type_name(v->type));
        kipu_value_integer(v, &alignment);
    }
    KIPU_REQUIRE(alignment >= 8 && alignment <= 1 << 20 && !(alignment & (alignment - 1)), err, KIPU_E_FORMAT,
                 "metadata key '%s' is %lld, expected a power of two from 8 to %d", key, (long long)alignment, 1 << 20);
    p->alignment = (uint64_t)alignment;
    return KIPU_OK;
}

/* Gives the address space behind the head back: of most files it is nearly all. */
static void trim(kipu_head *h) {
    uint64_t kept = (h->filled + READ_STEP - 1) / READ_STEP * READ_STEP;
    if (kept >= h->reserved) return;
    kipu_huge_free(h->bytes + kept, h->reserved - kept);
    h->reserved = kept;
}

static kipu_status read_all(kipu_part *p, kipu_error *err) {
    p->head.reserved = min_u64(p->file.size, head_limit);
    KIPU_REQUIRE(p->head.reserved, err, KIPU_E_FORMAT, "the file is empty: not a GGUF file");
    p->head.bytes = kipu_huge_alloc(p->head.reserved);
    KIPU_REQUIRE(p->head.bytes, err, KIPU_E_MEMORY, "no memory for metadata");
    KIPU_TRY(read_header(p, err));
    KIPU_TRY(kipu_part_read_values(p, err));
    KIPU_TRY(read_alignment(p, err));
    KIPU_TRY(kipu_part_read_tensors(p, err));
    trim(&p->head);
    return KIPU_OK;
}

kipu_status kipu_part_open(kipu_part *p, const char *path, kipu_error *err) {
    *p = (kipu_part){.file.fd = -1};
    KIPU_TRY(kipu_file_open(&p->file, path, err));
    kipu_status status = read_all(p, err);
    if (status != KIPU_OK) kipu_part_close(p);
    return status;
}

void kipu_part_forget_values(kipu_part *p) {
    for (int64_t i = 0; p->values && i < p->n_values; i++)
        if (p->values[i].item == KIPU_KV_STRING) kipu_free((void *)p->values[i].data);
    kipu_free(p->values);
    kipu_free(p->by_key);
    kipu_huge_free(p->head.bytes, p->head.reserved);
    p->values = NULL;
    p->by_key = NULL;
    p->n_values = 0;
    p->head = (kipu_head){0};
}

void kipu_part_close(kipu_part *p) {
    kipu_part_forget_values(p);
    kipu_free(p->tensors);
    kipu_file_close(&p->file);
    *p = (kipu_part){.file.fd = -1};
}
