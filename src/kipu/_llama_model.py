"""llama.h, models: loading, freeing, facts, metadata, names of split files."""
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from . import _log
from ._buffers import capacity, text_bytes, writable_bytes
from ._core import Aborted, ModelHandle
from ._describe import describe, metadata_text
from ._handles import handle_of, model_of, or_none
from ._make import load_model, path_bytes
from ._params import llama_model_params

if TYPE_CHECKING:
    from ._typing import Buffer, ModelLike, PathLike, Sequence


def _load(paths, params):
    if not isinstance(params, llama_model_params):
        raise TypeError(f"params must be llama_model_params, got {type(params).__name__}")
    return or_none(lambda: _load_unless_cancelled(paths, params.copy()), "failed to load the model")


def _load_unless_cancelled(paths, params):
    try:
        return load_model(paths, params)
    except Aborted:
        _log.emit(_log.INFO, "loading the model was cancelled")
        return None


def llama_model_load_from_file(path_model: PathLike, params: llama_model_params) -> ModelHandle | None:
    """Loads a model; None and an ERROR line if that fails or the progress callback returned False.

    Parameters
    ----------
    path_model : str, bytes or os.PathLike; the first part of a split set finds the others.
    params : llama_model_params.
    """
    return _load([path_model], params)


def llama_model_load_from_splits(paths: Sequence[PathLike], n_paths: int | None = None,
                                 params: llama_model_params | None = None) -> ModelHandle | None:
    """Loads a split set from paths in order. None if there are none or loading fails."""
    paths = list(paths)
    n = capacity(n_paths, len(paths), "n_paths")
    return _load(paths[:n], llama_model_params() if params is None else params)


def llama_model_free(model: ModelLike | None) -> None:
    """Frees a model; contexts made from it go on working. None and repeated calls are allowed."""
    if model is not None:
        handle_of(model, ModelHandle, "model").free()


# ------------------------------------------------------------------------------------------------ facts

def _hyper(model, name, default=0):
    hp = model_of(model).hp
    return default if hp is None else getattr(hp, name)


def llama_model_n_ctx_train(model: ModelLike) -> int:
    """Positions the model was trained with."""
    return _hyper(model, "n_ctx_train")


def llama_model_n_embd(model: ModelLike) -> int:
    """Width of the residual stream."""
    return _hyper(model, "n_embd")


def llama_model_n_layer(model: ModelLike) -> int:
    """int: layers."""
    return _hyper(model, "n_layer")


def llama_model_n_head(model: ModelLike) -> int:
    """int: query heads of a layer."""
    return _hyper(model, "n_head")


def llama_model_n_head_kv(model: ModelLike) -> int:
    """int: key-value heads of a layer."""
    return _hyper(model, "n_head_kv")


def llama_model_n_swa(model: ModelLike) -> int:
    """Sliding window in positions, 0 for none."""
    return _hyper(model, "n_swa")


def llama_model_rope_type(model: ModelLike) -> int:
    """int: LLAMA_ROPE_TYPE_NORM (adjacent pairs), LLAMA_ROPE_TYPE_NEOX (halves) or LLAMA_ROPE_TYPE_NONE."""
    return _hyper(model, "rope_type", -1)


def llama_model_rope_freq_scale_train(model: ModelLike) -> float:
    """float: what positions are multiplied by, as the model was trained."""
    return _hyper(model, "rope_freq_scale", 1.0)


def llama_model_n_cls_out(model: ModelLike) -> int:
    """Outputs of a classifier head; 1 without one."""
    model_of(model)
    return 1


def llama_model_cls_label(model: ModelLike, i: int) -> bytes | None:
    """Name of classifier output i; None: no such label."""
    model_of(model)
    return None


def llama_model_has_encoder(model: ModelLike) -> bool:
    """bool: whether llama_encode applies (encoder-decoder models; none yet)."""
    model_of(model)
    return False


def llama_model_has_decoder(model: ModelLike) -> bool:
    """bool: whether llama_decode applies."""
    model_of(model)
    return True


def llama_model_decoder_start_token(model: ModelLike) -> int:
    """First token for the decoder of an encoder-decoder model; -1: none."""
    model_of(model)
    return -1


def llama_model_is_recurrent(model: ModelLike) -> bool:
    """bool: whether the memory is a recurrent state (none yet)."""
    model_of(model)
    return False


def llama_model_is_hybrid(model: ModelLike) -> bool:
    """bool: whether the memory is attention and recurrent state (none yet)."""
    model_of(model)
    return False


