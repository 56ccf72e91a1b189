"""exp and tanh over their whole range, and the vector kernels against float64."""
import numpy as np
import pytest
from kernel_tools import TIERS, same_bits

from kipu import _core

EXP_MAX, EXP_MIN = np.float32(float.fromhex("0x1.62e42ep+6")), np.float32(float.fromhex("-0x1.5d589ep+6"))
LENGTHS = [1, 2, 15, 16, 17, 64, 576, 1000]


def of(name, x):
    y = np.empty_like(x)
    _core._kernel_math(name, y, x)
    return y


def all_magnitudes(step):
    """Every step-th float, NaN and infinities left out."""
    x = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return x[np.isfinite(x)]


def test_exp_relative_error():
    x = all_magnitudes(1999)
    x = x[(x >= EXP_MIN) & (x <= EXP_MAX)]
    x = np.concatenate([x, np.linspace(EXP_MIN, EXP_MAX, 1_000_000).astype(np.float32), [EXP_MIN, EXP_MAX]]).astype(np.float32)
    error = of("exp", x) / np.exp(x.astype(np.float64)) - 1
    assert np.abs(error).max() < 2e-7
    assert of("exp", x).min() >= np.finfo(np.float32).tiny, "always a normal number"


def test_exp_at_the_ends():
    beyond = np.array([np.nextafter(EXP_MAX, np.float32(np.inf)), np.inf, 1e30, np.nextafter(EXP_MIN, np.float32(-np.inf)), -np.inf, -1e30,
                       0,
                       -0.0, np.nan], np.float32)
    assert same_bits(of("exp", beyond), np.array([np.inf, np.inf, np.inf, 0, 0, 0, 1, 1, np.nan], np.float32))


def test_tanh():
    x = all_magnitudes(2999)
    assert np.abs(of("tanh", x) - np.tanh(x.astype(np.float64))).max() < 2e-7
    assert same_bits(of("tanh", np.array([np.inf, -np.inf, np.nan, 100, -100], np.float32)), np.array([1, -1, np.nan, 1, -1], np.float32))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("n", LENGTHS)
def test_rms_norm(tier, n):
    """Relative error: n/16 + 4 roundings of positive terms halve under the root; division, root, two products: below (n/32 + 7) 2^-24."""
    rng = np.random.default_rng(n)
    x, w, y = rng.standard_normal(n).astype(np.float32), rng.standard_normal(n).astype(np.float32), np.empty(n, np.float32)
    x64 = x.astype(np.float64)
    want = x64 / np.sqrt(np.mean(x64**2) + 1e-5)
    _core._kernel_rms_norm(tier, y, x, None, 1e-5)
    np.testing.assert_allclose(y, want, rtol=(n / 32 + 7) * 2.0**-24)
    _core._kernel_rms_norm(tier, y, x, w, 1e-5)
    np.testing.assert_allclose(y, want * w, rtol=(n / 32 + 7) * 2.0**-24)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("neox", [False, True], ids=["norm", "neox"])
@pytest.mark.parametrize("half", [1, 3, 8, 32, 33, 64])
def test_rope(tier, neox, half):
    """Two roundings per output, each of a term of at most |x0| + |x1|. Values behind n_rot stay."""
    rng = np.random.default_rng(half)
    x, angle = rng.standard_normal(2 * half + 5).astype(np.float32), rng.uniform(-4, 4, half)
    cos, sin, y = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32), x.copy()
    _core._kernel_rope(tier, y, cos, sin, neox)
    pairs = (slice(0, half), slice(half, 2 * half)) if neox else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    x0, x1 = (x[p].astype(np.float64) for p in pairs)
    bound = 2 * 2.0**-24 * (np.abs(x0) + np.abs(x1))
    assert np.all(np.abs(y[pairs[0]] - (x0 * cos - x1 * sin)) <= bound)
    assert np.all(np.abs(y[pairs[1]] - (x0 * sin + x1 * cos)) <= bound)
    assert np.array_equal(y[2 * half:], x[2 * half:])


def gelu_tanh(g):
    return 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3)))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("n", LENGTHS)
def test_gated_units(tier, n):
    """exp is good to 2e-7 of its value plus the rounding of its argument (|2 z| 2^-24 * 4, with |2 z| < 30 for |g| < 6)."""
    rng = np.random.default_rng(n)
    g, u, y = rng.uniform(-6, 6, n).astype(np.float32), rng.standard_normal(n).astype(np.float32), np.empty(n, np.float32)
    g64 = g.astype(np.float64)
    _core._kernel_pairwise(tier, "swiglu", y, g, u)
    np.testing.assert_allclose(y, g64 / (1 + np.exp(-g64)) * u, rtol=5e-7)
    _core._kernel_pairwise(tier, "geglu", y, g, u)
    np.testing.assert_allclose(y, gelu_tanh(g64) * u, rtol=5e-7 + 30 * 4 * 2.0**-24)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("n", LENGTHS)
def test_one_operation_kernels(tier, n):
    rng = np.random.default_rng(n)
    a, b, y = rng.standard_normal(n).astype(np.float32) * 40, rng.standard_normal(n).astype(np.float32), np.empty(n, np.float32)
    _core._kernel_pairwise(tier, "add", y, a, b)
    assert same_bits(y, a + b)
    _core._kernel_factor(tier, "scale", y, a, 0.3)
    assert same_bits(y, a * np.float32(0.3))
    _core._kernel_factor(tier, "softcap", y, a, 30.0)
    np.testing.assert_allclose(y, 30 * np.tanh(a.astype(np.float64) / 30), rtol=0, atol=30 * 4e-7)


@pytest.mark.parametrize("tier", TIERS)
def test_halves(tier):
    halves = np.arange(65536, dtype=np.uint16)
    wide = np.empty(65536, np.float32)
    _core._kernel_from_half(tier, wide, halves)
    assert same_bits(wide, halves.view(np.float16).astype(np.float32))
    x = all_magnitudes(4001)
    x = np.concatenate([x, wide, np.float32([np.inf, -np.inf])]).astype(np.float32)
    y = np.empty(x.size, np.uint16)
    _core._kernel_to_half(tier, y, x)
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    number = ~np.isnan(x)
    assert np.array_equal(y[number], want.view(np.uint16)[number])
    assert np.all(np.isnan(y[~number].view(np.float16)))


@pytest.mark.parametrize("tier", TIERS)
def test_argmax(tier):
    rng = np.random.default_rng(1)
    for n in [1, 2, 7, 16, 33, 1000, 100_003]:
        x = rng.integers(0, max(2, n // 3), n).astype(np.float32)
        assert _core._kernel_argmax(tier, x) == int(np.argmax(x)), "the first of equal maxima"
        x[rng.integers(0, n, n // 2)] = np.nan
        assert _core._kernel_argmax(tier, x) == (0 if np.isnan(x).all() else int(np.nanargmax(x)))
    assert _core._kernel_argmax(tier, np.full(40, np.nan, np.float32)) == 0
    assert _core._kernel_argmax(tier, np.float32([np.nan, -np.inf, -np.inf])) == 1
