"""Samplers against numpy."""
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kipu._core import Sampler

DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
SETTINGS = settings(max_examples=200, deadline=None, database=None, derandomize=True)
FLOATS = st.floats(-30, 30, width=32)
LOGITS = st.lists(FLOATS, min_size=1, max_size=200).map(lambda x: np.array(x, np.float32))
ODD = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0])
HARD = st.lists(st.one_of(FLOATS, ODD), min_size=1, max_size=100).map(lambda x: np.array(x, np.float32))


def candidates(logits, sorted_=False):
    data = np.zeros(len(logits), DATA)
    data["id"], data["logit"] = np.arange(len(logits)), logits
    if sorted_:
        data = data[np.argsort(-data["logit"], kind="stable")].copy()
    return SimpleNamespace(data=data, size=len(data), selected=-1, sorted=sorted_)


def applied(sampler, logits, sorted_=False):
    c = candidates(logits, sorted_)
    sampler.apply(c)
    return c


def kept(c):
    return c.data["id"][:c.size].tolist()


def order(logits):
    """Stable, descending."""
    return np.argsort(-logits, kind="stable")


def softmax(sorted_logits):
    """In float, summed in order."""
    p = np.exp(sorted_logits - sorted_logits[0], dtype=np.float32)
    total = np.float32(0)
    for x in p:
        total += x
    return p / total


# ---- filters

@SETTINGS
@given(LOGITS, st.integers(-1, 210), st.booleans())
def test_top_k(logits, k, sorted_):
    c = applied(Sampler.top_k(k), logits, sorted_)
    if k <= 0:
        assert kept(c) == (order(logits).tolist() if sorted_ else list(range(len(logits))))
    else:
        assert kept(c) == order(logits)[:k].tolist() and c.sorted is True


@pytest.mark.parametrize("n,k", [(100_000, 1), (100_000, 40), (100_000, 5000), (100_000, 49_488), (100_000, 99_999), (65, 64), (1026, 1),
                                 (5000, 1000)])
@pytest.mark.parametrize("kind", ["random", "ascending", "descending", "equal", "few values"])
def test_top_k_of_many(n, k, kind):
    rng = np.random.default_rng(n + k)
    logits = {"random": rng.standard_normal(n), "ascending": np.arange(n) / 7, "descending": -np.arange(n) / 7, "equal": np.full(n, 2.5),
              "few values": rng.integers(-3, 3, n) * 1.5}[kind].astype(np.float32)
    assert kept(applied(Sampler.top_k(k), logits)) == order(logits)[:k].tolist()


@SETTINGS
@given(LOGITS, st.floats(0, 1.25, width=32), st.integers(0, 10))
def test_top_p(logits, p, keep):
    c = applied(Sampler.top_p(p, keep), logits)
    if p >= 1:
        assert kept(c) == list(range(len(logits)))
        return
    by = order(logits)
    probability = c.data["p"][:c.size].astype(np.float32)
    assert kept(c) == by[:c.size].tolist() and c.size >= min(keep, len(logits), 1)
    assert np.allclose(probability, softmax(logits[by])[:c.size], rtol=1e-5, atol=1e-12)
    total, size = np.float32(0), len(logits)
    for i in range(c.size):   # the last one kept is the first that reaches p with enough kept
        total += probability[i]
        if total >= np.float32(p) and i + 1 >= keep:
            size = i + 1
            break
    assert c.size == size


@SETTINGS
@given(LOGITS, st.floats(-0.5, 1.5, width=32), st.integers(0, 10), st.booleans())
def test_min_p(logits, p, keep, sorted_):
    c = applied(Sampler.min_p(p, keep), logits, sorted_)
    start = order(logits) if sorted_ else np.arange(len(logits))
    if p <= 0:
        assert kept(c) == start.tolist()
        return
    least = np.float32(logits.max() + np.log(np.float32(p)))
    good = [i for i in start if logits[i] >= least]
    if sorted_ or not good or len(good) < keep:
        good = order(logits)[: min(max(len(good), keep, 1), len(logits))].tolist()
    assert kept(c) == good


