#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

const char *kipu_status_text(kipu_status status) {
    switch (status) {
    case KIPU_OK: return "no error";
    case KIPU_E_ARG: return "an argument is out of range";
    case KIPU_E_MEMORY: return "not enough memory";
    case KIPU_E_IO: return "the file cannot be read or written";
    case KIPU_E_FORMAT: return "the file breaks its format";
    case KIPU_E_UNSUPPORTED: return "this build or machine cannot do it";
    case KIPU_E_STATE: return "not possible at this moment";
    case KIPU_E_FULL: return "the cache is full";
    case KIPU_E_ABORTED: return "stopped on request";
    case KIPU_E_INTERNAL: return "an internal promise was broken";
    }
    return "unknown status";
}

/* vsnprintf may have cut a UTF-8 sequence: drop its beginning. */
static void drop_cut_sequence(char *text, int size) {
    int start = size;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80) start--;
    if (start == 0 || (unsigned char)text[start - 1] < 0xc0) return;
    unsigned char lead = (unsigned char)text[start - 1];
    int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (size - (start - 1) < length) text[start - 1] = 0;
}

kipu_status kipu_fail(kipu_error *err, kipu_status status, const char *format, ...) {
    if (!err) return status;
    char text[sizeof err->message];    /* an argument may be err->message itself */
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) text[0] = 0;
    if (n >= (int)sizeof text) drop_cut_sequence(text, sizeof text - 1);
    __builtin_memcpy(err->message, text, sizeof text);
    err->status = status;
    return status;
}
