"""Batches: fields, buffers of every kind, hostile contents."""
import array
import ctypes

import numpy as np
import pytest

import kipu


def full_batch(tokens, n_seq_max=1):
    b = kipu.llama_batch_init(len(tokens), 0, n_seq_max)
    for i, t in enumerate(tokens):
        b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = t, i, 1, 0, True
    b.n_tokens = len(tokens)
    return b


def expected(ctx, tokens):
    kipu.llama_memory_clear(ctx)
    assert kipu.llama_decode(ctx, kipu.llama_batch_get_one(tokens)) == 0
    out = kipu.llama_get_logits_ith(ctx, -1)
    kipu.llama_memory_clear(ctx)
    return out


def test_shapes_of_a_new_batch():
    b = kipu.llama_batch_init(5, 0, 3)
    assert (b.n_tokens, b.token.shape, b.pos.dtype, b.seq_id.shape, b.logits.dtype, b.embd) == (0, (5,), np.int32, (5, 3), np.int8, None)
    v = kipu.llama_batch_init(5, 8, 1)
    assert v.token is None and v.embd.shape == (5, 8) and v.embd.dtype == np.float32


def test_filled_by_hand_equals_get_one(ctx):
    want = expected(ctx, [5, 6, 7])
    assert kipu.llama_decode(ctx, full_batch([5, 6, 7])) == 0
    assert (kipu.llama_get_logits_ith(ctx, 2) == want).all()


@pytest.mark.parametrize("make", [list, tuple, lambda x: np.array(x, np.int32), lambda x: np.array(x, np.int64),
                                  lambda x: np.array(x, np.uint8),
                                  lambda x: array.array("i", x), lambda x: memoryview(array.array("i", x)),
                                  lambda x: (ctypes.c_int32 * len(x))(*x),
                                  lambda x: (kipu.llama_token * len(x))(*x), lambda x: np.array([x, x], np.int32).T[:, 0],
                                  lambda x: range(5, 8)])
def test_tokens_from_anything(ctx, make):
    want = expected(ctx, [5, 6, 7])
    assert kipu.llama_decode(ctx, kipu.llama_batch_get_one(make([5, 6, 7]), 3)) == 0
    assert (kipu.llama_get_logits_ith(ctx, -1) == want).all()
    kipu.llama_memory_clear(ctx)
    b = full_batch([5, 6, 7])
    b.token = make([5, 6, 7])
    assert kipu.llama_decode(ctx, b) == 0
    assert (kipu.llama_get_logits_ith(ctx, 2) == want).all()


def test_get_one_shares_memory():
    tokens = np.array([1, 2], np.int32)
    b = kipu.llama_batch_get_one(tokens)
    tokens[0] = 9
    assert b.token[0] == 9 and b.pos is None and b.logits is None and b.n_tokens == 2


def test_get_one_in_its_old_form(ctx):
    b = kipu.llama_batch_get_one([5, 6], 2, 3, 1)
    assert list(b.pos) == [3, 4] and b.seq_id[1][0] == 1
    assert kipu.llama_decode(ctx, b) == 0
    low, high = kipu.llama_memory_seq_pos_min, kipu.llama_memory_seq_pos_max
    assert [low(ctx, 1), high(ctx, 1), high(ctx, 0)] == [3, 4, -1]


@pytest.mark.parametrize("tokens, n, error", [([1, 2], 3, ValueError), ([2**31], None, ValueError), ([1.5], None, TypeError),
                                              (["a"], None, TypeError)])
def test_get_one_refuses(tokens, n, error):
    with pytest.raises(error):
        kipu.llama_batch_get_one(tokens, n)


@pytest.mark.parametrize("args", [(-1, 0, 1), (1, -1, 1), (1, 0, -1), (2**31, 0, 1)])
def test_init_refuses(args):
    with pytest.raises(ValueError):
        kipu.llama_batch_init(*args)


@pytest.mark.parametrize("n", [-1, -2**31, 2**31 - 1, 4])
def test_n_tokens_that_the_arrays_do_not_have(ctx, n):
    b = full_batch([5, 6, 7])
    b.n_tokens = n
    with pytest.raises(ValueError):
        kipu.llama_decode(ctx, b)
    assert kipu.llama_memory_seq_pos_max(ctx, 0) == -1


