"""kipu.Model, kipu.Context, kipu.Batch: the functions of llama.h as objects, with exceptions instead of codes."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._buffers import int32_array
from ._core import Aborted, Batch as _Batch, CacheFull, cpu_physical
from ._describe import describe, metadata_text
from ._llama_batch import llama_batch_get_one, llama_batch_init
from ._llama_context import llama_perf_context
from ._make import load_model, new_context
from ._params import check_threads, llama_context_params, llama_model_params

if TYPE_CHECKING:
    from ._llama_context import llama_perf_context_data
    from ._typing import Any, Callable, MemoryHandle, Numbers, PathLike, Sequence, Vocab


def _params_of(kind, params, fields):
    """A copy of `params` (or the defaults) with `fields` set; unknown fields are TypeErrors here."""
    out = kind() if params is None else params.copy()
    for name, value in fields.items():
        if name not in kind.fields():
            raise TypeError(f"{kind.__name__} has no field '{name}'")
        setattr(out, name, value)
    return out


class Batch(_Batch):
    """Tokens to compute, filled token by token.

    Parameters
    ----------
    n_tokens : int >= 0, capacity.
    embd : int, 0 for token ids, else the width of input vectors (float32 array `embd`, shape (n_tokens, embd)).
    n_seq_max : int >= 1, sequence ids per token at most.

    Attributes
    ----------
    n_tokens : int, tokens in use.
    token, pos, n_seq_id : int32 arrays (n_tokens,).  seq_id : int32 (n_tokens, n_seq_max).  logits : int8 (n_tokens,).
    """

    def __init__(self, n_tokens: int, embd: int = 0, n_seq_max: int = 1) -> None:
        made = llama_batch_init(n_tokens, embd, n_seq_max)
        self.token, self.embd, self.pos, self.n_seq_id, self.seq_id, self.logits = (
            made.token, made.embd, made.pos, made.n_seq_id, made.seq_id, made.logits)

    def add(self, token: Any, pos: int, seq_ids: Sequence[int] = (0,), logits: bool = False) -> None:
        """Appends one token (or one input vector).

        Parameters
        ----------
        token : int, or float32 (embd,) in a batch of vectors.
        pos : int >= 0, position in tokens.
        seq_ids : ints in 0..63.
        logits : bool, whether this token has an output.

        Raises
        ------
        IndexError
            The batch is full, or has no room for so many sequence ids.
        """
        i = self.n_tokens
        if i >= len(self.pos):
            raise IndexError(f"the batch is full: {i} tokens")
        if len(seq_ids) > self.seq_id.shape[1]:
            raise IndexError(f"{len(seq_ids)} sequence ids given, the batch has room for {self.seq_id.shape[1]}")
        (self.token if self.embd is None else self.embd)[i] = token
        self.pos[i], self.logits[i], self.n_seq_id[i] = pos, logits, len(seq_ids)
        self.seq_id[i, : len(seq_ids)] = seq_ids
        self.n_tokens = i + 1

    def clear(self) -> None:
        """Empties the batch; its arrays stay."""
        self.n_tokens = 0


class Model:
    """A language model from a GGUF file.

    Parameters
    ----------
    path : str, bytes or os.PathLike, or a list of these: all parts of a split set in order.
    params : llama_model_params, optional.
    **fields : fields of llama_model_params, for example vocab_only, kv_overrides, check_tensors, progress_callback.

    Raises
    ------
    OSError, ValueError, MemoryError
        The file cannot be read, is damaged, or has an unknown architecture.
    NotImplementedError
        The model needs what kipu cannot do yet.
    kipu.Aborted
        The progress callback returned False.

    Attributes
    ----------
    handle : the handle for the kipu.llama_* functions, which also take the model itself.
    """

    def __init__(self, path: PathLike | Sequence[PathLike], params: llama_model_params | None = None, **fields: Any) -> None:
        paths = path if isinstance(path, (list, tuple)) else [path]
        self.handle = load_model(paths, _params_of(llama_model_params, params, fields))

    def free(self) -> None:
        """Gives the model up; contexts made from it go on working. Any number of times."""
        self.handle.free()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.free()

    def __repr__(self) -> str:
        return "Model(freed)" if self.handle.freed else f"Model({self.description})"

    def __reduce__(self):
        raise TypeError("a model cannot be pickled")

    @property
    def description(self) -> str:
        """For example "llama 7B Q4_K - Medium"."""
        return describe(self.handle)

    @property
    def metadata(self) -> dict[str, str]:
        """dict of all scalar metadata, values as text."""
        text = lambda raw: raw.decode("utf-8", "replace")
        return {text(key): text(metadata_text(value)) for key, value in self.handle.scalars()}

    @property
    def hyper_params(self) -> Any:
        """The hyper-parameters as an object with attributes n_layer, n_embd, ...; None with vocab_only."""
        return self.handle.hp

    @property
    def vocab(self) -> Vocab:
        """The vocabulary's handle."""
        return self.handle.vocab

    @property
    def n_vocab(self) -> int:
        """Number of tokens."""
        return self.vocab.size

    @property
    def n_params(self) -> int:
        """Number of weights."""
        return self.handle.n_params()

    @property
    def size(self) -> int:
        """Bytes of all tensors in the file."""
        return self.handle.tensor_bytes()

    def tokenize(self, text: str | bytes, add_special: bool = True, parse_special: bool = False) -> np.ndarray:
        """Token ids of a text.

        Parameters
        ----------
        text : str (as UTF-8) or bytes.
        add_special : bool, whether to add BOS and EOS where the model wants them.
        parse_special : bool, whether the texts of control tokens become these tokens.

        Returns
        -------
        int32 array (n,)

        Raises
        ------
        RuntimeError
            The model has no vocabulary.
        """
        return self.vocab.tokenize(text, add_special, parse_special)

    def token_to_piece(self, token: int, lstrip: int = 0, special: bool = True) -> bytes:
        """bytes of one token. ValueError: no such token."""
        return self.vocab.token_to_piece(token, lstrip, special)

    def detokenize(self, tokens: Numbers, remove_special: bool = False, unparse_special: bool = True) -> bytes:
        """bytes of a sequence of tokens."""
        return self.vocab.detokenize(int32_array(tokens, "tokens"), remove_special, unparse_special)

    def context(self, params: llama_context_params | None = None, **fields: Any) -> Context:
        """A kipu.Context of this model."""
        return Context(self, params, **fields)

    def explain(self) -> str:
        """The recorded forward pass as text."""
        return self.handle.explain()