@SETTINGS
@given(LOGITS, st.floats(-1, 4, width=32))
def test_temp(logits, t):
    c = applied(Sampler.temp(t), logits)
    if t > 0:
        with np.errstate(over="ignore"):
            want = logits / np.float32(t)
    else:
        want = np.where(np.arange(len(logits)) == np.argmax(logits), logits, -np.inf).astype(np.float32)
    assert np.array_equal(c.data["logit"], want)


# ---- selection

@SETTINGS
@given(LOGITS)
def test_greedy(logits):
    assert Sampler.greedy().sample(logits) == np.argmax(logits)
    assert applied(Sampler.greedy(), logits).selected == np.argmax(logits)


def draw(logits, rng):
    """std::discrete_distribution over the sorted softmax: one double from two 32-bit outputs, low half first."""
    by = order(logits)
    if len(by) < 2:
        return int(by[0])
    p = softmax(logits[by]).astype(np.float64)
    cumulative = np.cumsum(p / np.add.accumulate(p)[-1])
    cumulative[-1] = 1
    low, high = (int(rng.randint(0, 2**32, dtype=np.uint64)) for _ in range(2))
    return int(by[np.searchsorted(cumulative, (low + high * 2.0**32) / 2.0**64)])


@SETTINGS
@given(LOGITS, st.integers(0, 2**32 - 2))
def test_dist(logits, seed):
    """numpy's legacy seeding of MT19937 by a 32-bit number is that of std::mt19937."""
    rng, ours = np.random.RandomState(seed), Sampler.dist(seed)
    same = [ours.sample(logits) == draw(logits, rng) for _ in range(8)]
    assert sum(same) >= 7   # exp of numpy and of the C library may differ in the last bit, and a draw may fall between


def test_dist_known_sequence():
    """Two candidates of equal weight: the upper bit of the draw. First outputs of MT19937 with seed 5489: 3499211612 581869302 ..."""
    ours, rng = Sampler.dist(5489), np.random.RandomState(5489)
    outputs = rng.randint(0, 2**32, size=2000, dtype=np.uint64)
    assert outputs[:2].tolist() == [3499211612, 581869302]
    assert [ours.sample(np.zeros(2, np.float32)) for _ in range(1000)] == [int(high >= 2**31) for high in outputs[1::2]]


def test_dist_frequencies():
    ours = Sampler.dist(7)
    p = np.array([0.5, 0.25, 0.125, 0.125])
    count = np.bincount([ours.sample(np.log(p).astype(np.float32)) for _ in range(4000)], minlength=4)
    assert np.abs(count / 4000 - p).max() < 0.03


def test_one_candidate_draws_nothing():
    ours, other = Sampler.dist(3), Sampler.dist(3)
    ours.sample(np.zeros(1, np.float32))
    assert ours.sample(np.arange(50, dtype=np.float32) / 9) == other.sample(np.arange(50, dtype=np.float32) / 9)


# ---- whatever the logits are

@SETTINGS
@given(HARD, st.integers(1, 120), st.floats(0, 1, width=32), st.floats(-1, 2, width=32))
def test_hard_logits(logits, k, p, t):
    chain = Sampler.chain()
    for s in (Sampler.top_k(k), Sampler.top_p(p), Sampler.min_p(p), Sampler.temp(t), Sampler.dist(1)):
        chain.add(s)
    assert 0 <= chain.sample(logits) < len(logits)
    assert 0 <= Sampler.dist(2).sample(logits) < len(logits)
    best = Sampler.greedy().sample(logits)
    assert best == applied(Sampler.greedy(), logits).selected
    assert best == (0 if np.isnan(logits).all() else np.nanargmax(logits))


def test_nan_is_last():
    logits = np.array([np.nan, 1, np.inf, -np.inf, np.nan, 2], np.float32)
    assert kept(applied(Sampler.top_k(6), logits)) == [2, 5, 1, 3, 0, 4]
    assert Sampler.dist(1).sample(np.full(9, np.nan, np.float32)) == 0
    assert {Sampler.dist(s).sample(np.array([np.nan, 1, np.nan], np.float32)) for s in range(20)} == {1}
    many = np.full(5000, np.nan, np.float32)
    many[4000:4010] = np.arange(10)
    assert kept(applied(Sampler.top_k(10), many)) == list(range(4009, 3999, -1))


# ---- objects

def chain_of(*members):
    chain = Sampler.chain()
    for m in members:
        chain.add(m)
    return chain