@pytest.mark.parametrize("n, error", [(2**31, ValueError), (1.5, TypeError), (None, TypeError), ("3", TypeError)])
def test_n_tokens_of_another_kind(n, error):
    with pytest.raises(error):
        kipu.llama_batch_init(3).n_tokens = n


@pytest.mark.parametrize("field, value", [
    ("token", [5]), ("pos", np.zeros(2, np.int32)), ("logits", b"\1"), ("seq_id", [[0]]), ("seq_id", np.zeros((2, 1), np.int32)),
    ("n_seq_id", [1, 1]), ("n_seq_id", [1, 1, 2]), ("seq_id", [[0], [0], []]), ("token", ["a", "b", "c"]), ("token", [1.5, 2.5, 3.5]),
    ("token", [2**40] * 3), ("pos", object()), ("seq_id", 7), ("seq_id", np.zeros((3, 1, 1), np.int32)), ("token", [[1], [2, 3], [4]])])
def test_hostile_arrays_raise_and_change_nothing(ctx, field, value):
    b = full_batch([5, 6, 7])
    setattr(b, field, value)
    with pytest.raises((ValueError, TypeError)):
        kipu.llama_decode(ctx, b)
    assert kipu.llama_memory_seq_pos_max(ctx, 0) == -1


@pytest.mark.parametrize("changes, code", [
    ({"n_tokens": 0}, -1), ({"token": [5, 6, 64]}, -1), ({"token": [5, -1, 6]}, -1), ({"seq_id": [[0], [0], [64]]}, -1),
    ({"seq_id": [[0], [-1], [0]]}, -1),
    ({"pos": [0, 1, 3]}, -1), ({"pos": [2, 1, 0]}, 0), ({"logits": [0, 0, 0]}, 0), ({"logits": None}, 0), ({"pos": None}, 0),
    ({"seq_id": None}, 0),
    ({"n_seq_id": None}, 0), ({"seq_id": [[0], [0], [0]], "n_seq_id": [1, 1, -7]}, -1), ({"logits": np.array([1.0, 0.0, 0.5])}, 0),
    ({"seq_id": [0, 0, 0]}, 0), ({"seq_id": [[0, 1], [0, 1], [0, 1]], "n_seq_id": [2, 2, 2]}, 0)])
def test_codes(ctx, log, changes, code):
    b = full_batch([5, 6, 7])
    for field, value in changes.items():
        if field == "seq_id" and value == [0, 0, 0]:
            value = np.array(value, np.int32)
        setattr(b, field, value)
    assert kipu.llama_decode(ctx, b) == code
    assert bool(log) == (code != 0)
    assert kipu.llama_memory_seq_pos_max(ctx, 0) == (2 if code == 0 else -1)


def test_token_and_embd_both_or_neither(ctx):
    b = full_batch([5])
    b.embd = np.zeros((1, 64), np.float32)
    with pytest.raises(ValueError, match="both"):
        kipu.llama_decode(ctx, b)
    b.embd = b.token = None
    with pytest.raises(ValueError, match="neither"):
        kipu.llama_decode(ctx, b)


def test_embeddings_as_input(ctx):
    v = kipu.llama_batch_init(2, 64, 1)
    v.embd[:] = np.random.default_rng(1).standard_normal((2, 64))
    v.pos[:], v.n_seq_id[:], v.logits[:], v.n_tokens = [0, 1], 1, 1, 2
    assert kipu.llama_decode(ctx, v) == 0
    first = kipu.llama_get_logits(ctx)
    kipu.llama_memory_clear(ctx)
    v.embd = v.embd.astype(np.float64).ravel()
    assert kipu.llama_decode(ctx, v) == 0
    assert (kipu.llama_get_logits(ctx) == first).all()
    for bad in (np.zeros((2, 63), np.float32), np.zeros(127, np.float32), ["a"] * 128):
        v.embd = bad
        with pytest.raises((ValueError, TypeError)):
            kipu.llama_decode(ctx, v)


def test_batch_larger_than_n_batch(ctx):
    with pytest.raises(ValueError, match="n_batch"):
        kipu.llama_decode(ctx, kipu.llama_batch_get_one([1] * 65))


def test_free(ctx):
    for b in (full_batch([5]), kipu.llama_batch_get_one([5])):
        kipu.llama_batch_free(b)
        kipu.llama_batch_free(b)
        with pytest.raises(ValueError, match="freed"):
            kipu.llama_decode(ctx, b)
