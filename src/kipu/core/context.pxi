# Contexts, their memory and outputs, thread pools.
#
# ContextCore owns the C object; a method that runs without the GIL holds a reference to it, so that a free on another thread waits for
# nobody and hurts nobody. ContextHandle is what a program holds and can free.

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
import threading
from weakref import ref as weakref_ref

cdef extern from "<unistd.h>" nogil:
    int getpid()

cdef extern from "base/pool.h" nogil:
    ctypedef struct kipu_pool:
        pass
    kipu_status kipu_pool_new(kipu_pool **out, int n_threads, kipu_error *err)
    void kipu_pool_free(kipu_pool *pool)
    int kipu_pool_size(const kipu_pool *pool)

cdef extern from "memory/memory.h" nogil:
    ctypedef struct kipu_memory:
        pass
    void kipu_memory_clear(kipu_memory *m, bint data)
    kipu_status kipu_memory_seq_rm(kipu_memory *m, int32_t seq, int32_t p0, int32_t p1, c_bool *removed, kipu_error *err)
    kipu_status kipu_memory_seq_cp(kipu_memory *m, int32_t src, int32_t dst, int32_t p0, int32_t p1, kipu_error *err)
    kipu_status kipu_memory_seq_keep(kipu_memory *m, int32_t seq, kipu_error *err)
    int32_t kipu_memory_pos_min(const kipu_memory *m, int32_t seq)
    int32_t kipu_memory_pos_max(const kipu_memory *m, int32_t seq)
    int64_t kipu_memory_n_tokens(const kipu_memory *m, int32_t n_seq_max)
    uint32_t kipu_memory_used_cells(const kipu_memory *m)
    uint32_t kipu_memory_size(const kipu_memory *m)
    c_bool kipu_memory_can_shift(const kipu_memory *m)
    int32_t kipu_memory_cell_list(const kipu_memory *m, bint window, int32_t seq, int32_t *cells, int32_t capacity)
    void kipu_memory_cell(const kipu_memory *m, bint window, int32_t cell, int32_t *pos, uint64_t *seqs, int32_t *number)
    size_t kipu_memory_bytes(const kipu_memory *m)

cdef extern from "engine/context.h" nogil:
    ctypedef struct kipu_context:
        pass
    ctypedef struct kipu_context_params:
        uint32_t n_ctx, n_batch, n_ubatch, n_seq_max
        int32_t n_threads, n_threads_batch
        float rope_freq_base, rope_freq_scale, yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow
        uint32_t yarn_orig_ctx
        int32_t type_k, type_v
        c_bool causal, flash_attn, swa_full, no_perf, fused
        uint32_t n_swa, n_cells_window
    ctypedef struct kipu_perf:
        double t_start_ms, t_load_ms, t_p_eval_ms, t_eval_ms
        int32_t n_p_eval, n_eval
    ctypedef c_bool (*kipu_poll)(void *arg) noexcept nogil
    kipu_status kipu_context_new(kipu_context **out, kipu_model *model, const kipu_context_params *params, kipu_error *err)
    void kipu_context_free(kipu_context *c)
    void kipu_context_lock(kipu_context *c)
    void kipu_context_unlock(kipu_context *c)
    kipu_status kipu_context_decode(kipu_context *c, const kipu_batch *batch, int32_t *code, kipu_error *err)
    int32_t kipu_context_n_outputs(const kipu_context *c)
    float *kipu_context_logits(kipu_context *c)
    float *kipu_context_logits_ith(kipu_context *c, int32_t i, kipu_error *err)
    void *kipu_context_retain_output(kipu_context *c)
    void kipu_output_release(void *buffer)
    kipu_memory *kipu_context_memory(kipu_context *c)
    void kipu_context_set_threads(kipu_context *c, int32_t n_threads, int32_t n_threads_batch)
    void kipu_context_set_causal(kipu_context *c, bint causal)
    void kipu_context_set_pools(kipu_context *c, kipu_pool *pool, kipu_pool *pool_batch)
    void kipu_context_set_abort(kipu_context *c, kipu_poll callback, void *arg)
    void kipu_context_set_signal(kipu_context *c, kipu_poll check, void *arg)
    int32_t kipu_context_workers(const kipu_context *c)
    kipu_perf kipu_context_perf(const kipu_context *c)
    void kipu_context_perf_reset(kipu_context *c)
    kipu_status kipu_context_explain(kipu_context *c, char **text, kipu_error *err)


