"""What the kernel tests share: tiers, formats, random blocks, packing, and gguf as the oracle of decoding."""
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize as gguf_dequantize

from kipu import _core

TIERS = _core.cpu_tiers()
TYPES = [GGMLQuantizationType(t) for t in _core._kernel_types("ref")]
QUANTISED = [t for t in TYPES if GGML_QUANT_SIZES[t][0] > 1]
FLOATS = [t for t in TYPES if GGML_QUANT_SIZES[t][0] == 1]

# Byte offsets of the half floats in a block; a format that is missing here has no random blocks and fails loudly.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0]}


def row_bytes(type_, k):
    block, size = GGML_QUANT_SIZES[type_]
    assert k % block == 0
    return k // block * size


def random_rows(rng, type_, n_rows, k, scale=None):
    """uint8 (n_rows, row_bytes): random codes and finite values; `scale`: magnitude of all half floats (None: any finite one)."""
    if type_.name == "F32":
        return rng.standard_normal((n_rows, k)).astype("<f4").view(np.uint8)
    if type_.name == "F16":
        return rng.standard_normal((n_rows, k)).astype("<f2").view(np.uint8)
    if type_.name == "BF16":
        return np.ascontiguousarray(rng.standard_normal((n_rows, k)).astype("<f4").view("<u2")[:, 1::2]).view(np.uint8)
    block, size = GGML_QUANT_SIZES[type_]
    blocks = rng.integers(0, 256, (n_rows * k // block, size), dtype=np.uint8)
    for at in HALVES[type_.name]:
        halves = rng.integers(0, 0x7C00, len(blocks), dtype=np.uint16) | rng.integers(0, 2, len(blocks), dtype=np.uint16) << 15
        if scale is not None:
            halves = (scale * rng.uniform(0.5, 1, len(blocks)) * rng.choice([-1, 1], len(blocks))).astype("<f2").view(np.uint16)
        blocks[:, at:at + 2] = halves.astype("<u2")[:, None].view(np.uint8)
    return blocks.reshape(n_rows, -1)


def dequantize(rows, type_):
    """float32 (n_rows, k), by gguf."""
    return rows.view("<f4") if type_.name == "F32" else gguf_dequantize(rows, type_)


def decode(tier, type_, row, k):
    out = np.empty(k, np.float32)
    _core._kernel_decode(tier, type_, out, row)
    return out


def pack(tier, type_, rows, k):
    """All panels of a matrix, flat."""
    n_panels, size = -(-len(rows) // 16), row_bytes(type_, k)
    panels = np.full((n_panels, 16 * size), 0xEE, np.uint8)
    for p in range(n_panels):
        part = np.ascontiguousarray(rows[16 * p:16 * p + 16])
        _core._kernel_pack(tier, type_, panels[p], part.reshape(-1), len(part), k)
    return panels.reshape(-1)


def quantize(tier, x):
    """(q, d, s) of x (n, k), flat."""
    q, d, s = np.empty(x.size, np.int8), np.empty(x.size // 32, np.float32), np.empty(x.size // 32, np.int32)
    _core._kernel_quantize(tier, q, d, s, np.ascontiguousarray(x).reshape(-1))
    return q, d, s


def matmul(tier, type_, panels, acts, k, t0, nt, n_rows):
    """float32 (nt, n_rows), by gemm, or by gemv for one token."""
    y = np.full((-(-n_rows // 16), nt, 16), np.nan, np.float32)
    _core._kernel_matmul(tier, type_, y.reshape(-1), panels, acts, k, t0, nt, nt == 1)
    return y.transpose(1, 0, 2).reshape(nt, -1)[:, :n_rows]


def same_bits(a, b):
    """Equal bit for bit, where NaN equals NaN."""
    a, b = np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32)
    return a.shape == b.shape and bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))))
