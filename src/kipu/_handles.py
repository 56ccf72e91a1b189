"""What the functions take for a handle: the handle itself or the object of kipu.Model, kipu.Context that holds it."""
from . import _callbacks, _log
from ._core import ContextHandle, MemoryHandle, ModelHandle


def handle_of(value, kind, name):
    """A handle of this kind, alive or freed. TypeError names `name`."""
    value = getattr(value, "handle", value)
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {name} handle, got {type(value).__name__}")
    return value


def model_of(value):
    """The ModelHandle. ValueError if it was freed."""
    handle = handle_of(value, ModelHandle, "model")
    if handle.freed:
        raise ValueError("the model was freed")
    return handle


def context_of(value):
    """The ContextHandle; a memory stands for its context. ValueError if it was freed."""
    handle = handle_of(value.context if isinstance(value, MemoryHandle) else value, ContextHandle, "context")
    handle.check_alive()
    return handle


def memory_of(value):
    """The MemoryHandle of a memory or context, None for None."""
    if value is None:
        return None
    value = getattr(value, "handle", value)
    if isinstance(value, ContextHandle):
        return value.memory
    if not isinstance(value, MemoryHandle):
        raise TypeError(f"memory must be a memory or context handle, got {type(value).__name__}")
    return value


def or_none(make, what):
    """make(), or None and an ERROR line for what llama.h answers with NULL. What is not built yet or a callback raised stays raised."""
    try:
        return make()
    except (ValueError, OSError, MemoryError, RuntimeError) as e:
        if isinstance(e, NotImplementedError) or _callbacks.is_marked(e):
            raise
        _log.emit(_log.ERROR, f"{what}: {e}")
        return None
