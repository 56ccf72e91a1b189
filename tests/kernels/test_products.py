"""gemv and gemm against float64, and the quantisation of activations against numpy.

Quantised weights: with x the true activations and s_g the scale of group g, all codes have an error of at most s_g / 2, evenly spread,
so y - y64 = sum_i w_i e_i has
    |dy| <= sum_g s_g / 2 * sum_{i in g} |w_i|  +  float error      (always)
    variance sigma^2 = sum_g s_g^2 / 12 * sum_{i in g} w_i^2        (independent e_i)
One in 5e8 Gaussian values is beyond 6 sigma. RMS(dy / sigma) is a little below 1, because the largest element of each group has no error.
The float error: three roundings per group in each of two sums, 2^-24 each, of partial sums below sum |w_i x_i|.

Float weights: one fma chain, k roundings of partial sums: |dy| <= k 2^-24 sum |w_i x_i| (1 + k 2^-24).
"""
import numpy as np
import pytest
from kernel_tools import FLOATS, QUANTISED, TIERS, dequantize, matmul, pack, quantize, random_rows

from kipu import _core

by_name = dict(ids=lambda t: getattr(t, "name", str(t)))
DISTRIBUTIONS = {"gauss": lambda rng, shape: rng.standard_normal(shape), "student_t3": lambda rng, shape: rng.standard_t(3, shape)}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("type_", QUANTISED, **by_name)
def test_quantised_products(tier, type_, distribution):
    rng = np.random.default_rng(1000 + type_)
    n_rows, n_tokens, k = 21, 768, 512
    rows = random_rows(rng, type_, n_rows, k, scale=0.01)
    w = dequantize(rows, type_).astype(np.float64)
    x = DISTRIBUTIONS[distribution](rng, (n_tokens, k)).astype(np.float32)
    acts = quantize(tier, x)
    panels = pack(tier, type_, rows, k)
    y = matmul(tier, type_, panels, acts, k, 0, n_tokens, n_rows)

    dy = y - x.astype(np.float64) @ w.T
    s = acts[1].reshape(n_tokens, -1).astype(np.float64)
    by_group = w.reshape(n_rows, -1, 32)
    float_error = 6 * k / 32 * 2.0**-24 * (np.abs(x) @ np.abs(w.T))
    assert np.all(np.abs(dy) <= s / 2 @ np.abs(by_group).sum(2).T + float_error)
    sigma = np.sqrt(s**2 / 12 @ (by_group**2).sum(2).T)
    assert np.all(np.abs(dy) <= 6 * sigma)
    assert 0.93 <= np.sqrt(np.mean((dy / sigma)**2)) <= 1.05

    for t in (0, 1, n_tokens - 1):
        assert np.array_equal(matmul(tier, type_, panels, acts, k, t, 1, n_rows)[0], y[t]), "gemv and gemm: same bits"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("type_", QUANTISED, **by_name)
def test_exact_activations(tier, type_):
    """Whole numbers with a 127 in each group quantise without error: what remains is float error. Catches any wrong code or scale."""
    rng = np.random.default_rng(2000 + type_)
    n_rows, n_tokens, k = 16, 9, 768
    rows = random_rows(rng, type_, n_rows, k, scale=0.01)
    w = dequantize(rows, type_).astype(np.float64)
    x = rng.integers(-127, 128, (n_tokens, k)).astype(np.float32)
    x[:, ::32] = 127
    y = matmul(tier, type_, pack(tier, type_, rows, k), quantize(tier, x), k, 0, n_tokens, n_rows)
    # Terms of a group: w = d q + m; products of d q and m are summed apart, so their sizes count, not those of w.
    largest = np.abs(w).max(1) * 2
    bound = 6 * k / 32 * 2.0**-24 * np.abs(x).sum(1)[:, None] * largest[None, :]
    assert np.all(np.abs(y - x.astype(np.float64) @ w.T) <= bound)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("type_", QUANTISED, **by_name)
