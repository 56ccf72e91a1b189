# Models. ModelCore owns the C object and lives as long as anything needs it; ModelHandle is what a program holds and can free.

from cython cimport no_gc_clear
from libc.stdlib cimport calloc, free
import numpy as _numpy

cdef extern from "base/memory_alloc.h" nogil:
    void kipu_free(void *p)

cdef extern from "engine/model.h" nogil:
    ctypedef c_bool (*kipu_progress)(void *arg, float progress) noexcept nogil
    kipu_status kipu_model_new(kipu_model **out, kipu_gguf *file, bint vocab_only, kipu_vocab_warn warn, void *warn_arg, kipu_error *err)
    void kipu_model_free(kipu_model *m)
    const kipu_gguf *kipu_model_file(const kipu_model *m)
    const kipu_vocab *kipu_model_vocab(const kipu_model *m)
    kipu_status kipu_model_load(kipu_model *m, int n_threads, bint check_tensors, kipu_progress progress, void *progress_arg,
                                kipu_error *err)
    uint64_t kipu_model_tensor_bytes(const kipu_model *m)
    uint64_t kipu_model_n_params(const kipu_model *m)

cdef extern from "engine/context.h" nogil:
    kipu_status kipu_model_explain(kipu_model *m, char **text, kipu_error *err)


cdef void collect_warning(void *arg, int level, const char *message) noexcept with gil:
    (<list>arg).append((level, message.decode("utf-8", "replace")))


cdef c_bool report_progress(void *arg, float progress) noexcept with gil:
    """arg: a callable that returns whether to go on and never raises."""
    try:
        return bool((<object>arg)(progress))
    except BaseException:
        return False


# ------------------------------------------------------------------------------------------------ files and their values

cdef kipu_gguf *open_gguf(list paths) except NULL:
    """paths: list of bytes; the caller owns the result."""
    cdef kipu_gguf *file = NULL
    cdef kipu_error err
    cdef kipu_status status
    cdef int n = len(paths), i
    cdef const char **names = <const char **>calloc(n + 1, sizeof(char *))
    if names == NULL:
        raise MemoryError("no memory for the paths of a model")
    for i in range(n):
        names[i] = paths[i]
    with nogil:
        status = kipu_gguf_open(&file, names, n, &err)
    free(names)
    if status == KIPU_E_UNSUPPORTED:    # no later version of kipu reads these files
        status = KIPU_E_FORMAT
    check(status, &err)
    return file


cdef int override_value(kipu_gguf *file, str key, value, list warnings) except -1:
    """value: bool, int, float or str. Of another kind than the file's: ignored with a warning."""
    cdef kipu_error err
    cdef kipu_status status
    cdef bytes raw = key.encode(), text
    cdef int64_t integer
    cdef double real
    cdef c_bool flag
    cdef kipu_text part
    if isinstance(value, bool):
        flag = value
        status = kipu_gguf_override(file, raw, KIPU_KV_BOOL, &flag, &err)
    elif isinstance(value, int):
        integer = value
        status = kipu_gguf_override(file, raw, KIPU_KV_I64, &integer, &err)
    elif isinstance(value, float):
        real = value
        status = kipu_gguf_override(file, raw, KIPU_KV_F64, &real, &err)
    else:
        text = value.encode()
        part.data, part.size = text, len(text)
        status = kipu_gguf_override(file, raw, KIPU_KV_STRING, &part, &err)
    if status == KIPU_E_ARG:
        warnings.append((3, f"override ignored: {err.message.decode('utf-8', 'replace')}"))
        return 0
    return check(status, &err)


cdef dict _KV_DTYPES = {
    KIPU_KV_U8: "u1", KIPU_KV_I8: "i1", KIPU_KV_U16: "<u2", KIPU_KV_I16: "<i2", KIPU_KV_U32: "<u4", KIPU_KV_I32: "<i4", KIPU_KV_F32: "<f4",
    KIPU_KV_BOOL: "?", KIPU_KV_U64: "<u8", KIPU_KV_I64: "<i8", KIPU_KV_F64: "<f8",
}


cdef bytes text_of(const kipu_text *t):
    return t.data[:t.size] if t.size else b""


cdef object gguf_value(const kipu_gguf_value *v):
    """int, float, bool or str; arrays as numpy arrays, of strings as list of str (bytes that are no UTF-8 as lone surrogates)."""
    cdef int kind = v.item if v.type == KIPU_KV_ARRAY else v.type
    cdef const kipu_text *texts = <const kipu_text *>v.data
    cdef int64_t i
    if kind == KIPU_KV_STRING:
        values = [text_of(&texts[i]).decode("utf-8", "surrogateescape") for i in range(v.count)]
    else:
        dtype = _numpy.dtype(_KV_DTYPES[kind])
        values = _numpy.frombuffer((<const char *>v.data)[:v.count * dtype.itemsize], dtype) if v.count else _numpy.empty(0, dtype)
    if v.type == KIPU_KV_ARRAY:
        return values
    return values[0] if kind == KIPU_KV_STRING else values[0].item()


