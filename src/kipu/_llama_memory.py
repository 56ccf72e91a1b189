"""llama.h, memory: one set of functions under its three generations of names, and sizes of states.

A memory or a context is taken wherever either is expected. None stands for the memory of a context that has none: operations do nothing,
removing succeeds, positions are -1.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ._handles import context_of, memory_of

if TYPE_CHECKING:
    from ._typing import ContextLike, MemoryHandle, MemoryLike


def llama_get_memory(ctx: ContextLike) -> MemoryHandle | None:
    """The memory of a context, the same object as long as somebody holds it. None: the model was loaded with vocab_only."""
    return context_of(ctx).memory


def llama_memory_clear(mem: MemoryLike | None, data: bool = True) -> None:
    """Empties the memory, every sequence."""
    memory = memory_of(mem)
    if memory is not None:
        memory.clear(data)


def llama_memory_seq_rm(mem: MemoryLike | None, seq_id: int, p0: int, p1: int) -> bool:
    """Removes positions [p0, p1) of a sequence, of all sequences if seq_id < 0. True: done."""
    memory = memory_of(mem)
    return True if memory is None else memory.seq_rm(seq_id, p0, p1)


def llama_memory_seq_cp(mem: MemoryLike | None, seq_id_src: int, seq_id_dst: int, p0: int, p1: int) -> None:
    """Makes positions [p0, p1) of the first sequence also belong to the second. Nothing is copied."""
    memory = memory_of(mem)
    if memory is not None:
        memory.seq_cp(seq_id_src, seq_id_dst, p0, p1)


def llama_memory_seq_keep(mem: MemoryLike | None, seq_id: int) -> None:
    """Removes all other sequences."""
    memory = memory_of(mem)
    if memory is not None:
        memory.seq_keep(seq_id)


def llama_memory_seq_pos_min(mem: MemoryLike | None, seq_id: int) -> int:
    """Smallest position of a sequence, -1 if it is empty."""
    memory = memory_of(mem)
    return -1 if memory is None else memory.seq_pos_min(seq_id)


def llama_memory_seq_pos_max(mem: MemoryLike | None, seq_id: int) -> int:
    """Largest position of a sequence, -1 if it is empty."""
    memory = memory_of(mem)
    return -1 if memory is None else memory.seq_pos_max(seq_id)


def llama_memory_can_shift(mem: MemoryLike | None) -> bool:
    """Whether positions can be moved."""
    memory = memory_of(mem)
    return False if memory is None else memory.can_shift()


def llama_kv_self_clear(ctx: MemoryLike | None) -> None:
    """Empties the memory, every sequence."""
    llama_memory_clear(ctx, True)


def llama_kv_self_n_tokens(ctx: MemoryLike | None) -> int:
    """Sum over sequences below n_seq_max of pos_max - pos_min + 1."""
    memory = memory_of(ctx)
    return 0 if memory is None else memory.n_tokens(memory.context.resolved.n_seq_max)


def llama_kv_self_update(ctx: MemoryLike | None) -> None:
    """Applies what is pending; nothing ever is yet."""
    memory_of(ctx)


# ------------------------------------------------------------------------------------------------ size of the state

def llama_state_get_size(ctx: ContextLike) -> int:
    """Bytes of the state as a file would hold it now: outputs and memory."""
    context = context_of(ctx)
    hp, r, n_outputs = context.model.hp, context.resolved, context.n_outputs
    outputs = 4 + 4 * n_outputs + 8 + 4 * n_outputs * hp.n_vocab + 8
    n_window = sum(hp.swa_layers) if r.n_cells_window else 0
    caches = _cache_size(context, False, hp.n_layer - n_window) + (_cache_size(context, True, n_window) if r.n_cells_window else 0)
    return 4 + len(hp.arch.encode()) + outputs + caches


def _cache_size(context, window, n_layer):
    """u32 cells; cells: i32 pos, u32 n_seq, i32[n_seq]; u32 v_trans; u32 n_layer; K layers: 12 + rows; V layers: 12 + rows."""
    hp, r = context.model.hp, context.resolved
    item = {0: 4, 1: 2}
    row = hp.n_head_kv * (hp.head_dim_k * item[r.type_k] + hp.head_dim_v * item[r.type_v])
    cells = context.memory.cell_sequences(window)
    return 4 + sum(8 + 4 * n_seq for n_seq in cells) + 8 + n_layer * (24 + len(cells) * row)


# ------------------------------------------------------------------------------------------------ older names

llama_get_state_size = llama_state_get_size
llama_get_kv_self = llama_get_memory
llama_kv_self_used_cells = llama_kv_self_n_tokens
llama_kv_self_seq_rm = llama_kv_cache_seq_rm = llama_memory_seq_rm
llama_kv_self_seq_cp = llama_kv_cache_seq_cp = llama_memory_seq_cp
llama_kv_self_seq_keep = llama_kv_cache_seq_keep = llama_memory_seq_keep
llama_kv_self_seq_pos_min = llama_memory_seq_pos_min
llama_kv_self_seq_pos_max = llama_kv_cache_seq_pos_max = llama_memory_seq_pos_max
llama_kv_self_can_shift = llama_kv_cache_can_shift = llama_memory_can_shift
llama_kv_cache_clear = llama_kv_self_clear
llama_kv_cache_update = llama_kv_self_update
llama_get_kv_cache_token_count = llama_kv_self_n_tokens
llama_get_kv_cache_used_cells = llama_kv_self_used_cells
