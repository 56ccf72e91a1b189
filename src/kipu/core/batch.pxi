# A batch: fields as in llama.h for Python, and its checked private copy for one decode.

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy

from operator import index as operator_index
from ._buffers import flag_array, float_array, id_rows, int32_array

cdef extern from "engine/context.h" nogil:
    ctypedef struct kipu_batch:
        int32_t n_tokens
        int32_t *token
        float *embd
        int32_t *pos
        int32_t *n_seq_id
        int32_t **seq_id
        int8_t *logits


cdef class Batch:
    """Tokens to compute. Every array may be None, as in llama.h; what is set is read when the batch is decoded.

    Attributes
    ----------
    n_tokens : int, tokens in use; the arrays may be longer.
    token : int32 (n,), or None.
    embd : float32 (n, n_embd), or None: input vectors instead of tokens.
    pos : int32 (n,), positions in tokens, or None: continue the sequences.
    n_seq_id : int32 (n,), number of ids in the row of seq_id, or None: one.
    seq_id : int32 (n, n_seq_max), or None: sequence 0.
    logits : int8 (n,), not 0 = this token has an output, or None: only the last.
    """
    cdef public object token, embd, pos, n_seq_id, seq_id, logits
    cdef readonly bint freed
    cdef int32_t _n_tokens
    cdef object __weakref__

    def __int__(self):
        """An address that is this batch's own. There is no llama_batch behind it: one is made for every decode."""
        return <uintptr_t><void *>self

    __index__ = __int__

    @property
    def n_tokens(self):
        return self._n_tokens

    @n_tokens.setter
    def n_tokens(self, value):
        number = operator_index(value)
        if not -2**31 <= number < 2**31:
            raise ValueError(f"n_tokens must be in -2^31..2^31-1, got {number}")
        self._n_tokens = number

    def free(self):
        """Drops the arrays; the batch cannot be decoded afterwards. Any number of times."""
        self.token = self.embd = self.pos = self.n_seq_id = self.seq_id = self.logits = None
        self._n_tokens, self.freed = 0, True

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.free()

    def __repr__(self):
        given = [name for name in ("token", "embd", "pos", "n_seq_id", "seq_id", "logits") if getattr(self, name) is not None]
        return f"{type(self).__name__}({'freed' if self.freed else ', '.join([f'n_tokens={self._n_tokens}', *given])})"

    def __reduce__(self):
        raise TypeError("a batch cannot be pickled")


cdef bint is_simple(Py_buffer *view, Py_ssize_t itemsize, bytes kinds):
    """Contiguous items of this size whose format, without its byte-order mark, is one of `kinds`."""
    cdef const char *format = view.format
    if view.itemsize != itemsize or format == NULL:
        return False
    if format[0] == b"<" or format[0] == b"=" or format[0] == b"@":
        format += 1
    return format[0] != 0 and format[1] == 0 and format[0] in kinds


cdef int copy_items(object source, void *out, Py_ssize_t n, Py_ssize_t itemsize, bytes kinds, object convert, str name) except -1:
    """The first n items of a buffer or sequence into out; `convert` brings other forms into the right one."""
    cdef Py_buffer view
    cdef bint done
    try:
        PyObject_GetBuffer(source, &view, PyBUF_ND | PyBUF_FORMAT)
    except (TypeError, ValueError, BufferError):    # a sequence, or items with gaps between them
        pass
    else:
        done = is_simple(&view, itemsize, kinds) and view.len >= n * itemsize
        if done:
            memcpy(out, view.buf, n * itemsize)
        PyBuffer_Release(&view)
        if done:
            return 0
    array = convert(source, name)
    if array.size < n:
        raise ValueError(f"batch.{name} holds {array.size} values, expected n_tokens = {n}")
    PyObject_GetBuffer(array, &view, PyBUF_ND)
    memcpy(out, view.buf, n * itemsize)
    PyBuffer_Release(&view)
    return 0