class Context:
    """Memory and outputs for computing with a model.

    Parameters
    ----------
    model : Model.
    params : llama_context_params, optional.
    **fields : fields of llama_context_params, for example n_ctx, n_batch, n_seq_max, flash_attn. Threads default to the physical cores
        this process may use.

    Raises
    ------
    ValueError
        A value that cannot be; the message names the field.
    NotImplementedError
        A feature that kipu does not have yet.
    MemoryError

    Attributes
    ----------
    model : Model.
    handle : the handle for the kipu.llama_* functions, which also take the context itself.
    """

    def __init__(self, model: Model, params: llama_context_params | None = None, **fields: Any) -> None:
        if params is None:
            fields = {"n_threads": cpu_physical(), "n_threads_batch": cpu_physical(), **fields}
        if model.handle.freed:
            raise ValueError("the model was freed")
        self.model = model
        self.handle = new_context(model.handle, _params_of(llama_context_params, params, fields))

    def free(self) -> None:
        """Gives the context up; arrays of its outputs stay valid. Any number of times."""
        self.handle.free()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.free()

    def __repr__(self) -> str:
        return "Context(freed)" if self.handle.freed else f"Context(n_ctx={self.n_ctx}, n_batch={self.n_batch}, n_seq_max={self.n_seq_max})"

    def __reduce__(self):
        raise TypeError("a context cannot be pickled")

    # ---- sizes in tokens

    @property
    def n_ctx(self) -> int:
        """Cells of the memory."""
        return self.handle.resolved.n_ctx

    @property
    def n_batch(self) -> int:
        """Tokens that one decode takes at most."""
        return self.handle.resolved.n_batch

    @property
    def n_ubatch(self) -> int:
        """Tokens that are computed together at most."""
        return self.handle.resolved.n_ubatch

    @property
    def n_seq_max(self) -> int:
        return self.handle.resolved.n_seq_max

    # ---- computing

    def decode(self, batch: _Batch | Numbers) -> None:
        """Computes a batch; afterwards `logits` has its outputs.

        Parameters
        ----------
        batch : Batch, or token ids that continue sequence 0.

        Raises
        ------
        kipu.CacheFull
            No room in the memory; nothing changed.
        kipu.Aborted
            The abort callback said so; finished ubatches stay in the memory.
        ValueError
            The batch is invalid; nothing changed.
        MemoryError, RuntimeError
            Computing failed; finished ubatches stay in the memory.
        """
        code, reason = self.handle.decode(batch if isinstance(batch, _Batch) else llama_batch_get_one(batch))
        if code:
            raise {1: CacheFull, 2: Aborted, -1: ValueError, -2: MemoryError}.get(code, RuntimeError)(reason)

    @property
    def logits(self) -> np.ndarray:
        """float32 array (n_outputs, n_vocab) of the last decode in batch order; no rows if it had no outputs. It never changes."""
        rows = self.handle.logits()
        return np.empty((0, self.model.n_vocab), np.float32) if rows is None else np.asarray(rows)

    def logits_ith(self, i: int) -> np.ndarray:
        """float32 array (n_vocab,) of the token with batch index i; i < 0 counts from the last output. IndexError if it has none."""
        return np.asarray(self.handle.logits_ith(i))

    # ---- memory and settings

    @property
    def memory(self) -> MemoryHandle | None:
        """What the context remembers: clear, seq_rm, seq_cp, seq_keep, seq_pos_min, seq_pos_max, can_shift."""
        return self.handle.memory

    @property
    def n_threads(self) -> int:
        """Threads for one token."""
        return self.handle.n_threads

    @property
    def n_threads_batch(self) -> int:
        """Threads for more than one token."""
        return self.handle.n_threads_batch

    @property
    def workers(self):
        """Threads that the last decode really used: n_threads, or fewer where affinity and quota leave fewer CPUs."""
        return self.handle.workers

    def set_threads(self, n_threads: int, n_threads_batch: int | None = None) -> None:
        """Threads for one token and for more. ValueError outside 1..512."""
        n_threads_batch = n_threads if n_threads_batch is None else n_threads_batch
        check_threads("n_threads", n_threads)
        check_threads("n_threads_batch", n_threads_batch)
        self.handle.set_threads(n_threads, n_threads_batch)

    def set_causal(self, causal: bool) -> None:
        """Whether tokens see only what is before them."""
        self.handle.set_causal(causal)

    def set_abort_callback(self, callback: Callable[[Any], Any] | None, data: Any = None) -> None:
        """callback(data) is asked while computing; True stops with kipu.Aborted. None: no callback."""
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable or None, got {type(callback).__name__}")
        self.handle.set_abort(callback, data)

    @property
    def perf(self) -> llama_perf_context_data:
        """Counters since the start or the last reset: named tuple, times in milliseconds."""
        return llama_perf_context(self.handle)

    def reset_perf(self) -> None:
        self.handle.perf_reset()

    def explain(self) -> str:
        """What a decode does, step by step, as text."""
        return self.handle.explain()
