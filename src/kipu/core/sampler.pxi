# Samplers. A handle owns its C object, or its chain does; then the handle keeps the chain alive and the chain knows its handles weakly.

from libc.stdint cimport uint32_t

import weakref as _weakref

cdef extern from "sample/sampler.h" nogil:
    ctypedef struct kipu_token_data:
        int32_t id
        float logit
        float p
    ctypedef struct kipu_token_array:
        kipu_token_data *data
        size_t size
        int64_t selected
        c_bool sorted
    ctypedef struct kipu_sampler:
        pass
    kipu_sampler *kipu_sampler_chain()
    kipu_sampler *kipu_sampler_greedy()
    kipu_sampler *kipu_sampler_dist(uint32_t seed)
    kipu_sampler *kipu_sampler_top_k(int32_t k)
    kipu_sampler *kipu_sampler_top_p(float p, size_t min_keep)
    kipu_sampler *kipu_sampler_min_p(float p, size_t min_keep)
    kipu_sampler *kipu_sampler_temp(float t)
    void kipu_sampler_free(kipu_sampler *s)
    const char *kipu_sampler_name(const kipu_sampler *s)
    void kipu_sampler_accept(kipu_sampler *s, int32_t token)
    void kipu_sampler_apply(kipu_sampler *s, kipu_token_array *candidates)
    void kipu_sampler_reset(kipu_sampler *s)
    kipu_sampler *kipu_sampler_clone(const kipu_sampler *s)
    uint32_t kipu_sampler_seed(const kipu_sampler *s)
    kipu_status kipu_sampler_chain_add(kipu_sampler *chain, kipu_sampler *s, kipu_error *err)
    kipu_sampler *kipu_sampler_chain_get(const kipu_sampler *chain, int32_t i)
    int32_t kipu_sampler_chain_n(const kipu_sampler *chain)
    kipu_sampler *kipu_sampler_chain_remove(kipu_sampler *chain, int32_t i)
    kipu_status kipu_sampler_sample(kipu_sampler *s, const float *logits, int32_t n_vocab, int32_t *token, kipu_error *err)

_TOKEN_DATA = _np.dtype([("id", _np.int32), ("logit", _np.float32), ("p", _np.float32)])


cdef Sampler new_sampler(kipu_sampler *s):
    if s == NULL:
        raise MemoryError("no memory for a sampler")
    cdef Sampler sampler = Sampler.__new__(Sampler)
    sampler.s, sampler.owns = s, True
    sampler.handles = [None] * kipu_sampler_chain_n(s)
    return sampler