def test_one_hot_activations(tier, type_):
    """A single activation of 127 picks one weight: every element of a block is in its place."""
    rng = np.random.default_rng(3000 + type_)
    k = 256
    rows = random_rows(rng, type_, 16, k, scale=0.01)
    w = dequantize(rows, type_)
    x = np.diag(np.full(k, 127, np.float32))
    y = matmul(tier, type_, pack(tier, type_, rows, k), quantize(tier, x), k, 0, k, 16)
    np.testing.assert_allclose(y / 127, w.T, rtol=0, atol=4 * 2.0**-24 * np.abs(w).max() * 2)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("k", [1, 3, 17, 64, 576])
@pytest.mark.parametrize("type_", FLOATS, **by_name)
def test_float_products(tier, type_, k):
    rng = np.random.default_rng(4000 + type_ + k)
    n_rows, n_tokens = 37, 19
    rows = random_rows(rng, type_, n_rows, k)
    w = dequantize(rows, type_).astype(np.float64)
    x = rng.standard_normal((n_tokens, k)).astype(np.float32)
    panels = pack(tier, type_, rows, k)
    y = matmul(tier, type_, panels, x.reshape(-1), k, 0, n_tokens, n_rows)
    bound = k * 2.0**-24 * (1 + k * 2.0**-24) * (np.abs(x).astype(np.float64) @ np.abs(w.T)) + 2.0**-149
    assert np.all(np.abs(y - x.astype(np.float64) @ w.T) <= bound)
    assert np.array_equal(matmul(tier, type_, panels, x.reshape(-1), k, 5, 1, n_rows)[0], y[5])


# ------------------------------------------------------------------------------- quantize

def quantize_by_numpy(x):
    groups = x.reshape(-1, 32)
    with np.errstate(all="ignore"):
        amax = np.abs(groups).max(1)
        d = amax / np.float32(127)
        factor = np.where(amax > 0, np.float32(127) / amax, np.float32(0))
        q = np.clip(np.nan_to_num(groups * factor[:, None], nan=0, posinf=np.inf, neginf=-np.inf), -127, 127)
    q = np.rint(q).astype(np.int8)
    bad = ~np.isfinite(groups).all(1)
    q[bad], d[bad] = 0, np.nan
    return q.reshape(-1), d, q.sum(1, dtype=np.int32)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("magnitude", [1, 1e-30, 1e-36, 1e-40, 1e30, 0])
def test_quantize(tier, magnitude):
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(32 * 500) * magnitude).astype(np.float32)
    x[rng.integers(0, x.size, 300)] = 0
    q, d, s = quantize(tier, x)
    q0, d0, s0 = quantize_by_numpy(x)
    assert np.array_equal(q, q0) and np.array_equal(d, d0) and np.array_equal(s, s0)


@pytest.mark.parametrize("tier", TIERS)
def test_quantize_error_is_half_a_step(tier):
    x = np.random.default_rng(6).standard_t(3, 32 * 1000).astype(np.float32)
    q, d, _ = quantize(tier, x)
    step = np.repeat(d, 32).astype(np.float64)
    # half a step, and the roundings of d, 127 / amax and their product: below 127 * 3 * 2^-24 steps
    assert np.all(np.abs(q * step - x) <= (0.5 + 127 * 3 * 2.0**-24) * step)
    assert np.all(np.abs(q.reshape(-1, 32)).max(1) == 127)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_quantize_marks_groups_that_are_not_finite(tier, bad):
    for at in range(32):
        x = np.ones(96, np.float32)
        x[32 + at] = bad
        q, d, s = quantize(tier, x)
        assert np.isnan(d).tolist() == [False, True, False]
        assert not q[32:64].any() and s.tolist() == [32 * 127, 0, 32 * 127]


def test_probes_check_their_arguments():
    y, panel = np.zeros(16, np.float32), np.zeros(16 * 18, np.uint8)
    acts = quantize("ref", np.ones((1, 32), np.float32))
    for bad in [("nowhere", 2, y, panel, acts, 32, 0, 1), ("ref", 4, y, panel, acts, 32, 0, 1), ("ref", 2, y[:15], panel, acts, 32, 0, 1),
                ("ref", 2, y, panel[:-1], acts, 32, 0, 1), ("ref", 2, y, panel, acts, 32, 1, 1), ("ref", 2, y, panel, acts[0], 32, 0, 1)]:
        with pytest.raises(ValueError):
            _core._kernel_matmul(*bad)
