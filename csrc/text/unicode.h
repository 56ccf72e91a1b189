/* UTF-8 and classes of code points. Pure functions over constant tables; any thread. */
#ifndef KIPU_TEXT_UNICODE_H
#define KIPU_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* What the pre-tokenizers ask about a code point, as bits so that sets are masks. A code point has exactly one of the first seven. */
enum {
    UNICODE_OTHER = 1, UNICODE_LETTER = 2, UNICODE_NUMBER = 4, UNICODE_PUNCTUATION = 8, UNICODE_SYMBOL = 16, UNICODE_MARK = 32,
    UNICODE_SPACE = 64,     /* property White_Space */
    UNICODE_NEWLINE = 128   /* CR or LF, together with UNICODE_SPACE */
};

uint8_t kipu_unicode_class(uint32_t code);

/* Reads the code point at text[0], size >= 1; returns the bytes used. A byte that starts no sequence is U+FFFD, one byte long.
 * Deliberately lenient, as the reference is: overlong forms and surrogates are taken at their value. */
size_t kipu_utf8_read(const char *text, size_t size, uint32_t *code);
/* Writes 1 to 4 bytes, returns how many. code <= 0x10FFFF. */
size_t kipu_utf8_write(char *text, uint32_t code);
/* Length announced by a first byte, 1 for continuation bytes. Nothing behind it is checked. */
size_t kipu_utf8_length(char first);

#endif
