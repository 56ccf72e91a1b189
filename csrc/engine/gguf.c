/* A file or a split set as one: all values of the first part, all tensors of all parts. */
#include "engine/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory_alloc.h"
#include "engine/gguf_parts.h"

enum { MAX_PARTS = 9999 };

/* A value that stands in for one of the file. `data` of a string is `text`, whose bytes follow the key. */
typedef struct kipu_override {
    struct kipu_override *next;
    kipu_gguf_value value;
    union { int64_t integer; double real; bool flag; kipu_text text; } data;
    char key[];
} kipu_override;

struct kipu_gguf {
    kipu_part *parts;
    kipu_override *overrides;
    int n_parts;
    kipu_gguf_tensor *tensors;     /* of all parts, file order */
    int64_t n_tensors;
    int32_t *by_name;              /* sorted by name */
    int32_t **converted;           /* by value: integer arrays of other widths as i32, made on first use */
};

/* ------------------------------------------------------------------------------------------------ split sets */

/* prefix-00001-of-0000N.gguf -> the same with another number. false: the name has another form. */
static bool sibling_name(char *out, size_t size, const char *path, int no, int count) {
    char suffix[32];
    int n = snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", 1, count);
    size_t length = strlen(path);
    if (n < 0 || length < (size_t)n || strcmp(path + length - n, suffix)) return false;
    int written = snprintf(out, size, "%.*s-%05d-of-%05d.gguf", (int)(length - n), path, no, count);
    return written > 0 && (size_t)written < size;
}

static kipu_status check_part(const kipu_part *p, int no, int count, kipu_error *err) {
    int64_t found_no = 0, found_count = 1;
    KIPU_TRY(kipu_part_integer(p, "split.no", &found_no, err));
    KIPU_TRY(kipu_part_integer(p, "split.count", &found_count, err));
    KIPU_REQUIRE(found_count == count, err, KIPU_E_FORMAT, "'%.150s': split.count is %lld, expected %d", p->file.path,
                 (long long)found_count, count);
    KIPU_REQUIRE(found_no == no, err, KIPU_E_FORMAT, "'%.150s': split.no is %lld, expected %d", p->file.path, (long long)found_no, no);
    return KIPU_OK;
}

/* The sum is checked at every part: what all directories cost stays bounded. */
static kipu_status count_tensors(kipu_gguf *g, const kipu_part *p, kipu_error *err) {
    g->n_tensors += p->n_tensors;
    KIPU_REQUIRE(g->n_tensors <= KIPU_GGUF_MOST_TENSORS, err, KIPU_E_UNSUPPORTED, "the parts have %lld tensors, expected at most %d",
                 (long long)g->n_tensors, KIPU_GGUF_MOST_TENSORS);
    return KIPU_OK;
}

static kipu_status open_part(kipu_gguf *g, const char *path, int no, int count, kipu_error *err) {
    kipu_part *p = &g->parts[g->n_parts];
    KIPU_TRY(kipu_part_open(p, path, err));
    g->n_parts++;
    KIPU_TRY(check_part(p, no, count, err));
    kipu_part_forget_values(p);
    return count_tensors(g, p, err);
}

static kipu_status open_sibling(kipu_gguf *g, const char *path, int no, int count, kipu_error *err) {
    size_t room = strlen(path) + 32;
    char *name = kipu_alloc(room);
    KIPU_REQUIRE(name, err, KIPU_E_MEMORY, "no memory for a file name");
    bool named = sibling_name(name, room, path, no + 1, count);
    kipu_status status = named ? open_part(g, name, no, count, err)
                               : kipu_fail(err, KIPU_E_FORMAT, "'%.100s' is a part of %d, expected a name that ends in -00001-of-%05d.gguf",
                                           path, count, count);
    kipu_free(name);
    return status;
}

/* How many parts the first one promises. */
static kipu_status open_first(kipu_gguf *g, const char *path, int *count, kipu_error *err) {
    int64_t promised = 1, no = 0;
    KIPU_TRY(kipu_part_open(&g->parts[0], path, err));
    g->n_parts = 1;
    KIPU_TRY(kipu_part_integer(&g->parts[0], "split.count", &promised, err));
    KIPU_TRY(kipu_part_integer(&g->parts[0], "split.no", &no, err));
    if (promised == 0) promised = 1;
    KIPU_REQUIRE(promised >= 1 && promised <= MAX_PARTS, err, KIPU_E_FORMAT, "split.count is %lld, expected 1..%d", (long long)promised,
                 MAX_PARTS);
    KIPU_REQUIRE(no == 0, err, KIPU_E_FORMAT, "'%.150s': split.no is %lld, expected 0: the first part must be opened", path, (long long)no);
    *count = (int)promised;
    return count_tensors(g, &g->parts[0], err);
}