cdef class NativeBatch:
    """What one decode reads: private copies of all integers, so that nothing changes below it, and a held buffer of embeddings.

    Converting a field may run Python code and other threads, which may change the batch: sizes are read once.
    """
    cdef kipu_batch b
    cdef Py_ssize_t n, width    # tokens, and ids of a row, that the block has room for
    cdef char *block
    cdef Py_buffer embd
    cdef bint has_embd

    def __dealloc__(self):
        free(self.block)
        if self.has_embd:
            PyBuffer_Release(&self.embd)

    cdef int fill(self, Batch batch, int32_t n_embd) except -1:
        if batch.freed:
            raise ValueError("the batch was freed")
        self.b.n_tokens = batch._n_tokens
        self.n = self.b.n_tokens
        source = batch.embd if batch.token is None else batch.token
        if self.n <= 0 or source is None:    # refused by the engine before it looks at an array
            return 0
        if len(source) < self.n:
            raise ValueError(f"the batch holds {len(source)} tokens, expected n_tokens = {self.n}")
        rows, lengths = None, None
        if batch.seq_id is not None:
            rows, lengths = id_rows(batch.seq_id, "seq_id")
            if len(rows) < self.n:
                raise ValueError(f"batch.seq_id has {len(rows)} rows, expected n_tokens = {self.n}")
            self.width = rows.shape[1]
        self.allocate()
        self.copy_fields(batch)
        if rows is None:
            self.b.seq_id, self.b.n_seq_id = NULL, NULL
        else:
            self.copy_rows(batch, rows, lengths)
        if batch.embd is not None:
            self.hold_embeddings(batch, n_embd)
        return 0

    cdef int allocate(self) except -1:
        """One block: row pointers, token, pos, n_seq_id, rows of ids, flags."""
        cdef Py_ssize_t n = self.n, width = self.width
        self.block = <char *>calloc(n, sizeof(void *) + (3 + width) * sizeof(int32_t) + 1)
        if self.block == NULL:
            raise MemoryError(f"no memory for a batch of {n} tokens")
        self.b.seq_id = <int32_t **>self.block
        self.b.token = <int32_t *>(self.b.seq_id + n)
        self.b.pos = self.b.token + n
        self.b.n_seq_id = self.b.pos + n
        self.b.logits = <int8_t *>(self.b.n_seq_id + n + n * width)
        return 0

    cdef int copy_fields(self, Batch batch) except -1:
        cdef Py_ssize_t n = self.n
        if batch.token is None:
            self.b.token = NULL
        else:
            copy_items(batch.token, self.b.token, n, 4, b"il", int32_array, "token")
        if batch.pos is None:
            self.b.pos = NULL
        else:
            copy_items(batch.pos, self.b.pos, n, 4, b"il", int32_array, "pos")
        if batch.logits is None:
            self.b.logits = NULL
        else:
            copy_items(batch.logits, self.b.logits, n, 1, b"bB?", flag_array, "logits")
        return 0

    cdef int copy_rows(self, Batch batch, rows, lengths) except -1:
        cdef Py_ssize_t n = self.n, width = self.width, i
        cdef int32_t *ids = self.b.n_seq_id + n
        copy_items(rows, ids, n * width, 4, b"il", int32_array, "seq_id")
        if batch.n_seq_id is not None:
            copy_items(batch.n_seq_id, self.b.n_seq_id, n, 4, b"il", int32_array, "n_seq_id")
        for i in range(n):
            self.b.seq_id[i] = ids + i * width
            if batch.n_seq_id is None:
                self.b.n_seq_id[i] = 1
            if self.b.n_seq_id[i] > lengths[i]:
                raise ValueError(f"batch.n_seq_id[{i}] is {self.b.n_seq_id[i]}, but seq_id[{i}] holds {lengths[i]} ids")
        return 0

    cdef int hold_embeddings(self, Batch batch, int32_t n_embd) except -1:
        array = float_array(batch.embd, "embd")
        if array.ndim > 1 and array.shape[array.ndim - 1] != n_embd:
            raise ValueError(f"batch.embd has rows of {array.shape[array.ndim - 1]}, expected n_embd = {n_embd}")
        if array.size < <int64_t>self.n * n_embd:
            raise ValueError(f"batch.embd holds {array.size} values, expected n_tokens * n_embd = {self.n} * {n_embd}")
        PyObject_GetBuffer(array, &self.embd, PyBUF_ND)
        self.has_embd = True
        self.b.embd = <float *>self.embd.buf
        return 0
