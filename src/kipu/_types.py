"""The scalar and struct types of llama.h, as far as Python programs name them.

`(llama_token * n)(*ids)` is an int32 array of n items, `llama_token(5)` an int; structs multiply to structured arrays.
"""
from typing import NamedTuple

import numpy as np


class _ArrayType:
    """What `type * n` gives: call it with up to n values to get the array, zero where none is given."""

    def __init__(self, dtype, n):
        self.dtype, self.n = np.dtype(dtype), n

    def __call__(self, *values):
        if len(values) > self.n:
            raise IndexError(f"an array of {self.n} items cannot hold {len(values)} values")
        out = np.zeros(self.n, self.dtype)
        if values:
            out[: len(values)] = values
        return out


class _Scalar(type):
    """A type whose calls give plain Python numbers and whose products are array types."""

    def __call__(cls, value=0):
        low, high = np.iinfo(cls.dtype).min, np.iinfo(cls.dtype).max
        number = int(value)
        if not low <= number <= high:
            raise ValueError(f"{cls.__name__} must be in {low}..{high}, got {number}")
        return number

    def __mul__(cls, n):
        return _ArrayType(cls.dtype, n)

    __rmul__ = __mul__


class llama_token(metaclass=_Scalar):
    """Token id, int32."""

    dtype = np.int32


class llama_pos(metaclass=_Scalar):
    """Position in a sequence, int32."""

    dtype = np.int32


class llama_seq_id(metaclass=_Scalar):
    """Sequence id, int32."""

    dtype = np.int32


class _Struct(type):
    """A type whose calls give one record and whose products are array types."""

    def __call__(cls, *values, **named):
        record = np.zeros((), cls.dtype)
        for name, value in [*zip(cls.dtype.names, values), *named.items()]:
            record[name] = value
        return record[()]

    def __mul__(cls, n):
        return _ArrayType(cls.dtype, n)

    __rmul__ = __mul__


class llama_token_data(metaclass=_Struct):
    """A candidate: id, logit, p."""

    dtype = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class llama_logit_bias(metaclass=_Struct):
    """A token and what is added to its logit."""

    dtype = np.dtype([("token", np.int32), ("bias", np.float32)])


class llama_token_data_array:
    """Candidates that samplers sort, cut and choose from.

    Attributes
    ----------
    data : structured array of llama_token_data.dtype; may be longer than size.
    size : int, candidates in use.
    selected : int, index of the chosen one, -1 none.
    sorted : bool, by logit, descending.
    """

    def __init__(self, data, size=None, selected=-1, sorted=False):
        self.data = np.ascontiguousarray(data, llama_token_data.dtype)
        self.size = len(self.data) if size is None else size
        self.selected, self.sorted = selected, sorted

    @classmethod
    def from_logits(cls, logits):
        """All tokens of a row of logits."""
        data = np.zeros(len(logits), llama_token_data.dtype)
        data["id"], data["logit"] = np.arange(len(logits)), logits
        return cls(data)

    def __len__(self):
        return self.size


class llama_chat_message(NamedTuple):
    """One message of a conversation, for chat templates."""

    role: str
    content: str


class llama_model_kv_override(NamedTuple):
    """One metadata override; the type follows from the value (int, float, bool, str)."""

    key: str
    value: object
