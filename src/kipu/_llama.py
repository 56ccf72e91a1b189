"""The functional API: every name of llama.h that Python programs use, by topic in the _llama_* modules."""
from ._constants import *
from ._core import Batch as llama_batch, ContextHandle as llama_context, MemoryHandle as llama_memory, ModelHandle as llama_model
from ._core import Sampler as llama_sampler, Vocab as llama_vocab
from ._llama_batch import *
from ._llama_context import *
from ._llama_later import *
from ._llama_library import *
from ._llama_memory import *
from ._llama_model import *
from ._llama_sampler import *
from ._llama_vocab import *
from ._params import ggml_threadpool_params, llama_context_params, llama_model_params, llama_sampler_chain_params
from ._types import *

__all__ = sorted(name for name in globals() if name.startswith(("llama_", "ggml_", "LLAMA_", "GGML_")))
