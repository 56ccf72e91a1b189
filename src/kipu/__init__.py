"""kipu: a context engine for GGUF language models."""
from ._core import Aborted, CacheFull, system_info

__version__ = "0.1.0"
