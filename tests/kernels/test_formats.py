"""The table of formats, decoding against gguf bit for bit, and the panel layout."""
import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from hypothesis import given, settings, strategies as st
from kernel_tools import HALVES, TIERS, TYPES, decode, dequantize, pack, random_rows, row_bytes, same_bits

from kipu import _core

KNOWN = [t for t in GGMLQuantizationType if t < 40]
by_name = dict(ids=lambda t: getattr(t, "name", str(t)))


@pytest.mark.parametrize("type_", KNOWN, **by_name)
def test_table_agrees_with_gguf(type_):
    name, block, size = _core._kernel_format(type_)
    # gguf lists 40 bytes for Q8_1, from the days of float scales; the block has had half scales (36 bytes) since. No tensor uses it.
    assert (name, block, size) == (type_.name, GGML_QUANT_SIZES[type_][0], 36 if type_.name == "Q8_1" else GGML_QUANT_SIZES[type_][1])


@pytest.mark.parametrize("type_", [-2**31, -1, 4, 5, 31, 32, 33, 36, 37, 38, 40, 41, 2**31 - 1])
def test_unknown_types(type_):
    assert _core._kernel_format(type_) is None
    assert _core._kernel_row_bytes(type_, 256) == 0


def test_row_bytes():
    assert _core._kernel_row_bytes(2, 64) == 36
    assert _core._kernel_row_bytes(12, 512) == 288
    assert _core._kernel_row_bytes(0, 3) == 12
    for k in (0, -32, 31, 33):
        assert _core._kernel_row_bytes(2, k) == 0
    assert _core._kernel_row_bytes(0, 2**62) == 0, "4 * 2^62 does not fit size_t"
    assert _core._kernel_row_bytes(0, 2**61) == 2**63


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("type_", TYPES, **by_name)
def test_decode_equals_gguf(tier, type_):
    rng = np.random.default_rng(type_)
    block = GGML_QUANT_SIZES[type_][0]
    for n_blocks in (1, 2, 3, 37):
        k = n_blocks * block
        rows = random_rows(rng, type_, 20, k)
        want = dequantize(rows, type_)
        for row, w in zip(rows, want):
            assert same_bits(decode(tier, type_, row, k), w)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("type_", TYPES, **by_name)
def test_decode_of_any_bytes(tier, type_):
    """Scales may be infinite or NaN in a hostile file: no crash, and still gguf's values."""
    rng = np.random.default_rng(100 + type_)
    k = 8 * GGML_QUANT_SIZES[type_][0]
    rows = rng.integers(0, 256, (200, row_bytes(type_, k)), dtype=np.uint8)
    with np.errstate(all="ignore"):
        want = dequantize(rows, type_)
    for row, w in zip(rows, want):
        assert same_bits(decode(tier, type_, row, k), w)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("type_", TYPES, **by_name)
@settings(max_examples=40, deadline=None)
@given(n_rows=st.integers(1, 16), n_blocks=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_unpack_inverts_pack(tier, type_, n_rows, n_blocks, seed):
    k = n_blocks * GGML_QUANT_SIZES[type_][0]
    rows = np.random.default_rng(seed).integers(0, 256, (n_rows, row_bytes(type_, k)), dtype=np.uint8)
    panel = pack(tier, type_, rows, k)
    for lane in range(16):
        row = np.empty(row_bytes(type_, k), np.uint8)
        _core._kernel_unpack(tier, type_, row, panel, lane, k)
        assert np.array_equal(row, rows[lane] if lane < n_rows else np.zeros_like(row))


def panel_by_hand(rows, type_, k):
    """Layout P16 as kernels.h draws it: scales first, then codes; each field of 16 rows side by side."""
    block, size = GGML_QUANT_SIZES[type_]
    if block == 1:
        return rows.reshape(16, k, size).transpose(1, 0, 2).tobytes()
    widths, halves = {}, HALVES[type_.name]
    for at in halves:
        widths[at] = 2
    if type_.name == "Q6_K":
        order = [208, *range(192, 208), *range(0, 192, 4)]
        widths |= {at: 1 for at in range(192, 208)}
    else:
        order = halves + list(range(2 * len(halves), size, 4))
    out = b""
    for b in range(k // block):
        for at in order:
            start = b * size + at
            out += rows[:, start:start + widths.get(at, 4)].tobytes()
    return out


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("type_", TYPES, **by_name)
def test_panel_layout(tier, type_):
    k = 3 * GGML_QUANT_SIZES[type_][0]
    rows = random_rows(np.random.default_rng(7), type_, 16, k)
    assert pack(tier, type_, rows, k).tobytes() == panel_by_hand(rows, type_, k)
