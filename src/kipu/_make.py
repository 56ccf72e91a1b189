"""Models and contexts from parameters: what the functional and the object face share. Everything here raises."""
import os
from types import SimpleNamespace

from . import _callbacks, _log
from ._core import ContextHandle, ModelHandle, cpu_usable
from ._params import resolve_context

_MAX_OVERRIDE = 127


class Progress:
    """Passes progress on to a callable; keeps its exception for the caller and cancels the load then. Without one: dots in the log."""

    def __init__(self, callback=None, user_data=None):
        self.callback, self.user_data = callback, user_data
        self.failure, self.dots = None, 0

    def __call__(self, fraction):
        try:
            if self.callback is not None:
                return bool(self.callback(fraction, self.user_data))
            self.show(int(fraction * 100))
            return True
        except BaseException as e:
            self.failure = _callbacks.mark(e)
            return False

    def show(self, percent):
        if percent > self.dots:
            _log.emit_part("." * (percent - self.dots) + ("\n" if percent >= 100 else ""))
            self.dots = percent


def path_bytes(path, name="path"):
    """A path as bytes. TypeError: no path; ValueError: a zero byte inside."""
    try:
        raw = os.fsencode(path)
    except TypeError:
        raise TypeError(f"{name} must be str, bytes or os.PathLike, got {type(path).__name__}") from None
    if b"\0" in raw:
        raise ValueError(f"{name} must not contain a zero byte: {path!r}")
    return raw


# ------------------------------------------------------------------------------------------------ metadata overrides

def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _override_pair(entry):
    """(key, value) of one entry: a pair, or an object with the fields of llama_model_kv_override."""
    if isinstance(entry, (tuple, list)):
        return entry
    if not hasattr(entry, "tag"):
        raise TypeError(f"kv_overrides: an entry must be a (key, value) pair or have tag, key and val_*, got {type(entry).__name__}")
    field = ("val_i64", "val_f64", "val_bool", "val_str")[entry.tag]
    value = getattr(entry, field) if hasattr(entry, field) else getattr(entry.value, field)
    return entry.key, value


def parse_overrides(overrides):
    """dict, or sequence of pairs or llama_model_kv_override, ended by an empty key -> dict of str -> int, float, bool or str."""
    if overrides is None:
        return {}
    out = {}
    for key, value in overrides.items() if hasattr(overrides, "items") else map(_override_pair, overrides):
        key, value = _text(key), _text(value)
        if not key:
            break
        if not isinstance(key, str) or len(key.encode()) > _MAX_OVERRIDE:
            raise ValueError(f"kv_overrides: keys are strings of at most {_MAX_OVERRIDE} bytes, got {key!r}")
        if not isinstance(value, (bool, int, float, str)) or (isinstance(value, str) and len(value.encode()) > _MAX_OVERRIDE):
            raise ValueError(f"kv_overrides['{key}'] must be an int, float, bool or string of at most {_MAX_OVERRIDE} bytes, got {value!r}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"kv_overrides['{key}'] must fit 64 bits, got {value}")
        out[key] = value
    return out


# ------------------------------------------------------------------------------------------------ models, contexts

# What a model that was loaded with vocab_only says of itself.
_NO_HYPER_PARAMS = SimpleNamespace(n_ctx_train=0, causal=True, pooling_type=-1, n_swa=0, swa_layers=[], rope_scaling_type=1,
                                   rope_freq_base=0.0, rope_freq_scale=1.0, rope_attn_factor=1.0, yarn_orig_ctx=0)

def load_model(paths, params):
    """A loaded ModelHandle.

    Parameters
    ----------
    paths : list of paths: one file (the first of a split set finds the others), or all parts in order.
    params : llama_model_params.

    Raises
    ------
    OSError, ValueError, MemoryError
        The file cannot be read, is damaged, or has an unknown architecture; the message says what was found.
    NotImplementedError
        The model needs what is not built yet.
    Aborted
        The progress callback returned False. What it raised is raised.
    """
    from ._load import build_program

    if not paths:
        raise ValueError("no path of a model was given")
    handle = ModelHandle([path_bytes(p) for p in paths], params.vocab_only, parse_overrides(params.kv_overrides))
    _log.emit_all(handle.warnings)
    if params.vocab_only:
        return handle
    hp = build_program(handle, handle, handle.vocab.size)
    progress = Progress(params.progress_callback, params.progress_callback_user_data)
    try:
        handle.load(hp, cpu_usable(), params.check_tensors, progress)
    except Exception:
        if progress.failure is not None:
            raise progress.failure from None
        raise
    return handle


def new_context(model, params):
    """A ContextHandle for a loaded ModelHandle.

    Raises
    ------
    ValueError, MemoryError
        What llama_init_from_model refuses; the message names the field.
    NotImplementedError
        A valid request for something that is not built yet.
    """
    resolved, records = resolve_context(params, model.hp or _NO_HYPER_PARAMS)
    _log.emit_all(records)
    context = ContextHandle(model, resolved)
    if model.vocab_only:
        return context
    if params.abort_callback is not None:
        context.set_abort(params.abort_callback, params.abort_callback_data)
    for name, value in _sizes(resolved, model.hp).items():
        _log.emit(_log.INFO, f"{name} = {value / 2**20:.2f} MiB")
    return context


def _sizes(r, hp):
    """Bytes of the buffers of a context when they are full."""
    item = {0: 4, 1: 2}
    row = hp.n_head_kv * (hp.head_dim_k * item[r.type_k] + hp.head_dim_v * item[r.type_v])
    n_window = sum(hp.swa_layers) if r.n_cells_window else 0
    kv = row * (r.n_ctx * (hp.n_layer - n_window) + r.n_cells_window * n_window)
    return {"CPU output buffer size": 4 * hp.n_vocab * r.n_seq_max, "CPU KV buffer size": kv}
