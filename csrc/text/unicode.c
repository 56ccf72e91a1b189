#include "text/unicode.h"
#include "text/unicode_tables.h"

uint8_t kipu_unicode_class(uint32_t code) {
    if (code == '\n' || code == '\r') return UNICODE_SPACE | UNICODE_NEWLINE;
    if (code >= 0x110000) return UNICODE_OTHER;
    size_t at = ((size_t)unicode_block[code >> UNICODE_SHIFT] << UNICODE_SHIFT) + (code & ((1u << UNICODE_SHIFT) - 1));
    return (uint8_t)(1u << (unicode_nibbles[at / 2] >> at % 2 * 4 & 15));
}

size_t kipu_utf8_length(char first) {
    unsigned char b = (unsigned char)first;
    return b < 0xc0 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

size_t kipu_utf8_read(const char *text, size_t size, uint32_t *code) {
    static const uint8_t first_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned char first = (unsigned char)text[0];
    size_t length = kipu_utf8_length(text[0]);
    uint32_t c = first & first_bits[length];
    *code = 0xfffd;
    if ((length == 1 && first >= 0x80) || first >= 0xf8 || length > size) return 1;
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) return 1;
        c = c << 6 | ((unsigned char)text[i] & 0x3f);
    }
    if (c > 0x10ffff) return 1;
    *code = c;
    return length;
}

size_t kipu_utf8_write(char *text, uint32_t code) {
    if (code < 0x80) {
        text[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6) text[i] = (char)(0x80 | (code & 0x3f));
    text[0] = (char)(0xf00u >> length | code);   /* 110xxxxx, 1110xxxx, 11110xxx: the top bits fall off the byte */
    return length;
}
