# Vocabularies: token table, tokenizer, detokenizer. The C object is immutable, so nothing here takes a lock.

from libc.stdint cimport int32_t, int64_t, uintptr_t

import os as _os

import numpy as _np

cdef extern from "<stdbool.h>" nogil:
    ctypedef bint c_bool "bool"

cdef extern from "text/vocab.h" nogil:
    ctypedef struct kipu_vocab:
        pass
    ctypedef struct kipu_vocab_source:
        pass
    ctypedef enum kipu_special:
        KIPU_SPECIAL_COUNT
    ctypedef void (*kipu_vocab_warn)(void *arg, int level, const char *message) noexcept nogil
    kipu_status kipu_vocab_new(kipu_vocab **out, const kipu_vocab_source *source, kipu_vocab_warn warn, void *warn_arg, kipu_error *err)
    void kipu_vocab_free(kipu_vocab *v)
    int kipu_vocab_type(const kipu_vocab *v)
    int32_t kipu_vocab_size(const kipu_vocab *v)
    kipu_text kipu_vocab_text(const kipu_vocab *v, int32_t token)
    float kipu_vocab_score(const kipu_vocab *v, int32_t token)
    int kipu_vocab_attr(const kipu_vocab *v, int32_t token)
    c_bool kipu_vocab_is_eog(const kipu_vocab *v, int32_t token)
    c_bool kipu_vocab_is_control(const kipu_vocab *v, int32_t token)
    int32_t kipu_vocab_special(const kipu_vocab *v, kipu_special which)
    c_bool kipu_vocab_add_bos(const kipu_vocab *v)
    c_bool kipu_vocab_add_eos(const kipu_vocab *v)
    c_bool kipu_vocab_add_sep(const kipu_vocab *v)
    c_bool kipu_vocab_add_space_prefix(const kipu_vocab *v)
    kipu_status kipu_tokenize(const kipu_vocab *v, const char *text, size_t size, int32_t *tokens, int64_t capacity, int64_t *n_out,
                              c_bool add_special, c_bool parse_special, kipu_error *err)
    kipu_status kipu_token_to_piece(const kipu_vocab *v, int32_t token, char *out, int64_t size, int32_t lstrip, c_bool special,
                                    int64_t *needed, kipu_error *err)
    kipu_status kipu_detokenize(const kipu_vocab *v, const int32_t *tokens, int64_t n, char *out, int64_t size, c_bool remove_special,
                                c_bool unparse_special, int64_t *needed, kipu_error *err)

cdef extern from "engine/gguf.h" nogil:
    kipu_vocab_source kipu_gguf_vocab_source(kipu_gguf *g)

# In the order of kipu_special.
cdef tuple _SPECIALS = ("bos", "eos", "eot", "eom", "unk", "sep", "pad", "mask", "nl",
                        "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")


cdef void note_vocab_warning(void *arg, int level, const char *message) noexcept with gil:
    if arg != NULL:
        (<list>arg).append(message.decode("utf-8", "replace"))


