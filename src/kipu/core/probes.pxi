# Private hooks for the tests: one kernel of a chosen tier over contiguous buffers. Sizes are checked, so a wrong test raises instead of
# crashing. Layouts and arithmetic: csrc/kernels/kernels.h. Nothing else in kipu calls these.

from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t

cdef extern from "quants/formats.h" nogil:
    ctypedef struct _format "kipu_format":
        const char *name
        uint16_t block
        uint16_t bytes
    const _format *_format_of "kipu_format_of"(int type)
    size_t _row_bytes "kipu_row_bytes"(int type, int64_t k)

cdef extern from "base/memory_alloc.h" nogil:
    void *_scratch_alloc "kipu_alloc"(size_t size)
    void _scratch_free "kipu_free"(void *p)

cdef extern from "kernels/ref/math_ref.h" nogil:
    float _exp_of "kipu_exp"(float x)
    float _tanh_of "kipu_tanh"(float x)

cdef extern from "kernels/kernels.h" nogil:
    enum:
        KIPU_GEMM_SCRATCH, KIPU_ATTN_SCRATCH
    ctypedef struct _acts "kipu_acts":
        int32_t n
        int32_t k
        const float *x
        const int8_t *q
        const float *d
        const int32_t *s
    ctypedef struct _matmul "kipu_matmul_kernels":
        void (*decode)(float *out, const void *row, int64_t k)
        void (*pack)(void *panel, const void *rows, int n_rows, int64_t k)
        void (*unpack)(void *row, const void *panel, int lane, int64_t k)
        void (*gemv)(float *y, const void *panels, int n_panels, const _acts *a, int token)
        void (*gemm)(float *y, const void *panels, int n_panels, const _acts *a, int t0, int nt, void *scratch)
        int gemm_panels
    ctypedef struct _attn_chunk "kipu_attn_chunk":
        const void *k[4]
        const void *v[4]
        size_t v_stride
        uint64_t present
    ctypedef struct _attn_head "kipu_attn_head":
        int32_t d_k, d_v, type_k, type_v
        float scale, softcap
    ctypedef struct _table "kipu_kernels":
        const _matmul *matmul[40]
        void (*quantize)(int8_t *q, float *d, int32_t *s, const float *x, int64_t k)
        void (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps)
        void (*rope_norm)(float *x, const float *cos, const float *sin, int n_rot)
        void (*rope_neox)(float *x, const float *cos, const float *sin, int n_rot)
        void (*swiglu)(float *y, const float *gate, const float *up, int64_t n)
        void (*geglu)(float *y, const float *gate, const float *up, int64_t n)
        void (*add)(float *y, const float *a, const float *b, int64_t n)
        void (*scale)(float *y, const float *x, float s, int64_t n)
        void (*softcap)(float *y, const float *x, float c, int64_t n)
        void (*to_half)(uint16_t *y, const float *x, int64_t n)
        void (*from_half)(float *y, const uint16_t *x, int64_t n)
        int64_t (*argmax)(const float *x, int64_t n)
        void (*attention)(float *m, float *l, float *o, const float *q, const uint64_t *mask, int n_rows, const _attn_head *head,
                          const _attn_chunk *chunk, void *scratch)
        void (*attention_merge)(float *m, float *l, float *o, const float *m2, const float *l2, const float *o2, int n_rows, int32_t d_v)
    const _table *_table_of "kipu_kernels_of"(kipu_tier tier)


cdef const _table *_kernels_named(str tier) except NULL:
    cdef int t
    for t in range(<int>KIPU_TIER_COUNT):
        if kipu_tier_name(<kipu_tier>t).decode() == tier and _table_of(<kipu_tier>t) != NULL:
            return _table_of(<kipu_tier>t)
    raise ValueError(f"no tier '{tier}' here")


cdef const _matmul *_matmul_named(str tier, int type) except NULL:
    if _format_of(type) == NULL or _kernels_named(tier).matmul[type] == NULL:
        raise ValueError(f"type {type} has no kernels in tier '{tier}'")
    return _kernels_named(tier).matmul[type]


cdef int _need(str what, Py_ssize_t got, Py_ssize_t expected) except -1:
    if got != expected:
        raise ValueError(f"{what}: got {got} elements, expected {expected}")
    return 0


cdef size_t _bytes_of_row(int type, int64_t k) except? 0:
    cdef size_t size = _row_bytes(type, k)
    if size == 0:
        raise ValueError(f"type {type} has no rows of {k} elements")
    return size


# ------------------------------------------------------------------------------- formats

def _kernel_format(int type):
    """(name, elements per block, bytes per block), or None for an unknown type."""
    cdef const _format *f = _format_of(type)
    return (f.name.decode(), f.block, f.bytes) if f != NULL else None


def _kernel_row_bytes(int type, int64_t k):
    return _row_bytes(type, k)


def _kernel_types(str tier):
    """Type ids that have matrix kernels in this tier."""
    cdef const _table *k = _kernels_named(tier)
    return [t for t in range(40) if k.matmul[t] != NULL]