# ------------------------------------------------------------------------------------------------ thread pools

cdef class PoolCore:
    cdef kipu_pool *pool

    def __dealloc__(self):
        kipu_pool_free(self.pool)


cdef class Threadpool:
    """Worker threads that contexts can share, one at a time. A context that uses a pool keeps it."""
    cdef PoolCore core
    cdef object __weakref__

    def __init__(self, int n_threads):
        cdef kipu_error err
        core = PoolCore()
        check(kipu_pool_new(&core.pool, n_threads, &err), &err)
        self.core = core

    cdef PoolCore alive(self):
        if self.core is None:
            raise ValueError("the thread pool was freed")
        return self.core

    @property
    def n_threads(self):
        return kipu_pool_size(self.alive().pool)

    def free(self):
        """Gives the pool up. Any number of times."""
        self.core = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.free()

    def __int__(self):
        return <uintptr_t>self.alive().pool

    __index__ = __int__

    def __reduce__(self):
        raise TypeError("a thread pool cannot be pickled")


# ------------------------------------------------------------------------------------------------ outputs

cdef class OutputRows:
    """Result rows for the buffer protocol: float32 (n_rows, width) or (width,). The rows are never written again while this exists."""
    cdef void *owner
    cdef float *data
    cdef Py_ssize_t shape[2]
    cdef Py_ssize_t strides[2]
    cdef int ndim

    def __dealloc__(self):
        kipu_output_release(self.owner)

    def __getbuffer__(self, Py_buffer *view, int flags):
        view.buf, view.obj, view.readonly = self.data, self, 0
        view.itemsize, view.format = sizeof(float), b"f"
        view.ndim, view.shape, view.strides, view.suboffsets, view.internal = self.ndim, self.shape, self.strides, NULL, NULL
        view.len = self.shape[0] * self.strides[0]


cdef OutputRows output_rows(kipu_context *c, float *data, int ndim, Py_ssize_t n_rows, Py_ssize_t width):
    """With the lock held: keeps the current output buffer for the array to be."""
    rows = OutputRows()
    rows.owner = kipu_context_retain_output(c)
    rows.data, rows.ndim = data, ndim
    rows.shape[ndim - 1], rows.strides[ndim - 1] = width, sizeof(float)
    if ndim == 2:
        rows.shape[0], rows.strides[0] = n_rows, width * sizeof(float)
    return rows


# ------------------------------------------------------------------------------------------------ callbacks

# What the engine polls while it computes. The flags spare us the GIL where nobody waits for a call.
cdef struct Poll:
    bint has_abort, has_signals
    void *core


cdef c_bool poll_abort(void *arg) noexcept nogil:
    return (<Poll *>arg).has_abort and call_abort((<Poll *>arg).core)


cdef c_bool poll_signals(void *arg) noexcept nogil:
    return (<Poll *>arg).has_signals and call_signals((<Poll *>arg).core)


cdef c_bool call_abort(void *arg) noexcept with gil:
    core = <ContextCore>arg
    callback = core.abort_callback
    if callback is None:
        return False
    try:
        return bool(callback(core.abort_data))
    except BaseException as e:
        core.failure = e
        return True


cdef c_bool call_signals(void *arg) noexcept with gil:
    try:
        PyErr_CheckSignals()
        return False
    except BaseException as e:
        (<ContextCore>arg).failure = e
        return True


# ------------------------------------------------------------------------------------------------ the context

@no_gc_clear    # the C object uses the model until it is gone
cdef class ContextCore:
    cdef kipu_context *c
    cdef ModelCore model
    cdef object abort_callback, abort_data, pool, pool_batch
    cdef object failure         # exception of a callback in the decode that runs now
    cdef unsigned long holder   # thread that holds the lock, 0 none
    cdef int process
    cdef Poll poll

    def __dealloc__(self):
        kipu_context_free(self.c)

    cdef int enter(self) except -1:
        """Takes the context's lock."""
        if self.holder == PyThread_get_thread_ident():
            raise RuntimeError("a callback called into the context that it was called from")
        if self.process != getpid():
            raise RuntimeError("the context belongs to the process that made it and cannot be used after a fork")
        with nogil:
            kipu_context_lock(self.c)
        self.holder = PyThread_get_thread_ident()
        return 0

    cdef void leave(self):
        self.holder = 0
        kipu_context_unlock(self.c)


