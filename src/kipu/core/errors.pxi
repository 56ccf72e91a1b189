# Statuses of the C rooms -> exceptions. `check` is the only place that knows both.

cdef extern from "base/error.h" nogil:
    ctypedef enum kipu_status:
        KIPU_OK, KIPU_E_ARG, KIPU_E_MEMORY, KIPU_E_IO, KIPU_E_FORMAT, KIPU_E_UNSUPPORTED, KIPU_E_STATE, KIPU_E_FULL, KIPU_E_ABORTED
        KIPU_E_INTERNAL
    ctypedef struct kipu_error:
        kipu_status status
        char message[256]
    const char *kipu_status_text(kipu_status status)


class CacheFull(RuntimeError):
    """The cache has no room for this batch; nothing was changed."""


class Aborted(RuntimeError):
    """The computation was stopped by its caller; finished ubatches stay in the cache."""


cdef dict _EXCEPTIONS = {
    <int>KIPU_E_ARG: ValueError, <int>KIPU_E_FORMAT: ValueError, <int>KIPU_E_MEMORY: MemoryError, <int>KIPU_E_IO: OSError,
    <int>KIPU_E_UNSUPPORTED: NotImplementedError, <int>KIPU_E_STATE: RuntimeError, <int>KIPU_E_FULL: CacheFull,
    <int>KIPU_E_ABORTED: Aborted, <int>KIPU_E_INTERNAL: RuntimeError,
}


cdef int check(kipu_status status, kipu_error *err) except -1:
    """Raises the exception of a status with the message of `err`; KIPU_OK passes."""
    if status == KIPU_OK:
        return 0
    text = err.message.decode("utf-8", "replace") if err != NULL else kipu_status_text(status).decode()
    raise _EXCEPTIONS[<int>status](text)
