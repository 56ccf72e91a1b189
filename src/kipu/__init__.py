"""kipu: a context engine for GGUF language models.

Two faces of one engine: `kipu.llama_*`, the functions of llama.h with the same names, argument order and codes; and kipu.Model,
kipu.Context, kipu.Batch, the same as objects with exceptions and numpy arrays.
"""
from . import _llama
from ._core import Aborted, CacheFull, system_info
from ._llama import *
from ._objects import Batch, Context, Model

__version__ = "0.1.0"
__all__ = ["Aborted", "Batch", "CacheFull", "Context", "Model", "system_info", *_llama.__all__]
