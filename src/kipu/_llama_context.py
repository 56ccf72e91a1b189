"""llama.h, contexts: making, computing, outputs, settings, performance counters."""
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import _constants as C
from . import _log
from ._core import ContextHandle
from ._handles import context_of, handle_of, model_of, or_none
from ._make import new_context
from ._params import check_threads, llama_context_params

if TYPE_CHECKING:
    from ._typing import Any, Batch, Callable, ContextLike, ModelHandle, ModelLike, Threadpool


def llama_init_from_model(model: ModelLike | None, params: llama_context_params) -> ContextHandle | None:
    """A context; None and an ERROR line if the parameters are refused or memory is short.

    Parameters
    ----------
    model : model handle, None gives None.
    params : llama_context_params.
    """
    if model is None:
        _log.emit(_log.ERROR, "llama_init_from_model: model is None")
        return None
    if not isinstance(params, llama_context_params):
        raise TypeError(f"params must be llama_context_params, got {type(params).__name__}")
    handle = model_of(model)
    return or_none(lambda: new_context(handle, params.copy()), "llama_init_from_model")


def llama_free(ctx: ContextLike | None) -> None:
    """Frees a context. None and repeated calls are allowed; arrays of its outputs stay valid."""
    if ctx is not None:
        handle_of(ctx, ContextHandle, "context").free()


def llama_n_ctx(ctx: ContextLike) -> int:
    """Cells of the memory, as padded."""
    return context_of(ctx).resolved.n_ctx


def llama_n_batch(ctx: ContextLike) -> int:
    """Tokens that one decode takes at most."""
    return context_of(ctx).resolved.n_batch


def llama_n_ubatch(ctx: ContextLike) -> int:
    """Tokens that are computed together at most."""
    return context_of(ctx).resolved.n_ubatch


def llama_n_seq_max(ctx: ContextLike) -> int:
    """int: sequences the context was made for (ids up to 63 work all the same)."""
    return context_of(ctx).resolved.n_seq_max


def llama_get_model(ctx: ContextLike) -> ModelHandle:
    """The model handle it was made from."""
    return context_of(ctx).model


def llama_pooling_type(ctx: ContextLike) -> int:
    """Resolved pooling type of a context. Also carries the enum: llama_pooling_type.LLAMA_POOLING_TYPE_MEAN."""
    return context_of(ctx).resolved.pooling_type


for _name in ("UNSPECIFIED", "NONE", "MEAN", "CLS", "LAST", "RANK"):
    setattr(llama_pooling_type, f"LLAMA_POOLING_TYPE_{_name}", getattr(C, f"LLAMA_POOLING_TYPE_{_name}"))


# ------------------------------------------------------------------------------------------------ settings

def llama_attach_threadpool(ctx: ContextLike, threadpool: Threadpool | None, threadpool_batch: Threadpool | None = None) -> None:
    """Computes on these pools from now on; without a second one prompts use the first, too."""
    context_of(ctx).set_pools(threadpool, threadpool_batch)


def llama_detach_threadpool(ctx: ContextLike) -> None:
    """Back to the context's own threads."""
    context_of(ctx).set_pools(None, None)


def llama_set_n_threads(ctx: ContextLike, n_threads: int, n_threads_batch: int) -> None:
    """Threads for one token and for more, from the next ubatch on. ValueError outside 1..512."""
    check_threads("n_threads", n_threads)
    check_threads("n_threads_batch", n_threads_batch)
    context_of(ctx).set_threads(n_threads, n_threads_batch)


def llama_n_threads(ctx: ContextLike) -> int:
    """int: threads for ubatches of one token."""
    return context_of(ctx).n_threads


def llama_n_threads_batch(ctx: ContextLike) -> int:
    """int: threads for larger ubatches."""
    return context_of(ctx).n_threads_batch


def llama_set_abort_callback(ctx: ContextLike, abort_callback: Callable[[Any], bool] | None, abort_callback_data: Any = None) -> None:
    """abort_callback(data) is asked while computing; True stops with code 2. None: no callback."""
    if abort_callback is not None and not callable(abort_callback):
        raise TypeError(f"abort_callback must be callable or None, got {type(abort_callback).__name__}")
    context_of(ctx).set_abort(abort_callback, abort_callback_data)


def llama_set_embeddings(ctx: ContextLike, embeddings: bool) -> None:
    """Only False is supported yet."""
    context_of(ctx)
    if embeddings:
        raise NotImplementedError("embeddings are not supported yet")


def llama_set_causal_attn(ctx: ContextLike, causal_attn: bool) -> None:
    """Whether tokens see only what is before them, from the next decode on."""
    context_of(ctx).set_causal(bool(causal_attn))


def llama_set_warmup(ctx: ContextLike, warmup: bool) -> None:
    """Has an effect on mixtures of experts only, and there are none yet."""
    context_of(ctx)


