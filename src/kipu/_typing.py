"""Names for annotations: what the functions take. Imported by type checkers only."""
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from typing_extensions import Buffer

from ._core import Batch, ContextHandle, MemoryHandle, ModelHandle, Sampler, Threadpool, Vocab
from ._objects import Context, Model
from ._types import llama_token_data_array

__all__ = ["Any", "Batch", "Buffer", "Callable", "ContextHandle", "ContextLike", "F", "MemoryHandle", "MemoryLike", "ModelHandle",
           "ModelLike", "Numbers", "PathLike", "Sampler", "Sequence", "Threadpool", "Vocab", "VocabLike", "llama_token_data_array", "np"]

F = TypeVar("F")
PathLike: TypeAlias = str | bytes | os.PathLike[str]
Numbers: TypeAlias = Buffer | Sequence[int]
ModelLike: TypeAlias = ModelHandle | Model
ContextLike: TypeAlias = ContextHandle | MemoryHandle | Context
MemoryLike: TypeAlias = ContextLike
VocabLike: TypeAlias = Vocab | ModelLike