def llama_model_is_diffusion(model: ModelLike) -> bool:
    """bool: False."""
    model_of(model)
    return False


def llama_model_size(model: ModelLike) -> int:
    """Bytes of all tensors."""
    return model_of(model).tensor_bytes()


def llama_model_n_params(model: ModelLike) -> int:
    """Number of weights."""
    return model_of(model).n_params()


def llama_model_chat_template(model: ModelLike, name: bytes | str | None = None) -> bytes | None:
    """Jinja source as bytes: the default one, or tokenizer.chat_template.<name>. None if the model has none."""
    key = "tokenizer.chat_template" if name is None else "tokenizer.chat_template." + text_bytes(name, "name").decode("utf-8", "replace")
    value = model_of(model).get(key)
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else None


# ------------------------------------------------------------------------------------------------ metadata

def _put(text, buf, buf_size):
    """The snprintf contract: at most buf_size - 1 bytes and a zero byte are written, the full length is returned."""
    if buf is None:
        return len(text)
    out = writable_bytes(buf, "buf")
    size = capacity(buf_size, len(out), "buf_size")
    if size:
        part = text[: size - 1] + b"\0"
        out[: len(part)] = list(part)
    return len(text)


def _put_missing(buf, buf_size):
    _put(b"", buf, buf_size)
    return -1


def llama_model_meta_count(model: ModelLike) -> int:
    """Number of metadata values that are no arrays."""
    return len(model_of(model).scalars())


def llama_model_meta_key_by_index(model: ModelLike, i: int, buf: Buffer | None = None, buf_size: int | None = None) -> int:
    """Writes key i (file order) and returns its length; -1 if there is none."""
    pairs = model_of(model).scalars()
    return _put(pairs[i][0], buf, buf_size) if 0 <= i < len(pairs) else _put_missing(buf, buf_size)


def llama_model_meta_val_str_by_index(model: ModelLike, i: int, buf: Buffer | None = None, buf_size: int | None = None) -> int:
    """Writes value i (file order) as text and returns its length; -1 if there is none."""
    pairs = model_of(model).scalars()
    return _put(metadata_text(pairs[i][1]), buf, buf_size) if 0 <= i < len(pairs) else _put_missing(buf, buf_size)


def llama_model_meta_val_str(model: ModelLike, key: bytes | str, buf: Buffer | None = None, buf_size: int | None = None) -> int:
    """Writes the value of a key as text and returns its length; -1 if there is none."""
    found = dict(model_of(model).scalars()).get(text_bytes(key, "key"))
    return _put_missing(buf, buf_size) if found is None else _put(metadata_text(found), buf, buf_size)


def llama_model_desc(model: ModelLike, buf: Buffer | None = None, buf_size: int | None = None) -> int:
    """Writes "<architecture> <size> <format>", for example "llama 7B Q4_K - Medium", and returns its length."""
    return _put(describe(model_of(model)).encode(), buf, buf_size)


# ------------------------------------------------------------------------------------------------ split files

def llama_split_path(split_path: Buffer | None, maxlen: int | None = None, path_prefix: PathLike = "", split_no: int = 0,
                     split_count: int = 0) -> int:
    """Writes the name of part split_no (from 0) and returns its length: "<prefix>-00001-of-00003.gguf". 0: negative numbers."""
    if split_no < 0 or split_count < 0:
        return 0
    name = path_bytes(path_prefix, "path_prefix") + b"-%05d-of-%05d.gguf" % (split_no + 1, split_count)
    return _put(name, split_path, maxlen)


def llama_split_prefix(split_prefix: Buffer | None, maxlen: int | None = None, split_path: PathLike = "", split_no: int = 0,
                       split_count: int = 0) -> int:
    """Writes what stands before "-00001-of-00003.gguf" and returns its length; 0 if the name does not end so."""
    found = re.fullmatch(rb"(.+)-(\d{5,})-of-(\d{5,})\.gguf", path_bytes(os.fspath(split_path), "split_path"), re.S)
    if not found or int(found[2]) != split_no + 1 or int(found[3]) != split_count:
        return 0
    return _put(found[1], split_prefix, maxlen)


llama_load_model_from_file = llama_model_load_from_file
llama_free_model = llama_model_free
llama_n_ctx_train = llama_model_n_ctx_train
llama_n_embd = llama_model_n_embd
llama_n_layer = llama_model_n_layer
llama_n_head = llama_model_n_head
