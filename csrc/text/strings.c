#include "text/strings.h"
#include "text/grow.h"

enum { CHUNK = 1 << 20 };

static uint64_t load8(const char *p, size_t n) {
    uint64_t x = 0;
    memcpy(&x, p, n);
    return x;
}

/* Eight bytes per multiplication; the shift brings the well mixed upper bits back down. */
static uint64_t hash(const char *data, size_t size) {
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t h = size * odd;
    for (; size >= 8; data += 8, size -= 8) {
        h = (h ^ load8(data, 8)) * odd;
        h ^= h >> 32;
    }
    h = (h ^ load8(data, size)) * odd;
    return (h ^ h >> 29) * odd;
}

static size_t probe(const strings *s, uint64_t h, const char *data, size_t size) {
    size_t at = (size_t)(h >> 20) & s->mask;
    for (;; at = (at + 1) & s->mask) {
        uint64_t slot = s->slot[at];
        if (!slot) return at;
        if ((slot ^ h) >> 32) continue;
        const kipu_text *t = &s->text[(uint32_t)slot - 1];
        if (t->size == size && memcmp(t->data, data, size) == 0) return at;
    }
}

int32_t kipu_strings_find(const strings *s, const char *data, size_t size) {
    if (!s->slot) return -1;
    return (int32_t)(uint32_t)s->slot[probe(s, hash(data, size), data, size)] - 1;
}

static bool rehash(strings *s, size_t n) {
    size_t slots = 64;
    while (slots < 2 * n) slots *= 2;
    uint64_t *fresh = kipu_alloc_array(slots, sizeof *fresh);
    if (!fresh) return false;
    kipu_free(s->slot);
    s->slot = fresh;
    s->mask = slots - 1;
    for (size_t i = 0; i < s->size; i++) {
        uint64_t h = hash(s->text[i].data, s->text[i].size);
        size_t at = (size_t)(h >> 20) & s->mask;
        while (fresh[at]) at = (at + 1) & s->mask;
        fresh[at] = (h >> 32 << 32) | (i + 1);
    }
    return true;
}

bool kipu_strings_reserve(strings *s, size_t n) {
    if (n > INT32_MAX) return false;
    if (n <= s->capacity) return true;
    void *text = s->text;
    if (!grow(&text, &s->capacity, n, sizeof *s->text)) return false;
    s->text = text;
    return rehash(s, s->capacity);
}

/* Chunk layout: [pointer to the chunk before][bytes ...]. */
static char *copy(strings *s, const char *data, size_t size) {
    if ((size_t)(s->room_end - s->room) <= size) {
        size_t bytes = sizeof(void *) + (size < CHUNK ? CHUNK : size + 1);
        void *fresh = kipu_alloc(bytes);
        if (!fresh) return NULL;
        memcpy(fresh, &s->chunk, sizeof(void *));
        s->chunk = fresh;
        s->room = (char *)fresh + sizeof(void *);
        s->room_end = (char *)fresh + bytes;
    }
    char *to = s->room;
    if (size) memcpy(to, data, size);
    to[size] = 0;
    s->room += size + 1;
    return to;
}

int32_t kipu_strings_intern(strings *s, const char *data, size_t size) {
    if (!kipu_strings_reserve(s, s->size + 1)) return -1;
    uint64_t h = hash(data, size);
    size_t at = probe(s, h, data, size);
    if (s->slot[at]) return (int32_t)(uint32_t)s->slot[at] - 1;
    char *owned = copy(s, data, size);
    if (!owned) return -1;
    s->text[s->size] = (kipu_text){owned, size};
    s->slot[at] = (h >> 32 << 32) | ++s->size;
    return (int32_t)s->size - 1;
}

void kipu_strings_free(strings *s) {
    for (void *chunk = s->chunk, *before; chunk; chunk = before) {
        memcpy(&before, chunk, sizeof(void *));
        kipu_free(chunk);
    }
    kipu_free(s->text);
    kipu_free(s->slot);
    *s = (strings){0};
}