def _kernel_decode(str tier, int type, float[::1] out, const uint8_t[::1] row):
    cdef const _matmul *m = _matmul_named(tier, type)
    _need("row", row.shape[0], _bytes_of_row(type, out.shape[0]))
    m.decode(&out[0], &row[0], out.shape[0])


def _kernel_pack(str tier, int type, uint8_t[::1] panel, const uint8_t[::1] rows, int n_rows, int64_t k):
    cdef const _matmul *m = _matmul_named(tier, type)
    cdef size_t row_bytes = _bytes_of_row(type, k)
    if not 1 <= n_rows <= 16:
        raise ValueError(f"n_rows must be 1..16, got {n_rows}")
    _need("panel", panel.shape[0], 16 * row_bytes)
    _need("rows", rows.shape[0], n_rows * row_bytes)
    m.pack(&panel[0], &rows[0], n_rows, k)


def _kernel_unpack(str tier, int type, uint8_t[::1] row, const uint8_t[::1] panel, int lane, int64_t k):
    cdef const _matmul *m = _matmul_named(tier, type)
    cdef size_t row_bytes = _bytes_of_row(type, k)
    if not 0 <= lane < 16:
        raise ValueError(f"lane must be 0..15, got {lane}")
    _need("row", row.shape[0], row_bytes)
    _need("panel", panel.shape[0], 16 * row_bytes)
    m.unpack(&row[0], &panel[0], lane, k)


# ------------------------------------------------------------------------------- products