cdef str take_text(char *text):
    """A string that C gave away."""
    try:
        return text.decode("utf-8", "replace")
    finally:
        kipu_free(text)


@no_gc_clear    # C objects that contexts and vocabularies still use must not go first
cdef class ModelCore:
    cdef kipu_model *m

    def __dealloc__(self):
        kipu_model_free(self.m)


cdef class ModelHandle:
    """A model file that was opened, and with `load` its weights. Immutable then; any thread.

    Attributes
    ----------
    warnings : list of (level, text): what opening the file had to say.
    hp : hyper-parameters, None until loaded or with vocab_only.
    vocab : Vocab.
    vocab_only, freed : bool.
    """
    cdef ModelCore core
    cdef readonly object hp, vocab
    cdef readonly list warnings
    cdef readonly bint vocab_only
    cdef object __weakref__

    def __init__(self, list paths, bint vocab_only=False, dict overrides=None):
        """Opens one file, or all parts of a split set in order.

        Parameters
        ----------
        paths : list of bytes.
        overrides : metadata key -> bool, int, float or str in place of the file's value.

        Raises
        ------
        OSError, ValueError, NotImplementedError, MemoryError
            The file cannot be read, is damaged, or needs what is not built yet.
        """
        cdef kipu_gguf *file = open_gguf(paths)
        cdef kipu_error err
        cdef kipu_status status
        core = ModelCore()
        self.warnings, self.vocab_only = [], vocab_only
        try:
            for key, value in (overrides or {}).items():
                override_value(file, key, value, self.warnings)
        except:
            kipu_gguf_close(file)
            raise
        cdef void *warnings = <void *>self.warnings
        cdef kipu_model **out = &core.m
        with nogil:
            status = kipu_model_new(out, file, vocab_only, collect_warning, warnings, &err)
        check(status, &err)
        self.core = core
        self.vocab = borrow_vocab(kipu_model_vocab(core.m), core)

    cdef ModelCore alive(self):
        if self.core is None:
            raise ValueError("the model was freed")
        return self.core

    def load(self, hp, int n_threads, bint check_tensors, progress):
        """Reads and packs all weights that the recorded program uses.

        Parameters
        ----------
        hp : hyper-parameters to keep.
        progress : callable(float 0..1) -> bool, False cancels (Aborted); must not raise.
        """
        cdef ModelCore core = self.alive()
        cdef kipu_error err
        cdef kipu_status status
        cdef void *arg = <void *>progress
        with nogil:
            status = kipu_model_load(core.m, n_threads, check_tensors, report_progress, arg, &err)
        check(status, &err)
        self.hp = hp

    def free(self):
        """Gives the model up; contexts and vocabularies made from it keep what they need. Any number of times."""
        self.core = None

    @property
    def freed(self):
        return self.core is None

    def get(self, str key, default=None):
        """Value of a metadata key: int, float, bool, str, or a numpy array or list of these."""
        cdef bytes raw = key.encode()
        cdef const kipu_gguf_value *v = kipu_gguf_find(kipu_model_file(self.alive().m), raw)
        return default if v == NULL else gguf_value(v)

    def scalars(self):
        """List of (key, value) of all metadata that are no arrays, in file order. Text as bytes."""
        cdef const kipu_gguf *g = kipu_model_file(self.alive().m)
        cdef const kipu_gguf_value *v
        cdef int64_t i
        out = []
        for i in range(kipu_gguf_n_values(g)):
            v = kipu_gguf_value_at(g, i)
            if v.type == KIPU_KV_STRING:
                out.append((text_of(&v.key), text_of(<const kipu_text *>v.data)))
            elif v.type != KIPU_KV_ARRAY:
                out.append((text_of(&v.key), gguf_value(v)))
        return out

    def tensor_types(self):
        """Number of tensors of each format: dict of type number -> count."""
        cdef const kipu_gguf *g = kipu_model_file(self.alive().m)
        cdef int64_t i
        counts = {}
        for i in range(kipu_gguf_n_tensors(g)):
            kind = kipu_gguf_tensor_at(g, i).type
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def tensor_bytes(self):
        """Bytes of all tensors in the file."""
        return kipu_model_tensor_bytes(self.alive().m)

    def n_params(self):
        """Elements of all tensors in the file."""
        return kipu_model_n_params(self.alive().m)

    def explain(self):
        """The recorded program as text, one line per step."""
        cdef char *text = NULL
        cdef kipu_error err
        check(kipu_model_explain(self.alive().m, &text, &err), &err)
        return take_text(text)

    def __int__(self):
        return <uintptr_t>self.alive().m

    def __index__(self):
        return <uintptr_t>self.alive().m

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.free()

    def __reduce__(self):
        raise TypeError("a model cannot be pickled")
