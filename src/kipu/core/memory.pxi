# A stand-alone memory for tests: kipu._core.MemoryProbe. Not part of any API.
# The C names get an underscore here, so that other parts of _core may declare them in their own way.

from libc.stdint cimport uint64_t as _m_set, uintptr_t as _m_address
from libc.stdlib cimport calloc as _m_calloc, free as _m_release
from libc.string cimport memcpy as _m_memcpy

cdef extern from "<stdbool.h>":
    ctypedef unsigned char _m_bool "bool"

cdef extern from "base/error.h":
    ctypedef struct _m_error "kipu_error":
        int status
        char message[256]

cdef extern from "base/memory_alloc.h":
    void _m_fail_after "kipu_alloc_fail_after"(long n)
    void _m_fail_once "kipu_alloc_fail_once"(long n)

cdef extern from "ops/kv_view.h":
    ctypedef struct _m_layer_view "kipu_kv_layer":
        int n_embd_k, n_embd_v, type_k, type_v
    ctypedef struct _m_span "kipu_kv_span":
        int pos, round, block
        unsigned short lanes
        int cells[16]
    ctypedef struct _m_spans "kipu_kv_spans":
        const _m_span *span
        int count
    size_t _m_element "kipu_kv_element"(int type)
    char *_m_k_block "kipu_kv_k_block"(const _m_layer_view *l, int block)
    char *_m_v_row "kipu_kv_v_row"(const _m_layer_view *l, int cell)

cdef extern from "memory/memory.h":
    ctypedef struct _m_memory "kipu_memory":
        pass
    ctypedef struct _m_layer "kipu_memory_layer":
        int n_embd_k, n_embd_v
        bint window
    ctypedef struct _m_params "kipu_memory_params":
        unsigned int n_cells, n_cells_window, n_swa
        int type_k, type_v, n_layer
        const _m_layer *layers
    ctypedef struct _m_ubatch "kipu_memory_ubatch":
        int n
        const int *pos
        const _m_set *seqs
    int _m_new "kipu_memory_new"(_m_memory **out, const _m_params *params, _m_error *err) nogil
    void _m_free "kipu_memory_free"(_m_memory *m) nogil
    void _m_clear "kipu_memory_clear"(_m_memory *m, bint data) nogil
    int _m_rm "kipu_memory_seq_rm"(_m_memory *m, int seq, int p0, int p1, _m_bool *removed, _m_error *err) nogil
    int _m_cp "kipu_memory_seq_cp"(_m_memory *m, int src, int dst, int p0, int p1, _m_error *err) nogil
    int _m_keep "kipu_memory_seq_keep"(_m_memory *m, int seq, _m_error *err) nogil
    int _m_pos_min "kipu_memory_pos_min"(const _m_memory *m, int seq) nogil
    int _m_pos_max "kipu_memory_pos_max"(const _m_memory *m, int seq) nogil
    long long _m_n_tokens "kipu_memory_n_tokens"(const _m_memory *m, int n_seq_max) nogil
    unsigned int _m_used "kipu_memory_used_cells"(const _m_memory *m) nogil
    unsigned int _m_size "kipu_memory_size"(const _m_memory *m) nogil
    bint _m_can_shift "kipu_memory_can_shift"(const _m_memory *m) nogil
    int _m_fit "kipu_memory_fit"(_m_memory *m, const _m_ubatch *ubatches, int count, _m_error *err) nogil
    int _m_place "kipu_memory_place"(_m_memory *m, const _m_ubatch *ubatch, _m_error *err) nogil
    void _m_undo "kipu_memory_undo"(_m_memory *m) nogil
    const int *_m_cells "kipu_memory_cells"(const _m_memory *m, int il) nogil
    const _m_layer_view *_m_view "kipu_memory_layer_view"(const _m_memory *m, int il) nogil
    int _m_get_spans "kipu_memory_spans"(_m_memory *m, int il, _m_set seqs, const _m_spans **spans, _m_error *err) nogil
    int _m_mask "kipu_memory_mask"(const _m_memory *m, bint window, const _m_ubatch *ubatch, bint causal, int pad, float *mask,
                                   int *n_kv, int *n_rows, _m_error *err) nogil
    int _m_cell_list "kipu_memory_cell_list"(const _m_memory *m, bint window, int seq, int *cells, int capacity) nogil
    void _m_cell "kipu_memory_cell"(const _m_memory *m, bint window, int cell, int *pos, _m_set *seqs, int *number) nogil
    void _m_read_row "kipu_memory_read_row"(const _m_memory *m, int il, bint v, int cell, void *row) nogil
    void _m_write_row "kipu_memory_write_row"(_m_memory *m, int il, bint v, int cell, const void *row) nogil
    size_t _m_bytes "kipu_memory_bytes"(const _m_memory *m) nogil