static kipu_status grow_parts(kipu_gguf *g, int count, kipu_error *err) {
    kipu_part *all = kipu_alloc_array(count, sizeof *all);
    KIPU_REQUIRE(all, err, KIPU_E_MEMORY, "no memory for %d files", count);
    if (g->n_parts) memcpy(all, g->parts, g->n_parts * sizeof *all);
    kipu_free(g->parts);
    g->parts = all;
    return KIPU_OK;
}

static kipu_status open_all(kipu_gguf *g, const char *const *paths, int n_paths, kipu_error *err) {
    int count = 1;
    KIPU_TRY(grow_parts(g, 1, err));
    KIPU_TRY(open_first(g, paths[0], &count, err));
    KIPU_REQUIRE(n_paths == 1 || n_paths == count, err, KIPU_E_ARG, "%d paths were given, split.count is %d", n_paths, count);
    KIPU_TRY(grow_parts(g, count, err));
    for (int i = 1; i < count; i++)
        KIPU_TRY(n_paths > 1 ? open_part(g, paths[i], i, count, err) : open_sibling(g, paths[0], i, count, err));
    return KIPU_OK;
}

/* ------------------------------------------------------------------------------------------------ one directory */

static kipu_status check_total(const kipu_gguf *g, kipu_error *err) {
    int64_t promised = g->n_tensors;
    if (g->n_parts == 1) return KIPU_OK;
    KIPU_TRY(kipu_part_integer(&g->parts[0], "split.tensors.count", &promised, err));
    KIPU_REQUIRE(promised == g->n_tensors, err, KIPU_E_FORMAT, "split.tensors.count is %lld, the parts have %lld tensors",
                 (long long)promised, (long long)g->n_tensors);
    return KIPU_OK;
}

typedef struct name_order { const char *name; int32_t index; } name_order;

static int by_name(const void *a, const void *b) { return strcmp(((const name_order *)a)->name, ((const name_order *)b)->name); }

static kipu_status sort_names(kipu_gguf *g, kipu_error *err) {
    name_order *order = kipu_alloc_array(g->n_tensors + 1, sizeof *order);
    g->by_name = kipu_alloc_array(g->n_tensors + 1, sizeof *g->by_name);
    if (!order || !g->by_name) {
        kipu_free(order);
        return kipu_fail(err, KIPU_E_MEMORY, "no memory for %lld tensors", (long long)g->n_tensors);
    }
    for (int64_t i = 0; i < g->n_tensors; i++) order[i] = (name_order){g->tensors[i].name, (int32_t)i};
    qsort(order, g->n_tensors, sizeof *order, by_name);
    kipu_status status = KIPU_OK;
    for (int64_t i = 0; i < g->n_tensors; i++) {
        g->by_name[i] = order[i].index;
        if (i && !strcmp(order[i].name, order[i - 1].name))
            status = kipu_fail(err, KIPU_E_FORMAT, "tensor '%s' appears twice", order[i].name);
    }
    kipu_free(order);
    return status;
}

/* Moves the parts' directories into one. */
static kipu_status join_directories(kipu_gguf *g, kipu_error *err) {
    g->tensors = kipu_alloc_array(g->n_tensors + 1, sizeof *g->tensors);
    KIPU_REQUIRE(g->tensors, err, KIPU_E_MEMORY, "no memory for %lld tensors", (long long)g->n_tensors);
    kipu_gguf_tensor *at = g->tensors;
    for (int i = 0; i < g->n_parts; i++) {
        kipu_part *p = &g->parts[i];
        for (int64_t j = 0; j < p->n_tensors; j++) p->tensors[j].file = i;
        memcpy(at, p->tensors, p->n_tensors * sizeof *at);
        at += p->n_tensors;
        kipu_free(p->tensors);
        p->tensors = NULL;
    }
    return KIPU_OK;
}

