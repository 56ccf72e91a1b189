/* Status codes and error messages.
 *
 * Every C function that can fail for a reason outside of the program (file, argument, memory, operating system) returns a
 * kipu_status and takes a `kipu_error *err` as its last argument. `err` may be NULL; it is written only on failure. Outputs are
 * untouched unless the status is KIPU_OK. Nothing below the faces logs, prints, exits or aborts. No thread-locals.
 */
#ifndef KIPU_BASE_ERROR_H
#define KIPU_BASE_ERROR_H

typedef enum kipu_status {
    KIPU_OK = 0,
    KIPU_E_ARG,          /* an argument is out of its documented range        -> ValueError */
    KIPU_E_MEMORY,       /* allocation failed                                 -> MemoryError */
    KIPU_E_IO,           /* open, read, map failed                            -> OSError */
    KIPU_E_FORMAT,       /* a file's content breaks its format                -> ValueError */
    KIPU_E_UNSUPPORTED,  /* valid, but this build or machine cannot do it     -> NotImplementedError */
    KIPU_E_STATE,        /* wrong moment: freed, in use, after fork           -> RuntimeError */
    KIPU_E_FULL,         /* the cache has no room for this batch (code 1)     -> RuntimeError */
    KIPU_E_ABORTED,      /* the caller asked to stop (code 2)                 -> RuntimeError */
    KIPU_E_INTERNAL      /* a broken promise of our own                       -> RuntimeError */
} kipu_status;

typedef struct kipu_error {
    kipu_status status;
    char message[256];   /* UTF-8, NUL-terminated: names the argument, what it got, what was expected */
} kipu_error;

/* One sentence for a status. Static storage. */
const char *kipu_status_text(kipu_status status);

/* Writes status and the formatted message (cut at 255 bytes, never inside a UTF-8 sequence) and returns the status. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4), cold))
#endif
kipu_status kipu_fail(kipu_error *err, kipu_status status, const char *format, ...);

/* Forward a failure. */
#define KIPU_TRY(call)                                                                                                                   \
    do {                                                                                                                                 \
        kipu_status kipu_try_status_ = (call);                                                                                           \
        if (kipu_try_status_ != KIPU_OK) return kipu_try_status_;                                                                        \
    } while (0)

/* Fail with this status and message unless the condition holds. */
#define KIPU_REQUIRE(condition, err, status, ...)                                                                                        \
    do {                                                                                                                                 \
        if (!(condition)) return kipu_fail((err), (status), __VA_ARGS__);                                                                \
    } while (0)

#endif
