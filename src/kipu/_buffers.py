"""Numbers from the outside as numpy arrays: anything with the buffer protocol (numpy, array, bytes, ctypes arrays) or a sequence.

Kept apart from the compiled module, which calls in here for whatever is not already in the right form.
"""
import numpy as np


def _as_array(values, name):
    try:
        return np.asarray(values)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be a buffer or a sequence of numbers") from None


def int32_array(values, name):
    """C-contiguous int32 array with the values of `values`, sharing memory where the form allows it.

    Raises ValueError where a value does not fit 32 bits, TypeError where it is not an integer; the message names `name`.
    """
    array = _as_array(values, name)
    if array.size and array.dtype.kind not in "iub":
        raise TypeError(f"{name} must hold integers, got {array.dtype}")
    if array.size and array.dtype != np.int32 and not (-(2**31) <= array.min() and array.max() < 2**31):
        raise ValueError(f"{name} must hold values of 32 bits, got {array.min()}..{array.max()}")
    return np.ascontiguousarray(array, np.int32)


def id_rows(rows, name):
    """Lists of sequence ids, one list per token -> (int32 array (n, width), list of lengths)."""
    if isinstance(rows, np.ndarray):
        array = int32_array(rows, name)
        array = array.reshape(-1, 1) if array.ndim == 1 else array
        if array.ndim != 2:
            raise ValueError(f"{name} must have shape (n_tokens, n_seq_max), got {array.shape}")
        return array, [array.shape[1]] * len(array)
    lists = [int32_array(row, name).reshape(-1) for row in rows]
    array = np.zeros((len(lists), max([len(x) for x in lists] + [1])), np.int32)
    for out, ids in zip(array, lists):
        out[: len(ids)] = ids
    return array, [len(ids) for ids in lists]


def flag_array(values, name):
    """Flags of any number type -> C-contiguous int8 array of 0 and 1."""
    return np.ascontiguousarray(_as_array(values, name) != 0, np.int8)


def float_array(values, name):
    """C-contiguous float32 array, sharing memory where the form allows it."""
    array = _as_array(values, name)
    if array.size and array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers, got {array.dtype}")
    return np.ascontiguousarray(array, np.float32)


def writable_bytes(buffer, name):
    """A buffer of any item type as a writable uint8 view. TypeError: no buffer, or read-only."""
    try:
        view = np.frombuffer(buffer, np.uint8)
    except (TypeError, ValueError, BufferError):
        if getattr(buffer, "nbytes", None) == 0 or (hasattr(buffer, "__len__") and len(buffer) == 0):
            return np.empty(0, np.uint8)
        raise TypeError(f"{name} must be a contiguous writable buffer, got {type(buffer).__name__}") from None
    if not view.flags.writeable:
        raise TypeError(f"{name} must be writable, got a read-only {type(buffer).__name__}")
    return view


def capacity(size, available, name):
    """A size argument that only repeats the length of a buffer: None means the length; more than there is: ValueError."""
    if size is None:
        return available
    if size > available:
        raise ValueError(f"{name} is {size}, but the buffer holds {available}")
    return max(0, int(size))


def text_bytes(text, name):
    """Text as bytes: bytes-like as it is, str as UTF-8."""
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    try:
        return bytes(memoryview(text))
    except TypeError:
        raise TypeError(f"{name} must be bytes or str, got {type(text).__name__}") from None