static kipu_status join(kipu_gguf *g, kipu_error *err) {
    g->converted = kipu_alloc_array(g->parts[0].n_values + 1, sizeof *g->converted);
    KIPU_REQUIRE(g->converted, err, KIPU_E_MEMORY, "no memory for %lld metadata values", (long long)g->parts[0].n_values);
    KIPU_TRY(join_directories(g, err));
    KIPU_TRY(check_total(g, err));
    return sort_names(g, err);
}

kipu_status kipu_gguf_open(kipu_gguf **out, const char *const *paths, int n_paths, kipu_error *err) {
    KIPU_REQUIRE(n_paths >= 1, err, KIPU_E_ARG, "no path was given");
    kipu_gguf *g = kipu_alloc(sizeof *g);
    KIPU_REQUIRE(g, err, KIPU_E_MEMORY, "no memory to open a file");
    kipu_status status = open_all(g, paths, n_paths, err);
    if (status == KIPU_OK) status = join(g, err);
    if (status == KIPU_OK) *out = g;
    else kipu_gguf_close(g);
    return status;
}

static void free_overrides(kipu_override *o) {
    while (o) {
        kipu_override *next = o->next;
        kipu_free(o);
        o = next;
    }
}

void kipu_gguf_close(kipu_gguf *g) {
    if (!g) return;
    free_overrides(g->overrides);
    for (int64_t i = 0; g->converted && i < g->parts[0].n_values; i++) kipu_free(g->converted[i]);
    for (int i = 0; i < g->n_parts; i++) kipu_part_close(&g->parts[i]);
    kipu_free(g->converted);
    kipu_free(g->parts);
    kipu_free(g->tensors);
    kipu_free(g->by_name);
    kipu_free(g);
}

/* ------------------------------------------------------------------------------------------------ reading */

int64_t kipu_gguf_n_values(const kipu_gguf *g) { return g->parts[0].n_values; }
const kipu_gguf_value *kipu_gguf_value_at(const kipu_gguf *g, int64_t i) { return &g->parts[0].values[i]; }

const kipu_gguf_value *kipu_gguf_find(const kipu_gguf *g, const char *key) {
    for (const kipu_override *o = g->overrides; o; o = o->next)
        if (!strcmp(o->key, key)) return &o->value;
    return kipu_part_find(&g->parts[0], key, strlen(key));
}

int64_t kipu_gguf_n_tensors(const kipu_gguf *g) { return g->n_tensors; }
const kipu_gguf_tensor *kipu_gguf_tensor_at(const kipu_gguf *g, int64_t i) { return &g->tensors[i]; }
uint32_t kipu_gguf_version(const kipu_gguf *g) { return g->parts[0].version; }

const kipu_gguf_tensor *kipu_gguf_find_tensor(const kipu_gguf *g, const char *name) {
    int64_t low = 0, high = g->n_tensors;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        int order = strcmp(g->tensors[g->by_name[mid]].name, name);
        if (order == 0) return &g->tensors[g->by_name[mid]];
        if (order < 0) low = mid + 1;
        else high = mid;
    }
    return NULL;
}

uint64_t kipu_gguf_file_bytes(const kipu_gguf *g) {
    uint64_t bytes = 0;
    for (int i = 0; i < g->n_parts; i++) bytes += g->parts[i].file.size;
    return bytes;
}

kipu_status kipu_gguf_read(const kipu_gguf *g, const kipu_gguf_tensor *t, uint64_t offset, uint64_t size, void *dst, kipu_error *err) {
    KIPU_REQUIRE(offset <= t->bytes && size <= t->bytes - offset, err, KIPU_E_ARG, "tensor '%s': bytes %llu + %llu of %llu", t->name,
                 (unsigned long long)offset, (unsigned long long)size, (unsigned long long)t->bytes);
    return kipu_file_read(&g->parts[t->file].file, t->offset + offset, size, dst, err);
}

/* ------------------------------------------------------------------------------------------------ overrides */

/* Widths do not matter: all integers are of one kind, both floats of another. */
static int kind_of(int type) {
    switch (type) {
    case KIPU_KV_F32: case KIPU_KV_F64: return KIPU_KV_F64;
    case KIPU_KV_BOOL: case KIPU_KV_STRING: case KIPU_KV_ARRAY: return type;
    default: return KIPU_KV_I64;
    }
}