cdef _acts _acts_of_floats(const float[::1] x, int64_t k) except *:
    cdef _acts a
    _need("x", x.shape[0] % k, 0)
    a.n, a.k, a.x, a.q, a.d, a.s = <int32_t>(x.shape[0] // k), <int32_t>k, &x[0], NULL, NULL, NULL
    return a


cdef _acts _acts_of_codes(const int8_t[::1] q, const float[::1] d, const int32_t[::1] s, int64_t k) except *:
    cdef _acts a
    _need("q", q.shape[0] % k, 0)
    _need("d", d.shape[0], q.shape[0] // 32)
    _need("s", s.shape[0], q.shape[0] // 32)
    a.n, a.k, a.x, a.q, a.d, a.s = <int32_t>(q.shape[0] // k), <int32_t>k, NULL, &q[0], &d[0], &s[0]
    return a


def _kernel_matmul(str tier, int type, float[::1] y, const uint8_t[::1] panels, acts, int64_t k, int t0, int nt, bint gemv=False):
    """acts: x for float types, (q, d, s) for quantised ones, all flat. y: [panel][nt][16]. gemv: token by token, nt must be 1."""
    cdef const _matmul *m = _matmul_named(tier, type)
    cdef size_t panel_bytes = 16 * _bytes_of_row(type, k)
    cdef int n_panels = <int>(panels.shape[0] // panel_bytes)
    cdef _acts a = _acts_of_codes(acts[0], acts[1], acts[2], k) if isinstance(acts, tuple) else _acts_of_floats(acts, k)
    cdef void *scratch
    if isinstance(acts, tuple) != (_format_of(type).block > 1):
        raise ValueError("float types take x, quantised types (q, d, s)")
    if t0 < 0 or nt < 1 or t0 + nt > a.n or (gemv and nt != 1):
        raise ValueError(f"tokens {t0} .. {t0 + nt} of {a.n}")
    _need("panels", panels.shape[0], n_panels * panel_bytes)
    _need("y", y.shape[0], <Py_ssize_t>n_panels * nt * 16)
    if gemv:
        m.gemv(&y[0], &panels[0], n_panels, &a, t0)
        return
    scratch = _scratch_alloc(KIPU_GEMM_SCRATCH)
    if scratch == NULL:
        raise MemoryError
    m.gemm(&y[0], &panels[0], n_panels, &a, t0, nt, scratch)
    _scratch_free(scratch)


def _kernel_quantize(str tier, int8_t[::1] q, float[::1] d, int32_t[::1] s, const float[::1] x):
    _need("x", x.shape[0] % 32, 0)
    _need("q", q.shape[0], x.shape[0])
    _need("d", d.shape[0], x.shape[0] // 32)
    _need("s", s.shape[0], x.shape[0] // 32)
    _kernels_named(tier).quantize(&q[0], &d[0], &s[0], &x[0], x.shape[0])


# ------------------------------------------------------------------------------- vectors

def _kernel_rms_norm(str tier, float[::1] y, const float[::1] x, const float[::1] w, float eps):
    """w: None for no weights."""
    _need("y", y.shape[0], x.shape[0])
    if w is not None:
        _need("w", w.shape[0], x.shape[0])
    _kernels_named(tier).rms_norm(&y[0], &x[0], &w[0] if w is not None else NULL, x.shape[0], eps)


def _kernel_rope(str tier, float[::1] x, const float[::1] cos, const float[::1] sin, bint neox):
    """In place on one head; n_rot = 2 len(cos)."""
    cdef const _table *k = _kernels_named(tier)
    _need("sin", sin.shape[0], cos.shape[0])
    if x.shape[0] < 2 * cos.shape[0]:
        raise ValueError("x is shorter than n_rot")
    (k.rope_neox if neox else k.rope_norm)(&x[0], &cos[0], &sin[0], <int>(2 * cos.shape[0]))


def _kernel_pairwise(str tier, str name, float[::1] y, const float[::1] a, const float[::1] b):
    """name: swiglu, geglu or add."""
    cdef const _table *k = _kernels_named(tier)
    _need("y", y.shape[0], a.shape[0])
    _need("b", b.shape[0], a.shape[0])
    if name == "swiglu":
        k.swiglu(&y[0], &a[0], &b[0], a.shape[0])
    elif name == "geglu":
        k.geglu(&y[0], &a[0], &b[0], a.shape[0])
    elif name == "add":
        k.add(&y[0], &a[0], &b[0], a.shape[0])
    else:
        raise ValueError(f"no kernel '{name}'")


def _kernel_factor(str tier, str name, float[::1] y, const float[::1] x, float f):
    """name: scale or softcap."""
    cdef const _table *k = _kernels_named(tier)
    _need("y", y.shape[0], x.shape[0])
    if name == "scale":
        k.scale(&y[0], &x[0], f, x.shape[0])
    elif name == "softcap":
        k.softcap(&y[0], &x[0], f, x.shape[0])
    else:
        raise ValueError(f"no kernel '{name}'")


def _kernel_to_half(str tier, uint16_t[::1] y, const float[::1] x):
    _need("y", y.shape[0], x.shape[0])
    _kernels_named(tier).to_half(&y[0], &x[0], x.shape[0])


def _kernel_from_half(str tier, float[::1] y, const uint16_t[::1] x):
    _need("y", y.shape[0], x.shape[0])
    _kernels_named(tier).from_half(&y[0], &x[0], x.shape[0])


def _kernel_argmax(str tier, const float[::1] x):
    return _kernels_named(tier).argmax(&x[0], x.shape[0])


def _kernel_math(str name, float[::1] y, const float[::1] x):
    """kipu_exp or kipu_tanh, element by element."""
    cdef Py_ssize_t i
    _need("y", y.shape[0], x.shape[0])
    if name == "exp":
        for i in range(x.shape[0]):
            y[i] = _exp_of(x[i])
    elif name == "tanh":
        for i in range(x.shape[0]):
            y[i] = _tanh_of(x[i])
    else:
        raise ValueError(f"no function '{name}'")


# ------------------------------------------------------------------------------- attention

cdef const void *_block_of(const uint8_t[::1] block, Py_ssize_t size) except? NULL:
    if block is None:
        return NULL
    if block.shape[0] < size:
        raise ValueError(f"block of {block.shape[0]} bytes, expected {size}")
    return &block[0]


def _kernel_attention(str tier, float[::1] m, float[::1] l, float[::1] o, const float[::1] q, const uint64_t[::1] mask, tuple head,
                      list k_blocks, list v_blocks, size_t v_stride, uint64_t present):
    """One step. head: (d_k, d_v, type_k, type_v, scale, softcap), types 0 (F32) or 1 (F16); blocks: four byte arrays or None each."""
    cdef _attn_head h
    cdef _attn_chunk c
    cdef int i, n_rows = <int>mask.shape[0]
    cdef void *scratch
    h.d_k, h.d_v, h.type_k, h.type_v, h.scale, h.softcap = head
    if h.d_k < 1 or h.d_v < 1 or h.type_k not in (0, 1) or h.type_v not in (0, 1):
        raise ValueError(f"head {head}")
    _need("m", m.shape[0], n_rows)
    _need("l", l.shape[0], n_rows)
    _need("o", o.shape[0], n_rows * h.d_v)
    _need("q", q.shape[0], n_rows * h.d_k)
    for i in range(4):
        c.k[i] = _block_of(k_blocks[i], 16 * h.d_k * (2 if h.type_k else 4))
        c.v[i] = _block_of(v_blocks[i], 15 * v_stride + h.d_v * (2 if h.type_v else 4))
        if present >> 16 * i & 0xffff and (c.k[i] == NULL or c.v[i] == NULL):
            raise ValueError(f"block {i} is missing")
    c.v_stride = v_stride
    c.present = present
    scratch = _scratch_alloc(KIPU_ATTN_SCRATCH)
    if scratch == NULL:
        raise MemoryError
    _kernels_named(tier).attention(&m[0], &l[0], &o[0], &q[0], &mask[0], n_rows, &h, &c, scratch)
    _scratch_free(scratch)


def _kernel_attention_merge(str tier, float[::1] m, float[::1] l, float[::1] o, const float[::1] m2, const float[::1] l2,
                            const float[::1] o2):
    cdef int n_rows = <int>m.shape[0]
    _need("l", l.shape[0], n_rows)
    _need("m2", m2.shape[0], n_rows)
    _need("l2", l2.shape[0], n_rows)
    _need("o", o.shape[0] % n_rows, 0)
    _need("o2", o2.shape[0], o.shape[0])
    _kernels_named(tier).attention_merge(&m[0], &l[0], &o[0], &m2[0], &l2[0], &o2[0], n_rows, <int32_t>(o.shape[0] // n_rows))
