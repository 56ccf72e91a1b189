"""kipu: a context engine for GGUF language models.

Two faces of one engine: `kipu.llama_*`, the functions of llama.h with the same names, argument order and codes; and kipu.Model,
kipu.Context, kipu.Batch, the same as objects with exceptions and numpy arrays.
"""
from . import _llama
from ._core import Aborted, CacheFull, system_info
from ._llama import *
from ._objects import Batch, Context, Model

__version__ = "0.1.0"
__all__ = ["Aborted", "Batch", "CacheFull", "Context", "Model", "explain", "get_include", "system_info", *_llama.__all__]


def explain(model_or_context):
    """What the engine will do for one ubatch, as text: every step with its weights, shapes, bytes and fusions.

    Parameters
    ----------
    model_or_context : Model, Context, or a handle of the functional API.

    Raises
    ------
    TypeError
        It is neither.
    ValueError
        It was freed.
    """
    handle = getattr(model_or_context, "handle", model_or_context)
    if not isinstance(handle, (llama_model, llama_context)):
        raise TypeError(f"model_or_context must be a model or a context, got {type(model_or_context).__name__}")
    return handle.explain()


def get_include():
    """The directory of kipu.h, for compiling native code that uses kipu's function table."""
    import os
    return os.path.join(os.path.dirname(__file__), "include")