def test_names_and_seeds():
    made = [Sampler.chain(), Sampler.greedy(), Sampler.dist(5), Sampler.top_k(1), Sampler.top_p(0.5), Sampler.min_p(0.5), Sampler.temp(1)]
    assert [s.name for s in made] == ["chain", "greedy", "dist", "top-k", "top-p", "min-p", "temp"]
    assert [s.seed for s in made] == [0xFFFFFFFF, 0xFFFFFFFF, 5] + [0xFFFFFFFF] * 4
    assert chain_of(Sampler.dist(1), Sampler.dist(2), Sampler.temp(1)).seed == 2
    assert len({Sampler.dist().seed for _ in range(20)}) > 15


def test_chain_members_and_handles():
    a, b = Sampler.temp(1), Sampler.greedy()
    chain = chain_of(a, b)
    assert len(chain) == 2 and chain.get(0) is a and chain.get(1) is b and chain.get(2) is None and chain.get(-1) is None
    with pytest.raises(ValueError, match="already in a chain"):
        Sampler.chain().add(a)
    with pytest.raises(ValueError, match="no chain"):
        a.add(Sampler.greedy())
    a.free()
    assert not a.freed   # belongs to the chain
    assert chain.remove(0) is a and len(chain) == 1 and chain.get(0) is b
    a.free()
    assert a.freed
    with pytest.raises(ValueError, match="was freed"):
        a.apply(candidates([1.0]))
    chain.free()
    chain.free()
    assert chain.freed and b.freed
    with pytest.raises(ValueError, match="was freed"):
        chain.add(Sampler.greedy())


def test_a_member_keeps_its_chain():
    member = Sampler.greedy()
    chain = chain_of(member)
    del chain
    assert member.sample(np.array([1, 3, 2], np.float32)) == 1


def test_nested_chains():
    outer, inner = Sampler.chain(), chain_of(Sampler.top_k(1), Sampler.dist(1))
    outer.add(inner)
    assert outer.sample(np.array([1, 3, 2], np.float32)) == 1 and outer.seed == 1
    for chain, message in ((outer, "to itself"), (inner, "to itself")):
        with pytest.raises(ValueError, match=message):
            chain.add(outer)
    deepest = inner
    with pytest.raises(ValueError, match="expected at most 16"):
        for _ in range(20):
            deeper = Sampler.chain()
            deepest.add(deeper)
            deepest = deeper


def test_clone_goes_on_alike_and_reset_starts_again():
    logits = np.arange(100, dtype=np.float32) / 20
    chain = chain_of(Sampler.temp(2), Sampler.dist(11))
    first = [chain.sample(logits) for _ in range(5)]
    copy = chain.clone()
    assert [copy.sample(logits) for _ in range(9)] == [chain.sample(logits) for _ in range(9)]
    chain.reset()
    assert [chain.sample(logits) for _ in range(5)] == first
    assert copy.get(1).seed == 11 and copy.remove(0).name == "temp" and len(copy) == 1
    endless = Sampler.dist()
    before = endless.seed
    endless.reset()
    assert endless.seed != before


def test_nothing_selected():
    with pytest.raises(RuntimeError, match="greedy or dist is missing"):
        chain_of(Sampler.top_k(3)).sample(np.zeros(5, np.float32))
    with pytest.raises(RuntimeError, match="greedy or dist is missing"):
        Sampler.chain().sample(np.zeros(5, np.float32))


def test_arguments():
    greedy = Sampler.greedy()
    with pytest.raises(ValueError, match="shape"):
        greedy.sample(np.zeros((0,), np.float32))
    with pytest.raises(ValueError, match="shape"):
        greedy.sample(np.zeros((2, 2), np.float32))
    c = candidates([1.0, 2.0])
    c.size = 3
    with pytest.raises(ValueError, match=r"candidates.size must be 0 to len\(data\) = 2, got 3"):
        greedy.apply(c)
    c.data = np.zeros(3)
    with pytest.raises(ValueError, match="candidates.data"):
        greedy.apply(c)
    empty = candidates([])
    for s in (greedy, Sampler.dist(1), Sampler.top_k(2), Sampler.temp(0), Sampler.min_p(0.5), Sampler.top_p(0.5)):
        s.apply(empty)
    assert empty.selected == -1
    with pytest.raises(TypeError, match="samplers are made by"):
        Sampler()
