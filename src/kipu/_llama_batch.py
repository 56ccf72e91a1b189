"""llama.h, batches."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._buffers import int32_array
from ._core import Batch

if TYPE_CHECKING:
    from ._typing import Numbers


def llama_batch_init(n_tokens: int, embd: int = 0, n_seq_max: int = 1) -> Batch:
    """A batch with room for n_tokens tokens, all zero, n_tokens field 0.

    Parameters
    ----------
    n_tokens : int >= 0, capacity.
    embd : int, 0: token ids; else the width of input vectors, and `token` is None.
    n_seq_max : int >= 1, sequence ids per token.
    """
    for name, value, low in (("n_tokens", n_tokens, 0), ("embd", embd, 0), ("n_seq_max", n_seq_max, 0)):
        if not low <= value < 2**31:
            raise ValueError(f"{name} must be in {low}..2^31-1, got {value}")
    batch = Batch()
    if embd:
        batch.embd = np.zeros((n_tokens, embd), np.float32)
    else:
        batch.token = np.zeros(n_tokens, np.int32)
    batch.pos = np.zeros(n_tokens, np.int32)
    batch.n_seq_id = np.zeros(n_tokens, np.int32)
    batch.seq_id = np.zeros((n_tokens, n_seq_max), np.int32)
    batch.logits = np.zeros(n_tokens, np.int8)
    return batch


def llama_batch_get_one(tokens: Numbers, n_tokens: int | None = None, pos_0: int | None = None, seq_id: int | None = None) -> Batch:
    """A batch of these tokens that continues sequence 0 and gives logits of the last one. It shares the memory of int32 buffers.

    The old form with pos_0 and seq_id starts at that position of that sequence.
    """
    token = int32_array(tokens, "tokens").reshape(-1)
    n = len(token) if n_tokens is None else n_tokens
    if n > len(token):
        raise ValueError(f"n_tokens is {n}, but there are {len(token)} tokens")
    batch = Batch()
    batch.token, batch.n_tokens = token, n
    if pos_0 is not None:
        batch.pos = np.arange(pos_0, pos_0 + max(n, 0), dtype=np.int32)
    if seq_id is not None:
        batch.n_seq_id = np.ones(max(n, 0), np.int32)
        batch.seq_id = np.full((max(n, 0), 1), seq_id, np.int32)
    return batch


def llama_batch_free(batch: Batch) -> None:
    """Drops the arrays. Any number of times, also for batches of llama_batch_get_one."""
    batch.free()
