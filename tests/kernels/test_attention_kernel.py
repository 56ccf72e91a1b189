"""The attention step against a softmax in float64.

Error: a score is a chain of d_k fma and a product, so |ds_j| <= e_j = (d_k + 1) 2^-24 scale sum |q_i k_ij|. A softcap adds 2 rounded
operations and 2e-7 * softcap of tanh. With E the largest e_j, and exp good to 2e-7 of a rounded argument (|s - m| 2^-24), each weight p_j
is right to eps = 2 E + 2e-7 + max|s - m| 2^-24 relative (the maximum moves by at most E too). Summing n weights and values adds one
rounding per cell, and rescaling one per step: (n + 3 steps) 2^-24. Numerator and denominator both:

    |o/l - o64| <= 2 (eps + (n + 3 steps) 2^-24) sum_j P_j |v_j|      with P_j the true weights
"""
import numpy as np
import pytest
from kernel_tools import TIERS, same_bits

from kipu import _core

F32, F16 = 0, 1
KINDS = {F32: np.float32, F16: np.float16}


class Cache:
    """K and V of some positions of one sequence, kept in blocks of 16; absent positions hold NaN."""

    def __init__(self, rng, present, d_k, d_v, type_k, type_v):
        n = -(-len(present) // 64) * 64
        self.present = np.zeros(n, bool)
        self.present[:len(present)] = present
        self.k = rng.standard_normal((n, d_k)).astype(KINDS[type_k])
        self.v = rng.standard_normal((n, d_v)).astype(KINDS[type_v])
        self.k[~self.present], self.v[~self.present] = np.nan, np.nan

    def blocks(self, first):
        """K blocks, V blocks (None where nothing is present), V stride, present bits of the 64 positions from `first`."""
        k, v = [], []
        for i in range(first, first + 64, 16):
            here = self.present[i:i + 16].any()
            k.append(np.ascontiguousarray(self.k[i:i + 16].T).view(np.uint8).reshape(-1) if here else None)
            v.append(self.v[i:i + 16].view(np.uint8).reshape(-1) if here else None)
        bits = sum(1 << j for j in range(64) if self.present[first + j])
        return k, v, self.v.shape[1] * self.v.itemsize, bits


def bits_of(row):
    return sum(1 << j for j in range(64) if row[j])


def run(tier, cache, q, visible, head, first=0, last=None):
    """State (m, l, o) of all rows after the chunks of positions first .. last."""
    n, d_v = len(q), head[1]
    m, l, o = np.full(n, -np.inf, np.float32), np.zeros(n, np.float32), np.zeros((n, d_v), np.float32)
    for at in range(first, last or len(cache.present), 64):
        k, v, stride, present = cache.blocks(at)
        mask = np.array([bits_of(row[at:at + 64]) for row in visible], np.uint64)
        _core._kernel_attention(tier, m, l, o.reshape(-1), q.reshape(-1), mask, head, k, v, stride, present)
    return m, l, o


def softmax64(cache, q, visible, head):
    """Result and error bound of each row, NaN where a row sees nothing."""
    d_k, d_v, _, _, scale, softcap = head
    out, bound = np.full((len(q), d_v), np.nan), np.full((len(q), d_v), np.nan)
    for r in range(len(q)):
        seen = visible[r] & cache.present
        if not seen.any():
            continue
        k, v = cache.k[seen].astype(np.float64), cache.v[seen].astype(np.float64)
        s = k @ q[r].astype(np.float64) * scale
        e = (d_k + 1) * 2.0**-24 * abs(scale) * (np.abs(k) @ np.abs(q[r])).max()
        if softcap:
            s = softcap * np.tanh(s / softcap)
            e += softcap * (2e-7 + 2 * 2.0**-24)
        p = np.exp(s - s.max())
        p /= p.sum()
        eps = 2 * e + 2e-7 + (s.max() - s.min()) * 2.0**-24
        out[r] = p @ v
        bound[r] = 2 * (eps + (len(k) + 3 * len(cache.present) / 64) * 2.0**-24) * (p @ np.abs(v))
    return out, bound


def example(seed, d_k, d_v, type_k, type_v, n_positions=150, n_rows=9, softcap=0.0, density=0.8):
    rng = np.random.default_rng(seed)
    cache = Cache(rng, rng.random(n_positions) < density, d_k, d_v, type_k, type_v)
    q = rng.standard_normal((n_rows, d_k)).astype(np.float32)
    visible = rng.random((n_rows, len(cache.present))) < 0.7
    visible[0] = False
    visible[-1] = True
    return cache, q, visible, (d_k, d_v, type_k, type_v, 1 / np.sqrt(d_k), softcap)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("type_k, type_v", [(F16, F16), (F32, F32), (F16, F32), (F32, F16)])
@pytest.mark.parametrize("d_k, d_v", [(1, 1), (2, 3), (8, 16), (20, 20), (64, 64), (80, 80), (96, 128), (256, 256)])
@pytest.mark.parametrize("softcap", [0.0, 20.0])
def test_against_float64(tier, d_k, d_v, type_k, type_v, softcap):
    cache, q, visible, head = example(d_k, d_k, d_v, type_k, type_v, softcap=softcap)
    m, l, o = run(tier, cache, q, visible, head)
    want, bound = softmax64(cache, q, visible, head)
    assert np.isneginf(m[0]) and l[0] == 0 and not o[0].any(), "a row that sees nothing is untouched"
    assert np.all(np.abs(o[1:] / l[1:, None] - want[1:]) <= bound[1:])


@pytest.mark.parametrize("tier", TIERS)
def test_one_visible_cell_gives_its_value(tier):
    cache, q, visible, head = example(1, 64, 64, F16, F16, density=1)
    visible[:] = False
    for r in range(len(q)):
        visible[r, 17 * r] = True
    m, l, o = run(tier, cache, q, visible, head)
    assert np.all(l == 1)
    assert same_bits(o, cache.v[[17 * r for r in range(len(q))]].astype(np.float32))


@pytest.mark.parametrize("tier", TIERS)
def test_rows_do_not_meet(tier):
    cache, q, visible, head = example(2, 64, 80, F16, F16, n_rows=23)
    together = run(tier, cache, q, visible, head)
    for r in range(len(q)):
        alone = run(tier, cache, q[r:r + 1], visible[r:r + 1], head)
        assert all(same_bits(a[0], t[r]) for a, t in zip(alone, together))


@pytest.mark.parametrize("tier", TIERS)
def test_steep_scores_underflow_to_zero(tier):
    """With scores hundreds apart the largest wins alone, without NaN."""
    cache, q, visible, head = example(3, 16, 16, F32, F32, density=1)
    head = (*head[:4], 1e4, 0.0)
    m, l, o = run(tier, cache, q, visible, head)
    for r in range(1, len(q)):
        seen = visible[r] & cache.present
        best = np.flatnonzero(seen)[np.argmax(cache.k[seen] @ q[r])]
        assert l[r] == 1 and same_bits(o[r], cache.v[best])


@pytest.mark.parametrize("tier", TIERS)
def test_merge(tier):
    cache, q, visible, head = example(4, 32, 48, F16, F16, n_positions=320)
    visible[1, :128] = False
    visible[2, 128:] = False
    state = run(tier, cache, q, visible, head, 0, 128)
    later = run(tier, cache, q, visible, head, 128)
    first, second = [s.copy() for s in state], [s.copy() for s in later]
    _core._kernel_attention_merge(tier, state[0], state[1], state[2].reshape(-1), later[0], later[1], later[2].reshape(-1))
    assert all(same_bits(s[1], l[1]) for s, l in zip(state, second)), "only the later piece saw something: a copy"
    assert all(same_bits(s[2], f[2]) for s, f in zip(state, first)), "only the earlier piece saw something: untouched"
    want, bound = softmax64(cache, q, visible, head)
    assert np.isneginf(state[0][0]) and state[1][0] == 0
    assert np.all(np.abs(state[2][1:] / state[1][1:, None] - want[1:]) <= bound[1:] + 8 * 2.0**-24 * np.abs(want[1:]))