static void set_override(kipu_override *o, const char *key, int type, const void *data) {
    size_t key_size = strlen(key);
    memcpy(o->key, key, key_size + 1);
    o->value = (kipu_gguf_value){.key = {o->key, key_size}, .type = type, .item = -1, .count = 1, .data = &o->data};
    if (type == KIPU_KV_I64) o->data.integer = *(const int64_t *)data;
    if (type == KIPU_KV_F64) o->data.real = *(const double *)data;
    if (type == KIPU_KV_BOOL) o->data.flag = *(const bool *)data;
    if (type != KIPU_KV_STRING) return;
    kipu_text text = *(const kipu_text *)data;
    if (text.size) memcpy(o->key + key_size + 1, text.data, text.size);
    o->data.text = (kipu_text){o->key + key_size + 1, text.size};
}

kipu_status kipu_gguf_override(kipu_gguf *g, const char *key, int type, const void *data, kipu_error *err) {
    static const char *const names[] = {[KIPU_KV_BOOL] = "a bool", [KIPU_KV_STRING] = "a string", [KIPU_KV_ARRAY] = "an array",
                                        [KIPU_KV_I64] = "an integer", [KIPU_KV_F64] = "a float"};
    const kipu_gguf_value *old = kipu_gguf_find(g, key);
    KIPU_REQUIRE(!old || kind_of(old->type) == type, err, KIPU_E_ARG, "metadata key '%.127s' is %s in the file, the override is %s", key,
                 names[kind_of(old->type)], names[type]);
    kipu_override *o = kipu_alloc(sizeof *o + strlen(key) + 1 + (type == KIPU_KV_STRING ? ((const kipu_text *)data)->size : 0));
    KIPU_REQUIRE(o, err, KIPU_E_MEMORY, "no memory for an override of metadata");
    set_override(o, key, type, data);
    o->next = g->overrides;
    g->overrides = o;
    return KIPU_OK;
}

/* ------------------------------------------------------------------------------------------------ for the vocabulary */

static bool source_text(void *self, const char *key, kipu_text *out) { return kipu_gguf_string(self, key, out); }
static bool source_integer(void *self, const char *key, int64_t *out) { return kipu_gguf_integer(self, key, out); }
static bool source_boolean(void *self, const char *key, bool *out) { return kipu_gguf_boolean(self, key, out); }

static const kipu_gguf_value *find_array(const kipu_gguf *g, const char *key, int item) {
    const kipu_gguf_value *v = kipu_gguf_find(g, key);
    return v && v->type == KIPU_KV_ARRAY && (item < 0 || v->item == item) ? v : NULL;
}

static int64_t source_texts(void *self, const char *key, const kipu_text **out) {
    const kipu_gguf_value *v = find_array(self, key, KIPU_KV_STRING);
    if (!v) return -1;
    *out = v->data;
    return v->count;
}

static int64_t source_floats(void *self, const char *key, const float **out) {
    const kipu_gguf_value *v = find_array(self, key, KIPU_KV_F32);
    if (!v) return -1;
    *out = v->data;
    return v->count;
}

/* Item i of an array of integers of any width; false if it is none or does not fit. */
static bool item_as_i32(const kipu_gguf_value *v, int64_t i, int32_t *out) {
    static const int bytes[] = {1, 1, 2, 2, 4, 4, 0, 0, 0, 0, 8, 8, 0};
    if (!bytes[v->item]) return false;
    kipu_gguf_value one = {.type = v->item, .data = (const char *)v->data + i * bytes[v->item]};
    int64_t wide;
    if (!kipu_value_integer(&one, &wide) || wide < INT32_MIN || wide > INT32_MAX) return false;
    *out = (int32_t)wide;
    return true;
}

static int64_t source_integers(void *self, const char *key, const int32_t **out) {
    kipu_gguf *g = self;
    const kipu_gguf_value *v = find_array(g, key, -1);
    if (!v) return -1;
    int32_t **kept = &g->converted[v - g->parts[0].values];
    if (v->item != KIPU_KV_I32 && !*kept) {
        int32_t *items = kipu_alloc_array(v->count + 1, sizeof *items);
        bool ok = items != NULL;
        for (int64_t i = 0; ok && i < v->count; i++) ok = item_as_i32(v, i, &items[i]);
        if (!ok) {
            kipu_free(items);
            return -1;
        }
        *kept = items;
    }
    *out = *kept ? *kept : v->data;
    return v->count;
}

kipu_vocab_source kipu_gguf_vocab_source(kipu_gguf *g) {
    return (kipu_vocab_source){.self = g, .text = source_text, .integer = source_integer, .boolean = source_boolean,
                               .texts = source_texts, .floats = source_floats, .integers = source_integers};
}
