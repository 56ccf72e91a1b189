/* The printable alphabet of GPT-2: every byte is written as one code point, so that token texts are readable and hold no blanks.
 *
 *     byte     0x21..0x7e, 0xa1..0xac, 0xae..0xff   itself
 *     byte     0x00..0x20 | 0x7f..0xa0 | 0xad       U+0100 + 0, 1, 2, ... 67 in this order
 */
#ifndef KIPU_TEXT_BYTE_ALPHABET_H
#define KIPU_TEXT_BYTE_ALPHABET_H

#include <stdint.h>

static inline uint32_t byte_to_letter(uint8_t byte) {
    if (byte <= 0x20) return 0x100u + byte;
    if (byte >= 0x7f && byte <= 0xa0) return 0x121u + (byte - 0x7fu);
    return byte == 0xad ? 0x143u : byte;
}

/* -1: not in the alphabet */
static inline int letter_to_byte(uint32_t letter) {
    if (letter < 0x100) return byte_to_letter((uint8_t)letter) == letter ? (int)letter : -1;
    if (letter <= 0x120) return (int)letter - 0x100;
    if (letter <= 0x142) return (int)letter - 0x121 + 0x7f;
    return letter == 0x143 ? 0xad : -1;
}

#endif
