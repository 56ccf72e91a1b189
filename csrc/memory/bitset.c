#include "memory/bitset.h"

#include <stddef.h>
#include <string.h>
#include "base/memory_alloc.h"

static int32_t words_for(int32_t bits) { return (int32_t)(((int64_t)bits + 63) / 64); }

bool kipu_bitset_new(kipu_bitset *set, int32_t size) {
    size_t words = 0;
    for (int32_t n = words_for(size); ; n = words_for(n)) {
        words += (size_t)n;
        if (n == 1) break;
    }
    uint64_t *storage = kipu_alloc_array(words, sizeof *storage);
    if (!storage) return false;
    set->size = size;
    set->n_levels = 0;
    for (int32_t n = words_for(size); ; n = words_for(n)) {
        set->level[set->n_levels++] = storage;
        storage += n;
        if (n == 1) break;
    }
    kipu_bitset_fill(set);
    return true;
}

void kipu_bitset_free(kipu_bitset *set) {
    kipu_free(set->level[0]);
    memset(set, 0, sizeof *set);
}

void kipu_bitset_fill(kipu_bitset *set) {
    int32_t bits = set->size;
    for (int32_t l = 0; l < set->n_levels; l++) {
        int32_t words = words_for(bits);
        memset(set->level[l], 0xff, (size_t)words * sizeof(uint64_t));
        if (bits % 64) set->level[l][words - 1] = (UINT64_C(1) << (bits % 64)) - 1;
        bits = words;
    }
}

void kipu_bitset_add(kipu_bitset *set, int32_t number) {
    for (int32_t l = 0; l < set->n_levels; l++, number /= 64) set->level[l][number / 64] |= UINT64_C(1) << (number % 64);
}

void kipu_bitset_remove(kipu_bitset *set, int32_t number) {
    for (int32_t l = 0; l < set->n_levels; l++, number /= 64) {
        uint64_t *word = &set->level[l][number / 64];
        *word &= ~(UINT64_C(1) << (number % 64));
        if (*word) return;   /* the word still counts one level up */
    }
}

int32_t kipu_bitset_first(const kipu_bitset *set) {
    int32_t number = 0;
    for (int32_t l = set->n_levels - 1; l >= 0; l--) {
        uint64_t word = set->level[l][number];
        if (!word) return -1;
        number = number * 64 + __builtin_ctzll(word);
    }
    return number;
}