cdef class ContextHandle:
    """A context: memory, outputs and settings of one model. Calls take its lock; a second thread waits.

    The context of a model that was loaded with vocab_only computes nothing: it has no memory and no outputs, decode answers -1.

    Attributes
    ----------
    model : ModelHandle it was made from.
    resolved : the values it uses.
    """
    cdef ContextCore core
    cdef readonly object model, resolved
    cdef readonly int32_t n_threads, n_threads_batch
    cdef int32_t n_embd, n_vocab
    cdef object _memory
    cdef object __weakref__

    def __init__(self, ModelHandle model not None, resolved):
        """resolved: _params.ResolvedContext. Raises MemoryError, ValueError, NotImplementedError."""
        cdef kipu_context_params p
        cdef kipu_error err
        cdef kipu_status status
        core = ContextCore()
        core.model = model.alive()
        core.process = getpid()
        self.core, self.model, self.resolved = core, model, resolved
        self.n_threads, self.n_threads_batch = resolved.n_threads, resolved.n_threads_batch
        if model.vocab_only:
            return
        self.n_embd, self.n_vocab = model.hp.n_embd, model.hp.n_vocab
        cdef kipu_context **out = &core.c
        cdef kipu_model *m = core.model.m
        fill_params(&p, resolved)
        with nogil:
            status = kipu_context_new(out, m, &p, &err)
        check(status, &err)
        core.poll.core = <void *>core
        kipu_context_set_abort(core.c, poll_abort, &core.poll)
        kipu_context_set_signal(core.c, poll_signals, &core.poll)

    cdef ContextCore alive(self):
        """The C object's owner, for calls that need one."""
        self.check_alive()
        if self.core.c == NULL:
            raise RuntimeError("the model was loaded with vocab_only: its contexts compute nothing")
        return self.core

    cdef bint computes(self) except -1:
        self.check_alive()
        return self.core.c != NULL

    def free(self):
        """Gives the context up; arrays of its outputs stay valid. Any number of times."""
        self.core = None

    @property
    def freed(self):
        return self.core is None

    def check_alive(self):
        """ValueError if the context was freed."""
        if self.core is None:
            raise ValueError("the context was freed")

    # ---- compute

    def decode(self, Batch batch not None):
        """(code of llama_decode, reason unless 0). ValueError where llama.h asserts; exceptions of callbacks."""
        if not self.computes():
            return -1, "the model was loaded with vocab_only"
        cdef ContextCore core = self.alive()
        cdef kipu_error err
        cdef kipu_status status
        cdef int32_t code = 0
        native = NativeBatch()
        native.fill(batch, self.n_embd)
        cdef bint is_main = PyThread_get_thread_ident() == threading.main_thread().ident
        core.enter()    # nothing may raise from here to leave()
        core.poll.has_signals = is_main
        with nogil:
            status = kipu_context_decode(core.c, &native.b, &code, &err)
        failure, core.failure = core.failure, None
        core.leave()
        if failure is not None:
            raise failure
        check(status, &err)
        return code, "" if code == 0 else err.message.decode("utf-8", "replace")

    # ---- outputs

    def logits(self):
        """Buffer of float32 (n_outputs, n_vocab), None if the last decode had no outputs."""
        if not self.computes():
            return None
        cdef ContextCore core = self.alive()
        core.enter()
        try:
            data = kipu_context_logits(core.c)
            return None if data == NULL else output_rows(core.c, data, 2, kipu_context_n_outputs(core.c), self.n_vocab)
        finally:
            core.leave()

    def logits_ith(self, int32_t i):
        """Buffer of float32 (n_vocab,). IndexError with the reason if token i has none."""
        if not self.computes():
            raise IndexError(f"invalid logits id {i}, reason: no logits")
        cdef ContextCore core = self.alive()
        cdef kipu_error err
        core.enter()
        try:
            data = kipu_context_logits_ith(core.c, i, &err)
            if data != NULL:
                return output_rows(core.c, data, 1, 1, self.n_vocab)
        finally:
            core.leave()
        raise IndexError(err.message.decode("utf-8", "replace"))

    @property
    def n_outputs(self):
        """Rows of the last decode."""
        cdef ContextCore core = self.alive()
        core.enter()
        n = kipu_context_n_outputs(core.c)
        core.leave()
        return n

    # ---- settings

    def set_threads(self, int32_t n_threads, int32_t n_threads_batch):
        kipu_context_set_threads(self.alive().c, n_threads, n_threads_batch)
        self.n_threads, self.n_threads_batch = n_threads, n_threads_batch

    def set_causal(self, bint causal):
        cdef ContextCore core = self.alive()
        core.enter()
        kipu_context_set_causal(core.c, causal)
        core.leave()

    def set_abort(self, callback, data):
        """callback(data) -> bool, polled while computing; None: never."""
        cdef ContextCore core = self.alive()
        core.abort_callback, core.abort_data = callback, data
        core.poll.has_abort = callback is not None

    def set_pools(self, Threadpool pool, Threadpool pool_batch):
        """None: the context's own threads."""
        cdef ContextCore core = self.alive()
        cdef PoolCore first = None if pool is None else pool.alive()
        cdef PoolCore second = first if pool_batch is None else pool_batch.alive()
        core.enter()
        kipu_context_set_pools(core.c, NULL if first is None else first.pool, NULL if second is None else second.pool)
        core.pool, core.pool_batch = first, second
        core.leave()

    def synchronize(self):
        """Waits until no other thread computes."""
        cdef ContextCore core = self.alive()
        core.enter()
        core.leave()

    @property
    def workers(self):
        """Threads the last decode used."""
        cdef ContextCore core = self.alive()
        core.enter()
        n = kipu_context_workers(core.c)
        core.leave()
        return n

    def perf(self):
        """kipu_perf as a dict; times in milliseconds."""
        cdef ContextCore core = self.alive()
        core.enter()
        cdef kipu_perf perf = kipu_context_perf(core.c)
        core.leave()
        return perf

    def perf_reset(self):
        cdef ContextCore core = self.alive()
        core.enter()
        kipu_context_perf_reset(core.c)
        core.leave()

    def explain(self):
        """The plan as text, one line per step."""
        cdef ContextCore core = self.alive()
        cdef char *text = NULL
        cdef kipu_error err
        cdef kipu_status status
        core.enter()
        status = kipu_context_explain(core.c, &text, &err)
        core.leave()
        check(status, &err)
        return take_text(text)

    @property
    def memory(self):
        """The MemoryHandle, the same object as long as somebody holds it; None with vocab_only."""
        if not self.computes():
            return None
        found = None if self._memory is None else self._memory()
        if found is None:
            found = MemoryHandle(self)
            self._memory = weakref_ref(found)
        return found

    def __int__(self):
        return <uintptr_t>self.alive().c

    __index__ = __int__

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.free()

    def __reduce__(self):
        raise TypeError("a context cannot be pickled")


