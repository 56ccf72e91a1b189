"""llama.h, the library itself: start and end, the machine, logging, default parameters, thread pools."""
from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import _log
from ._constants import LLAMA_MAX_PARALLEL_SEQUENCES
from ._core import Threadpool, cpu_features, cpu_tier
from ._params import check_threads, ggml_threadpool_params, llama_context_params, llama_model_params, llama_sampler_chain_params

if TYPE_CHECKING:
    from ._typing import Any, Callable, F


def llama_backend_init() -> None:
    """Does nothing; kipu is ready when it is imported."""


def llama_backend_free() -> None:
    """Does nothing."""


def llama_numa_init(numa: int = 0) -> None:
    """Checks the strategy (0..4) and ignores it. ValueError outside."""
    if not 0 <= numa <= 4:
        raise ValueError(f"numa must be a strategy 0..4, got {numa}")


def llama_time_us() -> int:
    """Monotonic time in microseconds."""
    return time.monotonic_ns() // 1000


def llama_supports_mmap() -> bool:
    """bool: whether files could be mapped. Weights are read and packed, so use_mmap has no effect."""
    return True


def llama_supports_mlock() -> bool:
    """bool: whether memory could be locked."""
    return False


def llama_supports_gpu_offload() -> bool:
    """bool: False, kipu computes on the CPU."""
    return False


def llama_supports_rpc() -> bool:
    """bool: False."""
    return False


def llama_max_devices() -> int:
    """int: 16, as in llama.h; none of them is ever used."""
    return 16


def llama_max_parallel_sequences() -> int:
    """Sequence ids are below this."""
    return LLAMA_MAX_PARALLEL_SEQUENCES


def llama_print_system_info() -> bytes:
    """bytes "CPU : NAME = VALUE | ... | ": what the processor offers, then the kernel tier in use. See also kipu.system_info()."""
    return f"CPU : {cpu_features()}KIPU_CPU = {cpu_tier()} | ".encode()


def llama_log_set(log_callback: Callable[[int, bytes, Any], Any] | None, user_data: Any = None) -> None:
    """Sends all log records to log_callback(level, text_bytes, user_data); None: to logging.getLogger("kipu")."""
    _log.set_hook(log_callback, user_data)


def llama_log_callback(function: F) -> F:
    """Returns the function; for programs that decorate their callbacks."""
    return function


ggml_abort_callback = llama_progress_callback = ggml_backend_sched_eval_callback = llama_log_callback


def llama_model_default_params() -> llama_model_params:
    """A llama_model_params with the defaults of llama.h."""
    return llama_model_params()


def llama_context_default_params() -> llama_context_params:
    """A llama_context_params with the defaults of llama.h."""
    return llama_context_params()


def llama_sampler_chain_default_params() -> llama_sampler_chain_params:
    """A llama_sampler_chain_params with the defaults of llama.h."""
    return llama_sampler_chain_params()


def ggml_threadpool_params_default(n_threads: int) -> ggml_threadpool_params:
    """Parameters of a pool with n_threads workers."""
    return ggml_threadpool_params(n_threads=n_threads)


def ggml_threadpool_params_init(p: ggml_threadpool_params, n_threads: int) -> None:
    """Sets the defaults in an existing object."""
    fresh = ggml_threadpool_params(n_threads=n_threads)
    for name in fresh.fields():
        setattr(p, name, getattr(fresh, name))


def ggml_threadpool_new(params: ggml_threadpool_params) -> Threadpool:
    """A Threadpool of params.n_threads threads. ValueError outside 1..512."""
    check_threads("n_threads", params.n_threads)
    return Threadpool(params.n_threads)


def ggml_threadpool_free(threadpool: Threadpool | None) -> None:
    """Gives the pool up; contexts that use it keep it. None is allowed."""
    if threadpool is not None:
        threadpool.free()


def ggml_threadpool_get_n_threads(threadpool: Threadpool) -> int:
    """int: workers the pool has."""
    return threadpool.n_threads
