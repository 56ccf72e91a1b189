#include "text/memo.h"

bool kipu_memo_init(memo *m, size_t text_size) {
    size_t entries = 16;
    while (entries < text_size / 32 && entries < 8192) entries *= 2;
    m->entry = kipu_alloc_array(entries, sizeof *m->entry);
    m->mask = entries - 1;
    return m->entry != NULL;
}

memo_entry *kipu_memo_place(const memo *m, const char *piece, size_t size) {
    uint64_t h = size;
    if (size > MEMO_BYTES) return NULL;
    for (size_t i = 0; i < size; i++) h = (h ^ (uint8_t)piece[i]) * 0x100000001b3u;
    return &m->entry[(h ^ h >> 32) & m->mask];
}

void kipu_memo_keep(memo_entry *e, const char *piece, size_t size, const int32_t *ids, size_t n) {
    if (!e || n > MEMO_TOKENS) return;
    e->size = (uint8_t)size;
    e->n = (uint8_t)n;
    memcpy(e->bytes, piece, size);
    if (n) memcpy(e->id, ids, n * sizeof *ids);
}
