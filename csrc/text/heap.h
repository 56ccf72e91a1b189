/* A binary heap of 64-bit keys, smallest first. Keys carry the priority in the upper and a position in the lower 32 bits, so equal
 * priorities leave in order of position: "ties go to the leftmost" costs nothing. */
#ifndef KIPU_TEXT_HEAP_H
#define KIPU_TEXT_HEAP_H

#include "text/grow.h"

static inline uint64_t heap_key(uint32_t priority, uint32_t position) { return (uint64_t)priority << 32 | position; }

static inline void heap_sink(u64_list *heap, size_t i) {
    uint64_t *a = heap->data, key = a[i];
    for (size_t child; (child = 2 * i + 1) < heap->size; i = child) {
        if (child + 1 < heap->size && a[child + 1] < a[child]) child++;
        if (key <= a[child]) break;
        a[i] = a[child];
    }
    a[i] = key;
}

/* Orders items that were appended to the list one by one. Linear. */
static inline void heap_build(u64_list *heap) {
    for (size_t i = heap->size / 2; i-- > 0;) heap_sink(heap, i);
}

static inline bool heap_push(u64_list *heap, uint64_t key) {
    if (!u64_list_add(heap, key)) return false;
    uint64_t *a = heap->data;
    size_t i = heap->size - 1;
    for (; i > 0 && key < a[(i - 1) / 2]; i = (i - 1) / 2) a[i] = a[(i - 1) / 2];
    a[i] = key;
    return true;
}

/* size > 0 */
static inline uint64_t heap_pop(u64_list *heap) {
    uint64_t top = heap->data[0];
    heap->data[0] = heap->data[--heap->size];
    if (heap->size) heap_sink(heap, 0);
    return top;
}

#endif
