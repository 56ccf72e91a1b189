"""Rows in the cache's layout and in the reference's, and that no two cells lie on each other."""
import random

import pytest

from kipu._core import MemoryProbe

LAYERS = [(5, 3, False), (16, 8, True), (2, 40, False), (0, 0, True)]


def filled(**types):
    m = MemoryProbe(544, 304, 20, layers=LAYERS, **types)
    assert m.place([(p, 1) for p in range(290)]) == 0 and m.place([(p, 2) for p in range(200)]) == 0
    return m


@pytest.mark.parametrize("type_k, type_v", [(0, 0), (1, 1), (0, 1), (1, 0)])
def test_no_two_cells_share_a_location(type_k, type_v):
    m = filled(type_k=type_k, type_v=type_v)
    for window in (False, True):
        seen = set()
        for c in m.cell_list(window):
            for il, layer in enumerate(LAYERS):
                if layer[2] == window:
                    for v, size in ((False, 4 - 2 * type_k), (True, 4 - 2 * type_v)):
                        for at in m.locations(il, v, c):
                            assert at % size == 0
                            seen |= {at + i for i in range(size)}
        per_cell = sum(k * (4 - 2 * type_k) + v * (4 - 2 * type_v) for k, v, w in LAYERS if w == window)
        assert len(seen) == per_cell * len(m.cell_list(window))


@pytest.mark.parametrize("type_k, type_v", [(0, 1), (1, 0)])
def test_rows_go_in_and_out(type_k, type_v):
    m, r = filled(type_k=type_k, type_v=type_v), random.Random(1)
    rows = {}
    for il, (k, v, window) in enumerate(LAYERS):
        for c in m.cell_list(window):
            for is_v, n in ((False, k * (4 - 2 * type_k)), (True, v * (4 - 2 * type_v))):
                rows[il, is_v, c] = r.randbytes(n)
    for n, (key, row) in enumerate(rows.items()):    # half through attention's addresses, half as rows
        if row:
            (m.poke if n % 2 else m.write_row)(*key, row)
    assert all(m.read_row(*key) == row for key, row in rows.items() if row)


def test_a_key_row_is_a_lane_of_its_block():
    m = MemoryProbe(32, type_k=0, layers=[(3, 2, False)])
    m.place([(0, 1), (1, 1)])
    a, b = m.locations(0, False, 0), m.locations(0, False, 1)
    assert [x - a[0] for x in a] == [0, 64, 128] and [x - a[0] for x in b] == [4, 68, 132]
    va, vb = m.locations(0, True, 0), m.locations(0, True, 1)
    assert [x - va[0] for x in va + vb] == [0, 2, 4, 6] and va[0] - a[0] == 2 * 0 + 256 * 3 * 4


def test_rows_that_are_not_there():
    m = MemoryProbe(512)
    for cell in (-1, 0, 511, 512):
        m.write_row(0, False, cell, bytes([1] * 64))
        assert m.read_row(0, False, cell) == bytes(64)
