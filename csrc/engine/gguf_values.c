/* Metadata: key, type, value; scalars, strings, arrays of them. */
#include <stdlib.h>
#include <string.h>
#include "base/memory_alloc.h"
#include "engine/gguf_parts.h"

enum { LONGEST_KEY = 65535, SHOWN = 64 };

/* Bytes of one item, 0 for strings and arrays. */
static int item_bytes(int type) {
    static const int bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type >= 0 && type < (int)(sizeof bytes / sizeof *bytes) ? bytes[type] : -1;
}

const char *kipu_value_type_name(int type) {
    static const char *const names[] = {"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
    return item_bytes(type) >= 0 ? names[type] : "unknown";
}

static int shown(const kipu_text *key) { return key->size < SHOWN ? (int)key->size : SHOWN; }

static kipu_status read_string(kipu_part *p, kipu_gguf_value *v, kipu_error *err) {
    v->data = &v->scalar.text;
    return kipu_head_text(p, &v->scalar.text, "a string", err);
}

static kipu_status read_strings(kipu_part *p, kipu_gguf_value *v, kipu_error *err) {
    KIPU_REQUIRE((uint64_t)v->count <= kipu_head_left(p) / 8, err, KIPU_E_FORMAT, "%lld strings, but only %llu bytes are left",
                 (long long)v->count, (unsigned long long)kipu_head_left(p));
    kipu_text *texts = kipu_alloc_array(v->count, sizeof *texts);
    KIPU_REQUIRE(texts, err, KIPU_E_MEMORY, "no memory for %lld strings", (long long)v->count);
    v->data = texts;
    for (int64_t i = 0; i < v->count; i++) KIPU_TRY(kipu_head_text(p, &texts[i], "a string", err));
    return KIPU_OK;
}

static kipu_status check_bools(const kipu_gguf_value *v, const char *bytes, kipu_error *err) {
    for (int64_t i = 0; i < v->count; i++)
        KIPU_REQUIRE((unsigned char)bytes[i] <= 1, err, KIPU_E_FORMAT, "bool %d at index %lld, expected 0 or 1", (unsigned char)bytes[i],
                     (long long)i);
    return KIPU_OK;
}

/* Items lie unaligned in the file. An array moves back, over a part of its count, which has been read:
 *     | key | u32 type | u32 item | u64 count | items ...       a multiple of 8 is at most 7 bytes before them
 */
static const void *align(kipu_gguf_value *v, const char *bytes, size_t size) {
    if (v->type != KIPU_KV_ARRAY) return memcpy(&v->scalar.number, bytes, size);
    return memmove((char *)bytes - (uintptr_t)bytes % 8, bytes, size);
}

static kipu_status read_items(kipu_part *p, kipu_gguf_value *v, int type, kipu_error *err) {
    int size = item_bytes(type);
    KIPU_REQUIRE((uint64_t)v->count <= kipu_head_left(p) / size, err, KIPU_E_FORMAT, "%lld items of type %s, but only %llu bytes are left",
                 (long long)v->count, kipu_value_type_name(type), (unsigned long long)kipu_head_left(p));
    const char *bytes = NULL;
    KIPU_TRY(kipu_head_take(p, (uint64_t)v->count * size, &bytes, "a metadata value", err));
    if (type == KIPU_KV_BOOL) KIPU_TRY(check_bools(v, bytes, err));
    v->data = align(v, bytes, (size_t)v->count * size);
    return KIPU_OK;
}

static kipu_status read_array(kipu_part *p, kipu_gguf_value *v, kipu_error *err) {
    uint32_t item;
    uint64_t count;
    KIPU_TRY(kipu_head_u32(p, &item, "an array's type", err));
    KIPU_TRY(kipu_head_u64(p, &count, "an array's length", err));
    KIPU_REQUIRE(item != KIPU_KV_ARRAY, err, KIPU_E_UNSUPPORTED, "an array of arrays, expected an array of numbers, bools or strings");
    KIPU_REQUIRE(item_bytes((int)item) >= 0, err, KIPU_E_FORMAT, "an array of the unknown type %u, expected 0..12", item);
    KIPU_REQUIRE(count <= INT64_MAX, err, KIPU_E_FORMAT, "%llu items, but only %llu bytes are left", (unsigned long long)count,
                 (unsigned long long)kipu_head_left(p));
    v->item = (int)item;
    v->count = (int64_t)count;
    return item == KIPU_KV_STRING ? read_strings(p, v, err) : read_items(p, v, (int)item, err);
}

static kipu_status read_key(kipu_part *p, kipu_gguf_value *v, kipu_error *err) {
    KIPU_TRY(kipu_head_text(p, &v->key, "a metadata key", err));
    KIPU_REQUIRE(v->key.size >= 1 && v->key.size <= LONGEST_KEY, err, KIPU_E_FORMAT, "a metadata key has %zu bytes, expected 1..%d",
                 v->key.size, LONGEST_KEY);
    KIPU_REQUIRE(!memchr(v->key.data, 0, v->key.size), err, KIPU_E_FORMAT, "metadata key '%.*s' holds a NUL byte", shown(&v->key),
                 v->key.data);
    return KIPU_OK;
}

static kipu_status read_value(kipu_part *p, kipu_gguf_value *v, kipu_error *err) {
    uint32_t type;
    KIPU_TRY(kipu_head_u32(p, &type, "a metadata type", err));
    KIPU_REQUIRE(item_bytes((int)type) >= 0, err, KIPU_E_FORMAT, "unknown type %u, expected 0..12", type);
    v->type = (int)type;
    v->item = -1;
    v->count = 1;
    if (v->type == KIPU_KV_ARRAY) return read_array(p, v, err);
    return v->type == KIPU_KV_STRING ? read_string(p, v, err) : read_items(p, v, v->type, err);
}

/* ------------------------------------------------------------------------------------------------ finding */

static int compare_keys(const char *a, size_t na, const char *b, size_t nb) {
    int order = memcmp(a, b, na < nb ? na : nb);
    return order ? order : na < nb ? -1 : na > nb;
}

typedef struct key_order { kipu_text key; int32_t index; } key_order;

static int by_key(const void *a, const void *b) {
    const key_order *x = a, *y = b;
    return compare_keys(x->key.data, x->key.size, y->key.data, y->key.size);
}

static kipu_status sort_keys(kipu_part *p, kipu_error *err) {
    key_order *order = kipu_alloc_array(p->n_values + 1, sizeof *order);
    p->by_key = kipu_alloc_array(p->n_values + 1, sizeof *p->by_key);
    if (!order || !p->by_key) {
        kipu_free(order);
        return kipu_fail(err, KIPU_E_MEMORY, "no memory for %lld metadata keys", (long long)p->n_values);
    }
    for (int64_t i = 0; i < p->n_values; i++) order[i] = (key_order){p->values[i].key, (int32_t)i};
    qsort(order, p->n_values, sizeof *order, by_key);
    kipu_status status = KIPU_OK;
    for (int64_t i = 0; i < p->n_values; i++) {
        p->by_key[i] = order[i].index;
        if (i && !by_key(&order[i - 1], &order[i]))
            status = kipu_fail(err, KIPU_E_FORMAT, "metadata key '%.*s' appears twice", shown(&order[i].key), order[i].key.data);
    }
    kipu_free(order);
    return status;
}

kipu_status kipu_part_read_values(kipu_part *p, kipu_error *err) {
    p->values = kipu_alloc_array(p->n_values + 1, sizeof *p->values);
    KIPU_REQUIRE(p->values, err, KIPU_E_MEMORY, "no memory for %lld metadata values", (long long)p->n_values);
    for (int64_t i = 0; i < p->n_values; i++) {
        kipu_gguf_value *v = &p->values[i];
        KIPU_TRY(read_key(p, v, err));
        KIPU_TRY(kipu_head_name_failure(read_value(p, v, err), "metadata key", v->key, err));
    }
    return sort_keys(p, err);
}

const kipu_gguf_value *kipu_part_find(const kipu_part *p, const char *key, size_t size) {
    int64_t low = 0, high = p->n_values;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        const kipu_gguf_value *v = &p->values[p->by_key[mid]];
        int order = compare_keys(v->key.data, v->key.size, key, size);
        if (order == 0) return v;
        if (order < 0) low = mid + 1;
        else high = mid;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ scalars */

bool kipu_value_integer(const kipu_gguf_value *v, int64_t *out) {
    uint64_t u = 0;
    switch (v->type) {
    case KIPU_KV_U8: *out = *(const uint8_t *)v->data; return true;
    case KIPU_KV_I8: *out = *(const int8_t *)v->data; return true;
    case KIPU_KV_U16: *out = *(const uint16_t *)v->data; return true;
    case KIPU_KV_I16: *out = *(const int16_t *)v->data; return true;
    case KIPU_KV_U32: *out = *(const uint32_t *)v->data; return true;
    case KIPU_KV_I32: *out = *(const int32_t *)v->data; return true;
    case KIPU_KV_I64: *out = *(const int64_t *)v->data; return true;
    case KIPU_KV_U64:
        u = *(const uint64_t *)v->data;
        if (u > INT64_MAX) return false;
        *out = (int64_t)u;
        return true;
    default: return false;
    }
}

kipu_status kipu_part_integer(const kipu_part *p, const char *key, int64_t *out, kipu_error *err) {
    const kipu_gguf_value *v = kipu_part_find(p, key, strlen(key));
    KIPU_REQUIRE(!v || kipu_value_integer(v, out), err, KIPU_E_FORMAT, "metadata key '%s' has type %s, expected an integer", key,
                 kipu_value_type_name(v->type));
    return KIPU_OK;
}

bool kipu_gguf_integer(const kipu_gguf *g, const char *key, int64_t *out) {
    const kipu_gguf_value *v = kipu_gguf_find(g, key);
    return v && kipu_value_integer(v, out);
}

bool kipu_gguf_float(const kipu_gguf *g, const char *key, double *out) {
    const kipu_gguf_value *v = kipu_gguf_find(g, key);
    if (!v || (v->type != KIPU_KV_F32 && v->type != KIPU_KV_F64)) return false;
    *out = v->type == KIPU_KV_F32 ? *(const float *)v->data : *(const double *)v->data;
    return true;
}

bool kipu_gguf_boolean(const kipu_gguf *g, const char *key, bool *out) {
    const kipu_gguf_value *v = kipu_gguf_find(g, key);
    if (!v || v->type != KIPU_KV_BOOL) return false;
    *out = *(const uint8_t *)v->data != 0;
    return true;
}

bool kipu_gguf_string(const kipu_gguf *g, const char *key, kipu_text *out) {
    const kipu_gguf_value *v = kipu_gguf_find(g, key);
    if (!v || v->type != KIPU_KV_STRING) return false;
    *out = *(const kipu_text *)v->data;
    return true;
}
