"""llama.h, samplers. Only those that choose a token from logits; the others stand in _llama_later."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ._core import Sampler
from ._handles import context_of

if TYPE_CHECKING:
    from ._params import llama_sampler_chain_params
    from ._typing import ContextLike, llama_token_data_array


def llama_sampler_chain_init(params: llama_sampler_chain_params | None = None) -> Sampler:
    """An empty chain of samplers."""
    return Sampler.chain()


def llama_sampler_chain_add(chain: Sampler, smpl: Sampler) -> None:
    """Appends a sampler. It belongs to the chain from then on; freeing it alone does nothing. ValueError: in a chain already."""
    chain.add(smpl)


def llama_sampler_chain_get(chain: Sampler, i: int) -> Sampler | None:
    """Member i, None if there is none. It belongs to the chain."""
    return chain.get(i)


def llama_sampler_chain_n(chain: Sampler) -> int:
    """Number of members."""
    return len(chain)


def llama_sampler_chain_remove(chain: Sampler, i: int) -> Sampler | None:
    """Takes member i out and gives it to the caller; None if there is none."""
    return chain.remove(i)


def llama_sampler_init_greedy() -> Sampler:
    """Chooses the first maximum."""
    return Sampler.greedy()


def llama_sampler_init_dist(seed: int) -> Sampler:
    """Draws by probability. Seed 0xFFFFFFFF: a random one."""
    return Sampler.dist(seed)


def llama_sampler_init_top_k(k: int) -> Sampler:
    """Keeps the k largest, all if k <= 0."""
    return Sampler.top_k(k)


def llama_sampler_init_top_p(p: float, min_keep: int) -> Sampler:
    """Keeps the smallest set of candidates with probability p."""
    return Sampler.top_p(p, min_keep)


def llama_sampler_init_min_p(p: float, min_keep: int) -> Sampler:
    """Keeps candidates of at least p times the largest probability."""
    return Sampler.min_p(p, min_keep)


def llama_sampler_init_temp(t: float) -> Sampler:
    """Divides logits by t; t <= 0 leaves the largest only."""
    return Sampler.temp(t)


def llama_sampler_name(smpl: Sampler) -> bytes:
    """bytes: chain, greedy, dist, top-k, top-p, min-p, temp."""
    return smpl.name.encode()


def llama_sampler_accept(smpl: Sampler, token: int) -> None:
    """Tells the sampler which token was taken."""
    smpl.accept(token)


def llama_sampler_apply(smpl: Sampler, cur_p: llama_token_data_array) -> None:
    """Applies the sampler to a llama_token_data_array, in place."""
    smpl.apply(cur_p)


def llama_sampler_reset(smpl: Sampler) -> None:
    """Back to the state at the start."""
    smpl.reset()


def llama_sampler_clone(smpl: Sampler) -> Sampler:
    """A copy with the same state."""
    return smpl.clone()


def llama_sampler_free(smpl: Sampler | None) -> None:
    """Frees a sampler; a chain with its members. None, repeated calls and members of a chain: nothing happens."""
    if smpl is not None:
        smpl.free()


def llama_sampler_get_seed(smpl: Sampler) -> int:
    """Seed in use, of a chain's last member that has one; 0xFFFFFFFF: none."""
    return smpl.seed


def llama_sampler_sample(smpl: Sampler, ctx: ContextLike, idx: int) -> int:
    """Chooses a token from the logits of batch index idx and accepts it.

    Raises
    ------
    ValueError
        The index has no logits.
    RuntimeError
        The chain has no sampler that chooses.
    """
    try:
        rows = context_of(ctx).logits_ith(idx)
    except IndexError as e:
        raise ValueError(str(e)) from None
    return smpl.sample(rows)
