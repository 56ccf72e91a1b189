"""The examples of docs/formats say what the engine does."""
import re
from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from kernel_tools import TIERS, decode

from kipu import _core

DOCS = Path(__file__).resolve().parents[2] / "docs" / "formats"
TYPE = {t.name: t for t in GGMLQuantizationType}


def number(text):
    """-1.5, 2^-24 ..."""
    base, _, power = text.partition("^")
    return float(base) ** int(power or 1)


def block_of(cell, size):
    """`00 38 ...`, or `offset: bytes` parts over zeros."""
    block = bytearray(size)
    for at, text in re.findall(r"`(?:(\d+): )?([0-9a-f ]+)`", cell):
        data, at = bytes.fromhex(text), int(at or 0)
        block[at:at + len(data)] = data
    return block


def examples():
    for page in sorted(DOCS.glob("*.md")):
        for name, cell, values in re.findall(r"^\| (\w+) \| (`[0-9a-f: `]+`) \| (.*) \|$", page.read_text(), re.M):
            pairs = re.findall(r"w(\d+) = (-?[\d.]+)", values) or [("0", re.match(r"-?[\d.]+(\^-?\d+)?", values).group())]
            yield pytest.param(name, cell, [(int(e), number(v)) for e, v in pairs], id=f"{page.stem}-{name}")


def test_every_format_with_kernels_has_an_example():
    assert {p.values[0] for p in examples()} >= {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name, cell, values", list(examples()))
def test_example(tier, name, cell, values):
    _, block, size = _core._kernel_format(TYPE[name])
    data = block_of(cell, size)
    assert len(data) == size
    got = decode(tier, TYPE[name], np.frombuffer(bytes(data), np.uint8), block)
    assert {e: got[e] for e, _ in values} == dict(values)


def test_table_of_sizes():
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| ([\d.]+) \|$", (DOCS / "README.md").read_text(), re.M)
    assert len(rows) == 11
    for name, type_, block, size, bits in rows:
        assert _core._kernel_format(int(type_)) == (name, int(block), int(size))
        assert float(bits) == 8 * int(size) / int(block)
