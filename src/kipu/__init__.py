"""kipu: a context engine for GGUF language models."""
from ._core import Aborted, CacheFull, cpu_features, cpu_physical, cpu_tier, cpu_tiers, cpu_usable

__version__ = "0.1.0"
