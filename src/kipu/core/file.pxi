# GGUF files as they are, without loading a model.

from cpython.bytes cimport PyBytes_FromStringAndSize

cdef extern from "quants/formats.h" nogil:
    ctypedef struct kipu_format:
        const char *name
    const kipu_format *kipu_format_of(int type)

cdef extern from "engine/model.h" nogil:
    enum:
        KIPU_PANELS
    ctypedef struct kipu_weight:
        char name[64]
        int layout, type
        int64_t k, rows
    int32_t kipu_model_n_weights(const kipu_model *m)
    const kipu_weight *kipu_model_weight_at(const kipu_model *m, int32_t index)
    kipu_status kipu_weight_rows(const kipu_weight *w, int64_t r0, int64_t r1, void *out, kipu_error *err)


class GgufTensor:
    """One entry of a file's directory.

    Attributes
    ----------
    name : str.
    type : str, "F32", "Q4_K", ...
    shape : tuple of int, the fastest dimension first.
    elements, bytes : int.
    part, offset : int, which file of a split set holds the data, and where.
    """
    __slots__ = ("name", "type", "shape", "elements", "bytes", "part", "offset")

    def __init__(self, name, type, shape, bytes, part, offset):
        self.name, self.type, self.shape, self.bytes, self.part, self.offset = name, type, shape, bytes, part, offset
        self.elements = 1
        for n in shape:
            self.elements *= n

    def __repr__(self):
        return f"<GgufTensor {self.name} {self.type} {list(self.shape)}>"


cdef object tensor_of(const kipu_gguf_tensor *t):
    name = (<const char *>t.name).decode("utf-8", "surrogateescape")
    shape = tuple([t.ne[i] for i in range(t.n_dims)])
    return GgufTensor(name, kipu_format_of(t.type).name.decode(), shape, t.bytes, t.file, t.offset)


cdef class FileCore:
    """Owns the C object; a call holds it, so that closing in another thread waits for the call."""
    cdef kipu_gguf *g

    def __dealloc__(self):
        kipu_gguf_close(self.g)


cdef class GgufFile:
    """An open GGUF file, or a split set of files as one.

    Attributes
    ----------
    path : as given; the first one of several.
    """
    cdef FileCore core
    cdef readonly object path

    def __init__(self, path, *more):
        """Reads and checks header, metadata and directory.

        Parameters
        ----------
        path : str, bytes or os.PathLike. The first part of a split set finds the others by their names.
        more : the other parts, in order, if their names do not tell.

        Raises
        ------
        OSError, ValueError, NotImplementedError, MemoryError
            The file cannot be read, is damaged, or holds what GGUF readers do not take; the message names the key or tensor.
        """
        paths = [_os.fsencode(p) for p in (path, *more)]
        if any(b"\0" in p for p in paths):
            raise ValueError(f"path must not contain a zero byte: {path!r}")
        core = FileCore()
        core.g = open_gguf(paths)
        self.core, self.path = core, path

    cdef FileCore alive(self):
        if self.core is None:
            raise ValueError("the file was closed")
        return self.core

    def close(self):
        """Any number of times."""
        self.core = None

    def __enter__(self):
        self.alive()
        return self

    def __exit__(self, *exc):
        self.close()

    @property
    def version(self):
        """2 or 3."""
        return kipu_gguf_version(self.alive().g)

    @property
    def size(self):
        """Bytes of all parts."""
        return kipu_gguf_file_bytes(self.alive().g)

    @property
    def metadata(self):
        """Dict of key -> int, float, bool, str; arrays as numpy arrays, of strings as list of str. File order; bytes that are no UTF-8 as
        lone surrogates."""
        cdef FileCore core = self.alive()
        cdef kipu_gguf *g = core.g
        cdef const kipu_gguf_value *v
        cdef int64_t i
        out = {}
        for i in range(kipu_gguf_n_values(g)):
            v = kipu_gguf_value_at(g, i)
            out[text_of(&v.key).decode("utf-8", "surrogateescape")] = gguf_value(v)
        return out

    @property
    def tensors(self):
        """List of GgufTensor, file order."""
        cdef FileCore core = self.alive()
        cdef kipu_gguf *g = core.g
        cdef int64_t i
        return [tensor_of(kipu_gguf_tensor_at(g, i)) for i in range(kipu_gguf_n_tensors(g))]

    def read(self, int64_t index, uint64_t offset=0, size=None):
        """Bytes [offset, offset + size) of the data of tensors[index], to its end without size."""
        cdef FileCore core = self.alive()
        cdef kipu_gguf *g = core.g
        if not 0 <= index < kipu_gguf_n_tensors(g):
            raise IndexError(f"tensor {index} of {kipu_gguf_n_tensors(g)}")
        cdef const kipu_gguf_tensor *t = kipu_gguf_tensor_at(g, index)
        if offset > t.bytes:
            raise ValueError(f"offset must be at most {t.bytes}, got {offset}")
        cdef uint64_t n = t.bytes - offset if size is None else size
        if n > t.bytes - offset:
            raise ValueError(f"size must be at most {t.bytes - offset}, got {n}")
        cdef bytes out = PyBytes_FromStringAndSize(NULL, n)
        cdef char *at = out
        cdef kipu_error err
        cdef kipu_status status
        with nogil:
            status = kipu_gguf_read(g, t, offset, n, at, &err)
        check(status, &err)
        return out


# ------------------------------------------------------------------------------------------------ for tests

def _model_weights(ModelHandle model):
    """[(name, rows)] of the matrices of a loaded model."""
    cdef kipu_model *m = model.alive().m
    cdef int32_t i
    weights = []
    for i in range(kipu_model_n_weights(m)):
        if kipu_model_weight_at(m, i).layout == KIPU_PANELS:
            weights.append(((<const char *>kipu_model_weight_at(m, i).name).decode(), kipu_model_weight_at(m, i).rows))
    return weights


def _model_weight_rows(ModelHandle model, str name, int64_t r0, int64_t r1):
    """Rows [r0, r1) of a matrix of a loaded model, as bytes in file order."""
    cdef kipu_model *m = model.alive().m
    cdef kipu_error err
    cdef const kipu_weight *w
    cdef bytes out
    cdef int32_t i
    for i in range(kipu_model_n_weights(m)):
        w = kipu_model_weight_at(m, i)
        if (<const char *>w.name).decode() == name:
            out = PyBytes_FromStringAndSize(NULL, max(r1 - r0, 0) * _row_bytes(w.type, w.k))
            check(kipu_weight_rows(w, r0, r1, <char *>out, &err), &err)
            return out
    raise KeyError(name)
