/* Interned strings: every different text has one number, 0, 1, 2, ... in order of arrival. Immutable use from any thread. */
#ifndef KIPU_TEXT_STRINGS_H
#define KIPU_TEXT_STRINGS_H

#include <stdbool.h>
#include "text/vocab.h"

typedef struct strings {
    kipu_text *text;        /* [size]; NUL behind each, owned */
    size_t size, capacity;
    uint64_t *slot;         /* [mask + 1] upper half: upper half of the hash; lower half: number + 1, 0 = free. At most half full. */
    size_t mask;
    char *room, *room_end;  /* free bytes of the newest chunk; chunks are linked through their first word */
    void *chunk;
} strings;

/* Room for `n` strings without rehashing. */
bool kipu_strings_reserve(strings *s, size_t n);
void kipu_strings_free(strings *s);

/* The number of a text, -1 if it is not here. */
int32_t kipu_strings_find(const strings *s, const char *data, size_t size);
/* The number of a text, which is copied if new. -1 without memory. */
int32_t kipu_strings_intern(strings *s, const char *data, size_t size);

#endif
