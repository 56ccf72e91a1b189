/* Arrays that grow, on base/memory_alloc.h. Contents are plain data; a failed growth leaves the array as it was. */
#ifndef KIPU_TEXT_GROW_H
#define KIPU_TEXT_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/memory_alloc.h"

/* Room for at least `wanted` items of `size` bytes in the array *data (capacity *capacity items); doubles, so appending is linear. */
static inline bool grow(void **data, size_t *capacity, size_t wanted, size_t size) {
    if (wanted <= *capacity) return true;
    size_t larger = wanted < *capacity * 2 ? *capacity * 2 : wanted < 64 ? 64 : wanted;
    void *fresh = kipu_alloc_array(larger, size);
    if (!fresh) return false;
    if (*capacity) memcpy(fresh, *data, *capacity * size);
    kipu_free(*data);
    *data = fresh;
    *capacity = larger;
    return true;
}

typedef struct u64_list { uint64_t *data; size_t size, capacity; } u64_list;
typedef struct id_list { int32_t *data; size_t size, capacity; } id_list;

static inline bool u64_list_reserve(u64_list *list, size_t wanted) {
    void *data = list->data;
    bool ok = grow(&data, &list->capacity, wanted, sizeof *list->data);
    list->data = data;
    return ok;
}

static inline bool u64_list_add(u64_list *list, uint64_t item) {
    if (!u64_list_reserve(list, list->size + 1)) return false;
    list->data[list->size++] = item;
    return true;
}

static inline bool id_list_add(id_list *list, int32_t item) {
    if (list->size == list->capacity) {
        void *data = list->data;
        if (!grow(&data, &list->capacity, list->size + 1, sizeof *list->data)) return false;
        list->data = data;
    }
    list->data[list->size++] = item;
    return true;
}

#endif