cdef int fill_params(kipu_context_params *p, r) except -1:
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = r.n_ctx, r.n_batch, r.n_ubatch, r.n_seq_max
    p.n_threads, p.n_threads_batch = r.n_threads, r.n_threads_batch
    p.rope_freq_base, p.rope_freq_scale = r.rope_freq_base, r.rope_freq_scale
    p.yarn_ext_factor, p.yarn_attn_factor, p.yarn_orig_ctx = r.yarn_ext_factor, r.yarn_attn_factor, r.yarn_orig_ctx
    p.yarn_beta_fast, p.yarn_beta_slow = r.yarn_beta_fast, r.yarn_beta_slow
    p.type_k, p.type_v = r.type_k, r.type_v
    p.causal, p.flash_attn, p.swa_full, p.no_perf, p.fused = r.causal, r.flash_attn, r.swa_full, r.no_perf, r.fused
    p.n_swa, p.n_cells_window = r.n_swa, r.n_cells_window
    return 0


# ------------------------------------------------------------------------------------------------ memory

cdef class MemoryHandle:
    """The memory of a context: which positions of which sequences it holds. Ranges [p0, p1); p0 < 0 means 0, p1 < 0 the end."""
    cdef readonly ContextHandle context
    cdef object __weakref__

    def __init__(self, ContextHandle context not None):
        self.context = context

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        """Nothing to free: the memory goes with its context."""

    cdef ContextCore alive(self):
        if self.context is None:
            raise ValueError("the memory has no context")
        return self.context.alive()

    cdef kipu_memory *of(self, ContextCore core):
        return kipu_context_memory(core.c)

    def clear(self, bint data=True):
        cdef ContextCore core = self.alive()
        core.enter()
        kipu_memory_clear(self.of(core), data)
        core.leave()

    def seq_rm(self, int32_t seq, int32_t p0, int32_t p1):
        cdef ContextCore core = self.alive()
        cdef kipu_error err
        cdef c_bool removed = False
        core.enter()
        status = kipu_memory_seq_rm(self.of(core), -1 if seq < 0 else seq, p0, p1, &removed, &err)
        core.leave()
        check(status, &err)
        return bool(removed)

    def seq_cp(self, int32_t src, int32_t dst, int32_t p0, int32_t p1):
        cdef ContextCore core = self.alive()
        cdef kipu_error err
        core.enter()
        status = kipu_memory_seq_cp(self.of(core), src, dst, p0, p1, &err)
        core.leave()
        check(status, &err)

    def seq_keep(self, int32_t seq):
        cdef ContextCore core = self.alive()
        cdef kipu_error err
        core.enter()
        status = kipu_memory_seq_keep(self.of(core), seq, &err)
        core.leave()
        check(status, &err)

    def seq_pos_min(self, int32_t seq):
        """Smallest position of the sequence, -1 if it has none."""
        cdef ContextCore core = self.alive()
        check_sequence(seq)
        core.enter()
        pos = kipu_memory_pos_min(self.of(core), seq)
        core.leave()
        return pos

    def seq_pos_max(self, int32_t seq):
        """Largest position of the sequence, -1 if it has none."""
        cdef ContextCore core = self.alive()
        check_sequence(seq)
        core.enter()
        pos = kipu_memory_pos_max(self.of(core), seq)
        core.leave()
        return pos

    def n_tokens(self, int32_t n_seq_max):
        """Sum over sequences 0..n_seq_max-1 of pos_max - pos_min + 1."""
        cdef ContextCore core = self.alive()
        core.enter()
        n = kipu_memory_n_tokens(self.of(core), n_seq_max)
        core.leave()
        return n

    def can_shift(self):
        cdef ContextCore core = self.alive()
        core.enter()
        answer = kipu_memory_can_shift(self.of(core))
        core.leave()
        return bool(answer)

    def bytes_in_use(self):
        """Bytes of rows that are allocated now."""
        cdef ContextCore core = self.alive()
        core.enter()
        n = kipu_memory_bytes(self.of(core))
        core.leave()
        return n

    def cell_sequences(self, bint window):
        """For every filled cell of the base or the window cache the number of its sequences, in file order."""
        cdef ContextCore core = self.alive()
        cdef int32_t capacity = self.context.resolved.n_ctx, n, i, pos, number
        cdef uint64_t seqs
        cdef int32_t *cells = <int32_t *>calloc(capacity, sizeof(int32_t))
        if cells == NULL:
            raise MemoryError("no memory for a list of cells")
        core.enter()
        try:
            n = kipu_memory_cell_list(self.of(core), window, -1, cells, capacity)
            counts = []
            for i in range(n):
                kipu_memory_cell(self.of(core), window, cells[i], &pos, &seqs, &number)
                counts.append(int(seqs).bit_count())
            return counts
        finally:
            core.leave()
            free(cells)

    def __int__(self):
        return <uintptr_t>self.of(self.alive())

    __index__ = __int__

    def __reduce__(self):
        raise TypeError("a memory cannot be pickled")


cdef int check_sequence(int32_t seq) except -1:
    if not 0 <= seq < 64:
        raise ValueError(f"seq_id must be in 0..63, got {seq}")
    return 0
