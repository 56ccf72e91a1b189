/* The pieces of a text repeat themselves: what short ones became is kept for the duration of one call. Direct-mapped, never grows. */
#ifndef KIPU_TEXT_MEMO_H
#define KIPU_TEXT_MEMO_H

#include "text/grow.h"

enum { MEMO_BYTES = 22, MEMO_TOKENS = 10 };

typedef struct memo_entry {   /* 64 bytes, a cache line */
    uint8_t size, n;          /* size 0: free */
    char bytes[MEMO_BYTES];
    int32_t id[MEMO_TOKENS];
} memo_entry;

typedef struct memo { memo_entry *entry; size_t mask; } memo;

/* A size that suits a text of that many bytes. False without memory. */
bool kipu_memo_init(memo *m, size_t text_size);
/* The place of a piece (size > 0), whatever is in it now; NULL for long ones. */
memo_entry *kipu_memo_place(const memo *m, const char *piece, size_t size);

static inline bool memo_holds(const memo_entry *e, const char *piece, size_t size) {
    return e && e->size == size && memcmp(e->bytes, piece, size) == 0;
}

static inline bool memo_recall(const memo_entry *e, id_list *out) {
    for (int i = 0; i < e->n; i++) if (!id_list_add(out, e->id[i])) return false;
    return true;
}

/* Keeps ids[0 .. n) for the piece if there are not too many. */
void kipu_memo_keep(memo_entry *e, const char *piece, size_t size, const int32_t *ids, size_t n);

#endif