cdef class Vocab:
    """The vocabulary of a model.

    Made by a model (which it keeps alive) or by `from_file`. Immutable; any thread.
    """
    cdef const kipu_vocab *v
    cdef kipu_vocab *own        # freed with this object; NULL if `owner` has the C object
    cdef object owner
    cdef object __weakref__

    def __init__(self):
        raise TypeError("vocabularies are made by models and by Vocab.from_file(path)")

    def __dealloc__(self):
        kipu_vocab_free(self.own)

    cdef const kipu_vocab *get_live(self) except NULL:
        if self.v == NULL:
            raise ValueError("vocabulary was never made")
        return self.v

    @staticmethod
    def from_file(path, list warnings=None):
        """The vocabulary of a GGUF file, without its weights.

        Parameters
        ----------
        path : str, bytes or os.PathLike.
        warnings : list, gets what is doubtful in the metadata, one str each.

        Raises
        ------
        OSError, ValueError, MemoryError
        """
        cdef bytes name = _os.fsencode(path)
        cdef const char *c_name = name
        cdef kipu_gguf *g = NULL
        cdef kipu_error err
        cdef kipu_status status
        with nogil:
            status = kipu_gguf_open(&g, &c_name, 1, &err)
        check(status, &err)
        try:
            return vocab_of_gguf(g, warnings)
        finally:
            kipu_gguf_close(g)

    @property
    def size(self):
        """Number of tokens."""
        return kipu_vocab_size(self.get_live())

    @property
    def type(self):
        """0 none, 1 SPM, 2 BPE, 3 WPM, 4 UGM, 5 RWKV. Only SPM and BPE can tokenize."""
        return kipu_vocab_type(self.get_live())

    def __len__(self):
        return kipu_vocab_size(self.get_live())

    def __int__(self):
        return <uintptr_t>self.get_live()

    __index__ = __int__

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        """Nothing to free: the vocabulary goes with its model."""

    def flags(self):
        """What tokenize adds: dict of add_bos, add_eos, add_sep, add_space_prefix -> bool."""
        cdef const kipu_vocab *v = self.get_live()
        return {"add_bos": kipu_vocab_add_bos(v), "add_eos": kipu_vocab_add_eos(v), "add_sep": kipu_vocab_add_sep(v),
                "add_space_prefix": kipu_vocab_add_space_prefix(v)}

    def special(self, str which):
        """Id of a special token, -1 if there is none.

        Parameters
        ----------
        which : bos eos eot eom unk sep pad mask nl fim_pre fim_suf fim_mid fim_pad fim_rep fim_sep.
        """
        if which not in _SPECIALS:
            raise ValueError(f"which must be one of {' '.join(_SPECIALS)}, got {which!r}")
        return kipu_vocab_special(self.get_live(), <kipu_special><int>_SPECIALS.index(which))

    def text(self, int32_t token):
        """The token as it stands in the file, bytes; None if there is no such token."""
        cdef kipu_text t = kipu_vocab_text(self.get_live(), token)
        return None if t.data == NULL else t.data[:t.size]

    def score(self, int32_t token):
        """Score of a token, 0 if there is none."""
        return kipu_vocab_score(self.get_live(), token)

    def attr(self, int32_t token):
        """Attributes: sum of unknown 1, unused 2, normal 4, control 8, user-defined 16, byte 32, normalized 64, lstrip 128, rstrip 256."""
        return kipu_vocab_attr(self.get_live(), token)

    def is_eog(self, int32_t token):
        """Does this token end a generation?"""
        return kipu_vocab_is_eog(self.get_live(), token)

    def is_control(self, int32_t token):
        return kipu_vocab_is_control(self.get_live(), token)

    def tokenize(self, text, bint add_special=True, bint parse_special=False):
        """Token ids of a text.

        Parameters
        ----------
        text : str or any bytes-like object, of any content.
        add_special : add bos and eos where the vocabulary asks for it.
        parse_special : recognise control tokens in the text.

        Returns
        -------
        int32 array, shape (n_tokens,).

        Raises
        ------
        RuntimeError, NotImplementedError
            The vocabulary has no tokenizer.
        ValueError
            It has no token for a byte of the text.
        """
        cdef const kipu_vocab *v = self.get_live()
        cdef bytes data = text.encode() if isinstance(text, str) else bytes(text)
        cdef const char *p = data
        cdef size_t size = len(data)
        cdef int64_t n = 0, capacity = size + 16
        cdef int32_t[::1] view
        cdef kipu_error err
        cdef kipu_status status
        while True:
            ids = _np.empty(capacity, _np.int32)
            view = ids
            with nogil:
                status = kipu_tokenize(v, p, size, &view[0], capacity, &n, add_special, parse_special, &err)
            check(status, &err)
            if n <= capacity:
                return ids[:n].copy()
            capacity = n

    def token_to_piece(self, int32_t token, int32_t lstrip=0, bint special=False):
        """The bytes a token stands for; up to `lstrip` leading blanks are dropped, control tokens are empty without `special`."""
        cdef int64_t size = 0, ignored = 0
        cdef kipu_error err
        check(kipu_token_to_piece(self.get_live(), token, NULL, 0, lstrip, special, &size, &err), &err)
        piece = bytearray(size)
        check(kipu_token_to_piece(self.get_live(), token, piece, size, lstrip, special, &ignored, &err), &err)
        return bytes(piece)

    def detokenize(self, tokens, bint remove_special=False, bint unparse_special=False):
        """The text of tokens, bytes (a token may end within a character).

        Parameters
        ----------
        tokens : int32 array or sequence of int.
        remove_special : drop one leading bos and one trailing eos where the vocabulary adds them.
        unparse_special : write control tokens as text instead of leaving them out.
        """
        cdef const kipu_vocab *v = self.get_live()
        ids = _np.ascontiguousarray(tokens, _np.int32) if len(tokens) else _np.zeros(1, _np.int32)
        cdef const int32_t[::1] view = ids
        cdef int64_t n = len(tokens), size = 0, ignored = 0
        cdef kipu_error err
        cdef kipu_status status
        with nogil:
            status = kipu_detokenize(v, &view[0], n, NULL, 0, remove_special, unparse_special, &size, &err)
        check(status, &err)
        out = bytearray(size)
        cdef char *p = out
        with nogil:
            status = kipu_detokenize(v, &view[0], n, p, size, remove_special, unparse_special, &ignored, &err)
        check(status, &err)
        return bytes(out)


cdef Vocab vocab_of_gguf(kipu_gguf *g, list warnings):
    """A vocabulary of its own from an open file, which may be closed afterwards."""
    cdef Vocab vocab = Vocab.__new__(Vocab)
    cdef kipu_vocab_source source = kipu_gguf_vocab_source(g)
    cdef kipu_error err
    cdef kipu_status status
    cdef void *list_of_warnings = <void *>warnings if warnings is not None else NULL
    with nogil:
        status = kipu_vocab_new(&vocab.own, &source, note_vocab_warning, list_of_warnings, &err)
    check(status, &err)
    vocab.v = vocab.own
    return vocab


cdef Vocab borrow_vocab(const kipu_vocab *v, object owner):
    """A vocabulary that belongs to `owner`, which stays alive as long as this object."""
    cdef Vocab vocab = Vocab.__new__(Vocab)
    vocab.v, vocab.owner = v, owner
    return vocab