cdef class Sampler:
    """One sampler, or a chain of them that is applied in order. Made by the static methods; one thread at a time.

    A sampler that was added to a chain belongs to it: `free` on it does nothing, and freeing the chain frees it too.
    """
    cdef kipu_sampler *s
    cdef bint owns               # else a chain does
    cdef Sampler chain_of        # that chain, or None
    cdef list handles            # chains: weak references to the handles of members, in order, or None where nobody holds one
    cdef object __weakref__

    def __init__(self):
        raise TypeError("samplers are made by Sampler.chain(), Sampler.greedy(), Sampler.dist(seed), ...")

    def __dealloc__(self):
        if self.owns:
            kipu_sampler_free(self.s)

    @staticmethod
    def chain():
        return new_sampler(kipu_sampler_chain())

    @staticmethod
    def greedy():
        """Selects the first maximum."""
        return new_sampler(kipu_sampler_greedy())

    @staticmethod
    def dist(uint32_t seed=0xFFFFFFFF):
        """Draws from the softmax. 0xFFFFFFFF: another seed at every reset."""
        return new_sampler(kipu_sampler_dist(seed))

    @staticmethod
    def top_k(int32_t k):
        """Keeps the k largest, sorted. k <= 0: all."""
        return new_sampler(kipu_sampler_top_k(k))

    @staticmethod
    def top_p(float p, size_t min_keep=1):
        """Keeps the most probable up to a sum of p, at least min_keep. p >= 1: all."""
        return new_sampler(kipu_sampler_top_p(p, min_keep))

    @staticmethod
    def min_p(float p, size_t min_keep=1):
        """Keeps what is at least p times as probable as the most probable one, at least min_keep. p <= 0: all."""
        return new_sampler(kipu_sampler_min_p(p, min_keep))

    @staticmethod
    def temp(float t):
        """Divides the logits by t; t <= 0 leaves only the first maximum."""
        return new_sampler(kipu_sampler_temp(t))

    cdef kipu_sampler *get_live(self) except NULL:
        if self.s == NULL:
            raise ValueError("sampler was freed")
        return self.s

    def __int__(self):
        return <uintptr_t>self.get_live()

    __index__ = __int__

    @property
    def name(self):
        return kipu_sampler_name(self.get_live()).decode()

    @property
    def freed(self):
        return self.s == NULL

    @property
    def seed(self):
        """Seed in use (of the last member that has one); 0xFFFFFFFF: none."""
        return kipu_sampler_seed(self.get_live())

    def accept(self, int32_t token):
        """Tells the sampler which token was taken."""
        kipu_sampler_accept(self.get_live(), token)

    def reset(self):
        """Back to the state after creation."""
        kipu_sampler_reset(self.get_live())

    def clone(self):
        """A copy with the same state, in no chain."""
        return new_sampler(kipu_sampler_clone(self.get_live()))

    def apply(self, candidates):
        """Edits candidates in place.

        Parameters
        ----------
        candidates : object with data (structured array of id int32, logit float32, p float32), size, selected and sorted.
        """
        cdef kipu_sampler *s = self.get_live()
        data = candidates.data
        if getattr(data, "dtype", None) != _TOKEN_DATA or data.ndim != 1 or not data.flags.c_contiguous or not data.flags.writeable:
            raise ValueError("candidates.data must be a contiguous, writable 1-D array of (id int32, logit float32, p float32)")
        cdef int64_t size = candidates.size
        if not 0 <= size <= len(data):
            raise ValueError(f"candidates.size must be 0 to len(data) = {len(data)}, got {size}")
        if size == 0:
            return
        cdef unsigned char[::1] bytes_of = data.view(_np.uint8)
        cdef kipu_token_array a
        a.data, a.size, a.selected, a.sorted = <kipu_token_data *>&bytes_of[0], size, candidates.selected, candidates.sorted
        kipu_sampler_apply(s, &a)
        candidates.size, candidates.selected, candidates.sorted = a.size, a.selected, bool(a.sorted)

    def sample(self, logits):
        """Applies the sampler to a row of logits, float32 array of shape (n_vocab,), accepts what was selected and returns its id.

        Raises
        ------
        RuntimeError
            Nothing was selected: greedy or dist is missing.
        """
        cdef kipu_sampler *s = self.get_live()
        row = _np.ascontiguousarray(logits, _np.float32)
        if row.ndim != 1 or row.size == 0:
            raise ValueError(f"logits must have shape (n_vocab,), got {row.shape}")
        cdef const float[::1] view = row
        cdef int32_t token = 0
        cdef kipu_error err
        check(kipu_sampler_sample(s, &view[0], <int32_t>view.shape[0], &token, &err), &err)
        return token

    # ---- chains

    def __len__(self):
        return kipu_sampler_chain_n(self.get_live())

    def add(self, Sampler sampler not None):
        """Appends a sampler, which then belongs to this chain."""
        cdef kipu_error err
        check(kipu_sampler_chain_add(self.get_live(), sampler.get_live(), &err), &err)
        sampler.chain_of, sampler.owns = self, False
        self.handles.append(_weakref.ref(sampler))

    def get(self, int32_t i):
        """Member i, None if there is none."""
        cdef kipu_sampler *s = kipu_sampler_chain_get(self.get_live(), i)
        if s == NULL:
            return None
        cdef Sampler sampler = self.handles[i]() if self.handles[i] is not None else None
        if sampler is None:
            sampler = Sampler.__new__(Sampler)
            sampler.s, sampler.chain_of = s, self
            sampler.handles = [None] * kipu_sampler_chain_n(s)
            self.handles[i] = _weakref.ref(sampler)
        return sampler

    def remove(self, int32_t i):
        """Takes member i out; it belongs to the caller again. None if there is none."""
        cdef Sampler sampler = self.get(i)
        if sampler is None:
            return None
        kipu_sampler_chain_remove(self.s, i)
        sampler.chain_of, sampler.owns = None, True
        del self.handles[i]
        return sampler

    def free(self):
        """Frees the sampler and, with a chain, its members. Nothing happens to a member of a chain or to a freed sampler."""
        if self.owns:
            kipu_sampler_free(self.s)
            self.forget()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.free()

    cdef forget(self):
        """The C object is gone, and with it those of all members."""
        cdef Sampler member
        self.s, self.owns = NULL, False
        for handle in self.handles:
            member = handle() if handle is not None else None
            if member is not None:
                member.chain_of = None
                member.forget()
        self.handles = []