cdef class _MemoryTokens:
    """Ubatches in C layout from lists of (position, set of sequences as bits)."""
    cdef _m_ubatch *ubatch
    cdef int count
    cdef int *pos
    cdef _m_set *seqs

    def __cinit__(self, ubatches):
        cdef int at = 0
        n = sum(len(tokens) for tokens in ubatches)
        self.count = len(ubatches)
        self.ubatch = <_m_ubatch *>_m_calloc(self.count + 1, sizeof(_m_ubatch))
        self.pos = <int *>_m_calloc(n + 1, sizeof(int))
        self.seqs = <_m_set *>_m_calloc(n + 1, sizeof(_m_set))
        if not (self.ubatch and self.pos and self.seqs):
            raise MemoryError("no memory for the tokens")
        for k, tokens in enumerate(ubatches):
            self.ubatch[k].n = len(tokens)
            self.ubatch[k].pos = self.pos + at
            self.ubatch[k].seqs = self.seqs + at
            for p, s in tokens:
                self.pos[at] = p
                self.seqs[at] = s
                at += 1

    def __dealloc__(self):
        _m_release(self.ubatch)
        _m_release(self.pos)
        _m_release(self.seqs)


cdef class MemoryProbe:
    """A kipu_memory of its own.

    Operations return the status as an int (0 is KIPU_OK); `message` keeps the text of the last failure. Sets of sequences are ints, one
    bit per id. Layers are (n_embd_k, n_embd_v, window). Not safe for use from several threads at once.
    """
    cdef _m_memory *m
    cdef _m_error err
    cdef int n_placed
    cdef readonly int n_layer

    def __cinit__(self, n_cells, n_cells_window=0, n_swa=0, type_k=1, type_v=1, layers=((32, 32, False),)):
        cdef _m_params p
        cdef _m_layer *rows = <_m_layer *>_m_calloc(len(layers) + 1, sizeof(_m_layer))
        if not rows:
            raise MemoryError("no memory for the layers")
        try:
            for i, (k, v, window) in enumerate(layers):
                rows[i].n_embd_k, rows[i].n_embd_v, rows[i].window = k, v, window
            p.n_cells, p.n_cells_window, p.n_swa, p.type_k, p.type_v = n_cells, n_cells_window, n_swa, type_k, type_v
            p.n_layer, p.layers = len(layers), rows
            status = _m_new(&self.m, &p, &self.err)
        finally:
            _m_release(rows)
        if status:
            raise (MemoryError if status == 2 else ValueError)(self.message)
        self.n_layer = len(layers)

    def __dealloc__(self):
        _m_free(self.m)

    @staticmethod
    def fail_after(long n):
        """The n-th allocation from now on and all after it fail; -1 ends this."""
        _m_fail_after(n)

    @staticmethod
    def fail_once(long n):
        """Only the n-th allocation from now on fails; -1 ends this."""
        _m_fail_once(n)

    @property
    def message(self):
        return (<bytes>self.err.message).decode()

    def clear(self, data=True):
        _m_clear(self.m, data)

    def rm(self, int seq, int p0, int p1):
        """(status, removed)"""
        cdef _m_bool removed = 0
        status = _m_rm(self.m, seq, p0, p1, &removed, &self.err)
        return status, removed != 0

    def cp(self, int src, int dst, int p0, int p1):
        return _m_cp(self.m, src, dst, p0, p1, &self.err)

    def keep(self, int seq):
        return _m_keep(self.m, seq, &self.err)

    def pos_min(self, int seq):
        return _m_pos_min(self.m, seq)

    def pos_max(self, int seq):
        return _m_pos_max(self.m, seq)

    def n_tokens(self, int n_seq_max):
        return _m_n_tokens(self.m, n_seq_max)

    def used_cells(self):
        return _m_used(self.m)

    def size(self):
        return _m_size(self.m)

    def can_shift(self):
        return bool(_m_can_shift(self.m))

    def bytes(self):
        return _m_bytes(self.m)

    def fit(self, ubatches):
        cdef _MemoryTokens t = _MemoryTokens(ubatches)
        return _m_fit(self.m, t.ubatch, t.count, &self.err)

    def place(self, tokens):
        cdef _MemoryTokens t = _MemoryTokens([tokens])
        status = _m_place(self.m, t.ubatch, &self.err)
        if status == 0:
            self.n_placed = t.ubatch[0].n
        return status

    def place_seconds(self, tokens, clock):
        """Seconds per call of place when the tokens go in one by one (benchmarks)."""
        cdef _MemoryTokens t = _MemoryTokens([[token] for token in tokens])
        cdef int k, status = 0
        start = clock()
        for k in range(t.count):
            status |= _m_place(self.m, t.ubatch + k, &self.err)
        if status:
            raise RuntimeError(self.message)
        self.n_placed = 1
        return (clock() - start) / max(t.count, 1)

    def undo(self):
        _m_undo(self.m)

    def cells(self, int il):
        """The cells of the last placed ubatch."""
        self._check(il, 0)
        cdef const int *c = _m_cells(self.m, il)
        return [c[i] for i in range(self.n_placed)]

    def spans(self, int il, int seq):
        """[(pos, round, block, lanes, cells)] of one sequence."""
        cdef const _m_spans *s
        if not 0 <= seq < 64:
            raise ValueError(f"seq must be in [0, 64), got {seq}")
        if _m_get_spans(self.m, il, <_m_set>1 << seq, &s, &self.err):
            raise ValueError(self.message)
        return [(s[seq].span[i].pos, s[seq].span[i].round, s[seq].span[i].block, s[seq].span[i].lanes,
                 [s[seq].span[i].cells[k] for k in range(16)]) for i in range(s[seq].count)]

    def mask(self, window, tokens, causal=True, int pad=32):
        """(floats as a bytearray, n_rows, n_kv)"""
        cdef _MemoryTokens t = _MemoryTokens([tokens])
        cdef int n_kv = 0, n_rows = 0
        if _m_mask(self.m, window, t.ubatch, causal, pad, NULL, &n_kv, &n_rows, &self.err):
            raise ValueError(self.message)
        values = bytearray(n_rows * n_kv * 4)
        cdef unsigned char[::1] view = values
        if n_rows * n_kv and _m_mask(self.m, window, t.ubatch, causal, pad, <float *>&view[0], &n_kv, &n_rows, &self.err):
            raise ValueError(self.message)
        return values, n_rows, n_kv

    def cell_list(self, window, int seq=-1):
        cdef int n = _m_cell_list(self.m, window, seq, NULL, 0)
        cdef int *c = <int *>_m_calloc(n + 1, sizeof(int))
        if not c:
            raise MemoryError("no memory for the list of cells")
        _m_cell_list(self.m, window, seq, c, n)
        cells = [c[i] for i in range(n)]
        _m_release(c)
        return cells

    def cell(self, window, int cell):
        """(pos, seqs, number), -1, 0, -1 where empty"""
        cdef int pos, number
        cdef _m_set seqs
        _m_cell(self.m, window, cell, &pos, &seqs, &number)
        return pos, seqs, number

    def read_row(self, int il, v, int cell):
        self._check(il, 0)
        row = bytearray(self._row_bytes(il, v))
        cdef unsigned char[::1] view = row
        _m_read_row(self.m, il, v, cell, &view[0])
        return bytes(row)

    def write_row(self, int il, v, int cell, const unsigned char[::1] row):
        self._check(il, 0)
        if len(row) != self._row_bytes(il, v):
            raise ValueError(f"a row has {self._row_bytes(il, v)} bytes, got {len(row)}")
        _m_write_row(self.m, il, v, cell, &row[0])

    def locations(self, int il, v, int cell):
        """Addresses of the row's elements as attention finds them. The cell is filled."""
        self._check(il, cell)
        cdef const _m_layer_view *l = _m_view(self.m, il)
        cdef size_t element = _m_element(l.type_v if v else l.type_k)
        cdef _m_address at
        if v:
            at = <_m_address>_m_v_row(l, cell)
            return [at + i * element for i in range(l.n_embd_v)]
        at = <_m_address>_m_k_block(l, cell // 16)
        return [at + (i * 16 + cell % 16) * element for i in range(l.n_embd_k)]

    def poke(self, int il, v, int cell, const unsigned char[::1] row):
        """Writes a row element by element at its locations."""
        cdef size_t element = self._row_element(il, v), i
        cdef _m_address at
        if len(row) != self._row_bytes(il, v):
            raise ValueError(f"a row has {self._row_bytes(il, v)} bytes, got {len(row)}")
        for i, where in enumerate(self.locations(il, v, cell)):
            at = where
            _m_memcpy(<void *>at, &row[i * element], element)

    def _row_element(self, int il, v):
        self._check(il, 0)
        cdef const _m_layer_view *l = _m_view(self.m, il)
        return _m_element(l.type_v if v else l.type_k)

    def _row_bytes(self, int il, v):
        cdef const _m_layer_view *l = _m_view(self.m, il)
        return self._row_element(il, v) * (l.n_embd_v if v else l.n_embd_k)

    def _check(self, int il, int cell):
        if not 0 <= il < self.n_layer:
            raise ValueError(f"layer must be in [0, {self.n_layer}), got {il}")
        if cell < 0:
            raise ValueError(f"cell must be >= 0, got {cell}")
