"""The last position, and what stands beside it."""
from pathlib import Path

import kipu
import numpy as np
import pytest

LAST = 2**31 - 1
MODEL = Path(__file__).parent.parent / "golden" / "data" / "models" / "llama.gguf"


@pytest.fixture(scope="module")
def model():
    return kipu.Model(MODEL)


@pytest.fixture
def ctx(model):
    return model.context(n_ctx=64, n_seq_max=2, n_threads=1, n_threads_batch=1)


def batch(n, pos0, seq=0, pos=True, embd=None):
    b = kipu.llama_batch_init(n, 0 if embd is None else embd, 1)
    b.n_tokens, b.n_seq_id[:], b.seq_id[:], b.logits[:] = n, 1, seq, 1
    b.pos = np.arange(pos0, pos0 + n, dtype=np.int64).astype(np.int32) if pos else None
    return b


def pos_max(ctx, seq=0):
    return ctx.memory.seq_pos_max(seq)


def decode(ctx, b):
    return ctx.handle.decode(b)[0]


@pytest.mark.parametrize("pos", [True, False])
def test_nothing_comes_behind_the_last_position(ctx, pos):
    assert decode(ctx, batch(3, LAST - 2)) == 0 and pos_max(ctx) == LAST
    assert decode(ctx, batch(1, 0, pos=pos)) == -1
    assert decode(ctx, batch(1, -LAST - 1)) == -1
    assert pos_max(ctx) == LAST


def test_vectors_may_repeat_the_last_position(ctx):
    n_embd = kipu.llama_model_n_embd(ctx.handle.model)
    assert decode(ctx, batch(2, LAST - 1)) == 0
    assert decode(ctx, batch(1, LAST, embd=n_embd)) == 0
    assert decode(ctx, batch(1, 0, embd=n_embd, pos=False)) == -1


def test_a_sequence_at_the_end_does_not_stop_the_others(ctx):
    """A batch without positions looks at the sequences it names, at no other."""
    assert decode(ctx, batch(1, LAST, seq=1)) == 0
    assert decode(ctx, batch(4, 0, pos=False)) == 0
    assert (pos_max(ctx), pos_max(ctx, 1)) == (3, LAST)


def test_up_to_the_last_position_without_positions(ctx):
    assert decode(ctx, batch(2, LAST - 4)) == 0
    assert decode(ctx, batch(3, 0, pos=False)) == 0
    assert pos_max(ctx) == LAST


def test_same_bits_at_the_last_positions(ctx, model):
    """Tokens one by one and together, and far apart from what was removed before."""
    assert decode(ctx, batch(8, LAST - 7)) == 0
    together, other = np.array(ctx.logits), model.context(n_ctx=64, n_threads=1, n_threads_batch=1)
    for i in range(8):
        assert decode(other, batch(1, LAST - 7 + i)) == 0
        assert np.array_equal(np.array(other.logits).view(np.uint32)[0], together.view(np.uint32)[i])