def llama_synchronize(ctx: ContextLike) -> None:
    """Waits until no other thread computes in this context."""
    context_of(ctx).synchronize()


# ------------------------------------------------------------------------------------------------ computing

def llama_decode(ctx: ContextLike, batch: Batch) -> int:
    """Computes a batch.

    Returns
    -------
    int
        0 ok; 1 no room in the memory, nothing changed; 2 aborted; -1 invalid batch, nothing changed; -2 out of memory; -3 failure.

    Raises
    ------
    ValueError
        Where llama.h asserts: n_tokens negative or above n_batch (non-causal: n_ubatch), token and embd both or neither set, an array
        shorter than n_tokens. Nothing changed.
    Exception
        Whatever a callback raised; finished ubatches stay in the memory.
    """
    code, reason = context_of(ctx).decode(batch)
    if code:
        _log.emit(_log.WARN if code == 1 else _log.ERROR, f"llama_decode: {reason} (code {code})")
    return code


def llama_encode(ctx: ContextLike, batch: Batch) -> int:
    """-1 with an ERROR line: no model with an encoder is supported yet."""
    context_of(ctx)
    reason = "n_tokens is 0" if batch.n_tokens == 0 else "the model has no encoder"
    _log.emit(_log.ERROR, f"llama_encode: {reason} (code -1)")
    return -1


# ------------------------------------------------------------------------------------------------ outputs

def llama_get_logits(ctx: ContextLike) -> np.ndarray | None:
    """float32 array (n_outputs, n_vocab) of the last decode, rows in batch order; None if it had no outputs.

    The array belongs to the caller: later decodes write elsewhere.
    """
    rows = context_of(ctx).logits()
    return None if rows is None else np.asarray(rows)


def llama_get_logits_ith(ctx: ContextLike, i: int) -> np.ndarray | None:
    """float32 array (n_vocab,) of the token with batch index i; i < 0 counts from the last output. None and an ERROR line: it has none."""
    try:
        return np.asarray(context_of(ctx).logits_ith(i))
    except IndexError as e:
        _log.emit(_log.ERROR, f"llama_get_logits_ith: {e}")
        return None


def llama_get_embeddings(ctx: ContextLike) -> np.ndarray | None:
    """None: contexts compute no embeddings yet."""
    context_of(ctx)
    return None


def llama_get_embeddings_ith(ctx: ContextLike, i: int) -> np.ndarray | None:
    """None and an ERROR line: contexts compute no embeddings yet."""
    context_of(ctx)
    _log.emit(_log.ERROR, f"llama_get_embeddings_ith: invalid embeddings id {i}, reason: no embeddings")
    return None


def llama_get_embeddings_seq(ctx: ContextLike, seq_id: int) -> np.ndarray | None:
    """None: contexts compute no embeddings yet."""
    context_of(ctx)
    return None


# ------------------------------------------------------------------------------------------------ performance counters

class llama_perf_context_data(NamedTuple):
    """Times in milliseconds, counts in tokens (prompt) and calls (eval)."""

    t_start_ms: float = 0.0
    t_load_ms: float = 0.0
    t_p_eval_ms: float = 0.0
    t_eval_ms: float = 0.0
    n_p_eval: int = 0
    n_eval: int = 0


def llama_perf_context(ctx: ContextLike | None) -> llama_perf_context_data:
    """Counters of a context since its start or the last reset; all zero for None."""
    return llama_perf_context_data() if ctx is None else llama_perf_context_data(**context_of(ctx).perf())


def llama_perf_context_print(ctx: ContextLike) -> None:
    """Writes the counters as four INFO lines."""
    from ._llama_library import llama_time_us

    d = llama_perf_context(ctx)
    total = llama_time_us() / 1000 - d.t_start_ms
    _log.emit(_log.INFO, f"       load time = {d.t_load_ms:10.2f} ms")
    _log.emit(_log.INFO, _rate("prompt eval time", d.t_p_eval_ms, d.n_p_eval, "tokens"))
    _log.emit(_log.INFO, _rate("       eval time", d.t_eval_ms, d.n_eval, "runs"))
    _log.emit(_log.INFO, f"      total time = {total:10.2f} ms / {d.n_p_eval + d.n_eval:5d} tokens")


def _rate(name, ms, n, unit):
    each, per_second = ms / max(n, 1), 1e3 * n / ms if ms else float("inf")
    return f"{name} = {ms:10.2f} ms / {n:5d} {unit} ({each:8.2f} ms per token, {per_second:8.2f} tokens per second)"


def llama_perf_context_reset(ctx: ContextLike) -> None:
    """Starts the counters of llama_perf_context again; the load time stays."""
    context_of(ctx).perf_reset()


llama_new_context_with_model = llama_init_from_model
llama_n_ctx_seq = llama_n_ctx    # one cache for all sequences: each may use all of it
