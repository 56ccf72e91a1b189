#include "sample/order.h"
#include <math.h>
#include <string.h>
#include "base/memory_alloc.h"

/* Ascending keys for descending logits: 0 for +inf, ... , the largest for NaN. -0 and 0 are equal. */
static uint32_t key_of(float logit) {
    uint32_t bits;
    if (logit != logit) return 0xffffffffu;
    logit += 0.0f;
    memcpy(&bits, &logit, sizeof bits);
    uint32_t negative = 0u - (bits >> 31);   /* all ones or none: signs are as good as random, so no branch */
    return (bits & negative) | (~bits & 0x7fffffffu & ~negative);
}

static void insertion_sort(kipu_token_data *data, size_t n) {
    for (size_t i = 1; i < n; i++) {
        kipu_token_data x = data[i];
        uint32_t key = key_of(x.logit);
        size_t to = i;
        for (; to > 0 && key_of(data[to - 1].logit) > key; to--) data[to] = data[to - 1];
        data[to] = x;
    }
}

/* ---- radix sort: three passes over 11, 11 and 10 bits of the key, counted in one go */

enum { BITS = 11, BUCKETS = 1 << BITS, PASSES = 3 };

static unsigned digit(uint32_t key, int pass) { return key >> (BITS * pass) & (BUCKETS - 1); }

static void count_digits(const kipu_token_data *data, size_t n, uint32_t (*count)[BUCKETS]) {
    for (size_t i = 0; i < n; i++) {
        uint32_t key = key_of(data[i].logit);
        for (int pass = 0; pass < PASSES; pass++) count[pass][digit(key, pass)]++;
    }
}

static void scatter(const kipu_token_data *from, kipu_token_data *to, size_t n, uint32_t *count, int pass) {
    uint32_t at = 0;
    for (int b = 0; b < BUCKETS; b++) {
        uint32_t size = count[b];
        count[b] = at;
        at += size;
    }
    for (size_t i = 0; i < n; i++) to[count[digit(key_of(from[i].logit), pass)]++] = from[i];
}

static bool radix_sort(kipu_token_data *data, size_t n) {
    kipu_token_data *other = kipu_alloc_array(n, sizeof *other);
    uint32_t (*count)[BUCKETS] = kipu_alloc_array(PASSES, sizeof *count);
    bool ok = other && count && n <= 0xffffffffu;
    if (ok) {
        count_digits(data, n, count);
        scatter(data, other, n, count[0], 0);
        scatter(other, data, n, count[1], 1);
        scatter(data, other, n, count[2], 2);
        memcpy(data, other, n * sizeof *data);
    }
    kipu_free(other);
    kipu_free(count);
    return ok;
}

/* ---- heap sort: needs no memory */

static void sink(kipu_token_data *data, size_t n, size_t i) {
    kipu_token_data x = data[i];
    uint32_t key = key_of(x.logit);
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && key_of(data[child + 1].logit) > key_of(data[child].logit)) child++;
        if (key_of(data[child].logit) <= key) break;
        data[i] = data[child];
    }
    data[i] = x;
}

static void heap_sort(kipu_token_data *data, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sink(data, n, i);
    while (n > 1) {
        kipu_token_data last = data[--n];
        data[n] = data[0];
        data[0] = last;
        sink(data, n, 0);
    }
}

void kipu_sort_descending(kipu_token_data *data, size_t n) {
    if (n <= 64) insertion_sort(data, n);
    else if (!radix_sort(data, n)) heap_sort(data, n);
}

/* ---- selection: the front of the array collects what beats the k-th best so far; when it is full, it is cut back to k */

/* Sorts the front and returns what a further candidate has to exceed. */
static float cut_back(kipu_token_data *data, size_t n, size_t k) {
    kipu_sort_descending(data, n);
    float least = data[k - 1].logit;
    return least == least ? least : -INFINITY;
}

void kipu_select_largest(kipu_token_data *data, size_t n, size_t k) {
    size_t room = 2 * k + 1024;   /* a cut costs `room` and happens once per k + 1024 candidates taken: linear in the worst case too */
    if (k == 0) return;
    if (room < n) {
        size_t kept = k;
        float least = cut_back(data, room, k);
        for (size_t i = room; i < n; i++) {
            if (!(data[i].logit > least)) continue;
            data[kept++] = data[i];
            if (kept < room) continue;
            least = cut_back(data, kept, k);
            kept = k;
        }
        n = kept;
    }
    kipu_sort_descending(data, n);
}
