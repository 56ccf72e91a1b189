"""Single rules of the memory, each in a few lines. The random walks put them together."""
import pytest

from kipu._core import MemoryProbe

OK, E_ARG, E_MEMORY, E_FULL = 0, 1, 2, 7
END = 2**31 - 1


def run(start, n, *seqs):
    """n tokens at positions start, start + 1, ... of these sequences."""
    return [(p, sum(1 << s for s in seqs)) for p in range(start, start + n)]


def positions(m, seq, window=False):
    return sorted(m.cell(window, c)[0] for c in m.cell_list(window, seq))


def numbers(m, seq, window=False):
    """{position: number}"""
    return {m.cell(window, c)[0]: m.cell(window, c)[2] for c in m.cell_list(window, seq)}


# ---- where tokens go
def test_a_position_has_its_lane():
    m = MemoryProbe(64)
    assert m.place(run(21, 3, 0)) == OK
    assert m.cells(0) == [5, 6, 7]
    assert m.place(run(0, 2, 1)) == OK
    assert m.cells(0) == [16, 17]


def test_a_shared_prefix_shares_its_block_until_the_sequences_part():
    m = MemoryProbe(64)
    m.place(run(0, 6, 0))
    m.cp(0, 1, -1, -1)
    m.place(run(6, 2, 1))
    assert m.cells(0) == [6, 7]            # the common block goes on
    m.place(run(6, 3, 0))
    assert m.cells(0) == [22, 23, 24]      # taken there: a further block, and it stays in it
    assert m.spans(0, 0) == [(0, 0, -1, 0x1ff, [0, 1, 2, 3, 4, 5, 22, 23, 24] + [-1] * 7)]
    assert m.spans(0, 1) == [(0, 0, 0, 0xff, [0, 1, 2, 3, 4, 5, 6, 7] + [-1] * 8)]


def test_a_token_of_several_sequences_takes_one_cell_of_their_common_block():
    m = MemoryProbe(64)
    m.place(run(0, 3, 0, 1))
    m.place(run(3, 1, 0, 1))
    assert m.cells(0) == [3] and m.used_cells() == 4
    m.place(run(4, 1, 0) + run(4, 1, 1) + run(5, 1, 0, 1))
    assert m.cells(0) == [4, 20, 5]
    m.place(run(0, 2, 5))
    m.place(run(2, 1, 5, 6))               # nothing in common yet
    assert m.cells(0) == [50]


def test_any_cell_when_no_block_is_empty():
    m = MemoryProbe(32)
    m.place(run(0, 3, 0) + run(0, 3, 1))
    m.place(run(0, 2, 2))
    assert m.cells(0) == [3, 4]
    assert m.spans(0, 2) == [(0, 0, -1, 3, [3, 4] + [-1] * 14)]
    assert m.place(run(3, 24, 0)) == OK and m.used_cells() == 32
    assert m.place(run(27, 1, 0)) == E_FULL
    assert sorted(m.cell_list(False)) == list(range(32))


def test_the_lowest_free_number():
    m = MemoryProbe(64)
    m.place(run(0, 6, 0))
    m.rm(0, 1, 3)
    m.place(run(0, 3, 1))
    assert numbers(m, 1) == {0: 1, 1: 2, 2: 6}


def test_repeated_positions_form_rounds_in_order_of_writing():
    m = MemoryProbe(128)
    m.place(run(0, 70, 0))
    m.place([(5, 2), (5, 4)])
    assert m.cp(2, 0, -1, -1) == OK and m.cp(1, 0, -1, -1) == OK
    keys = [(pos, round) for pos, round, *_ in m.spans(0, 0)]
    assert keys == [(0, 0), (16, 0), (32, 0), (48, 0), (0, 1), (0, 2), (64, 0)]
    first = [s[4][5] for s in m.spans(0, 0) if s[0] == 0]
    assert [m.cell(False, c)[1] for c in first] == [1, 3, 5]
    m.rm(1, -1, -1)
    assert [s[4][5] for s in m.spans(0, 0) if s[0] == 0] == first
    m.rm(0, 5, 6)
    assert [s[1] for s in m.spans(0, 0)] == [0] * 5


# ---- sequence operations
@pytest.mark.parametrize("p0, p1, left", [
    (-1, -1, []), (0, -1, []), (3, -1, [0, 1, 2]), (-5, 3, [3, 4, 5, 6, 7]), (2, 4, [0, 1, 4, 5, 6, 7]), (4, 4, list(range(8))),
    (5, 2, list(range(8))), (7, END, list(range(7))), (8, END, list(range(8)))])
def test_ranges(p0, p1, left):
    m = MemoryProbe(64)
    m.place(run(0, 8, 0, 3))
    m.place(run(0, 8, 1))
    m.cp(0, 2, p0, p1)
    assert positions(m, 2) == sorted(set(range(8)) - set(left))
    assert m.rm(0, p0, p1) == (OK, True)
    assert positions(m, 0) == left and positions(m, 1) == positions(m, 3) == list(range(8))
    assert m.rm(-1, p0, p1) == (OK, True)
    assert positions(m, 1) == positions(m, 3) == left
    assert m.used_cells() == 2 * len(left)


def test_the_last_position_there_is():
    m = MemoryProbe(64)
    assert m.place([(END, 1)]) == OK and m.pos_max(0) == END and m.cells(0) == [15]
    assert m.fit([[(0, 1)]]) == OK and m.mask(False, [(END, 1)])[1:] == (64, 32)
    m.rm(0, 0, END)
    assert m.pos_max(0) == END
    m.rm(0, END, -1)
    assert m.pos_max(0) == -1


def test_copying_twice_counts_once():
    m = MemoryProbe(64)
    m.place(run(0, 3, 0))
    m.cp(0, 1, -1, -1)
    m.cp(0, 1, -1, -1)
    assert [span[1:4] for span in m.spans(0, 1)] == [(0, 0, 7)]
    m.rm(1, -1, -1)
    assert (m.pos_min(1), m.pos_max(1), m.pos_max(0), m.used_cells()) == (-1, -1, 2, 3)


def test_keep():
    m = MemoryProbe(64)
    m.place(run(0, 4, 0, 1) + run(0, 4, 2))
    assert m.keep(1) == OK
    assert [m.pos_max(s) for s in range(3)] == [-1, 3, -1] and m.used_cells() == 4
    assert m.cell(False, m.cell_list(False)[0]) == (0, 2, 0)


def test_ids_outside_are_refused():
    m = MemoryProbe(64, 32, 8)
    m.place(run(0, 4, 63))
    assert [m.rm(s, 0, -1)[0] for s in (-2, 64, END, -END)] == [E_ARG] * 4
    assert [m.cp(*p, 0, -1) for p in ((-1, 0), (0, -1), (64, 0), (0, 64), (64, 64))] == [E_ARG] * 5
    assert [m.keep(s) for s in (-1, 64)] == [E_ARG] * 2
    assert [m.pos_min(s) for s in (-1, 64)] == [m.pos_max(s) for s in (-1, 64)] == [-1, -1]
    assert m.cell_list(False, 64) == m.cell_list(False, -2) == [] and m.cell(False, 64) == m.cell(False, -1) == (-1, 0, -1)
    assert positions(m, 63) == [0, 1, 2, 3] and "64" in (m.keep(64), m.message)[1]


@pytest.mark.parametrize("tokens", [[(-1, 1)], [(0, 0)], [(0, 1), (-3, 1)]])
def test_tokens_without_position_or_sequence(tokens):
    m = MemoryProbe(64)
    assert m.place(tokens) == m.fit([[(0, 1)], tokens]) == E_ARG and m.used_cells() == 0


def test_no_tokens():
    m = MemoryProbe(64)
    assert m.place([]) == m.fit([]) == m.fit([[], []]) == OK and m.cells(0) == []


# ---- undo
def test_undo_takes_back_one_ubatch_once():
    m = MemoryProbe(64)
    m.place(run(0, 5, 0))
    m.place(run(5, 20, 0))
    m.undo()
    assert positions(m, 0) == [0, 1, 2, 3, 4] and m.used_cells() == 5
    m.undo()
    assert m.used_cells() == 5


@pytest.mark.parametrize("between", [
    lambda m: m.rm(0, 100, 101), lambda m: m.keep(0), lambda m: m.cp(0, 1, 100, 101), lambda m: m.place(run(5, 99, 0))])
def test_undo_takes_nothing_back_after_another_operation(between):
    m = MemoryProbe(64)
    m.place(run(0, 5, 0))
    between(m)
    m.undo()
    assert positions(m, 0) == [0, 1, 2, 3, 4]


def test_undo_of_a_copied_ubatch_removes_it_for_the_copy_too():
    m = MemoryProbe(64)
    m.place(run(0, 5, 0, 1, 2))
    m.undo()
    assert [m.pos_max(s) for s in range(3)] == [-1] * 3 and m.used_cells() == 0


# ---- the pair
def test_the_window_cache_answers_positions_and_the_base_cache_counts():
    m = MemoryProbe(256, 32, 8)
    assert m.place(run(0, 32, 0)) == OK and m.place(run(32, 10, 0)) == OK
    assert (m.pos_min(0), m.pos_max(0), m.used_cells(), m.size()) == (10, 41, 42, 256)
    assert m.n_tokens(1) == m.n_tokens(64) == 32 and m.n_tokens(0) == 0
    assert not m.can_shift() and MemoryProbe(64).can_shift() and MemoryProbe(64, 64, 8).can_shift()


def test_a_ubatch_needs_empty_and_reusable_cells():
    m = MemoryProbe(256, 32, 8)
    m.place(run(0, 32, 0))                       # the next position sees 25..31: 0..24 may go
    assert m.fit([run(32, 26, 0)]) == E_FULL and m.fit([run(32, 25, 0)]) == OK
    assert m.fit([run(32, 25, 0), run(57, 25, 0), run(82, 25, 0)]) == OK
    assert m.place(run(32, 26, 0)) == E_FULL and m.pos_min(0) == 0
    assert m.place(run(32, 25, 0)) == OK and positions(m, 0, True) == list(range(25, 57))


def test_the_base_cache_is_full_first():
    m = MemoryProbe(48, 32, 8)
    m.place(run(0, 32, 0))
    assert m.fit([run(32, 16, 0)]) == OK and m.fit([run(32, 16, 0), run(48, 1, 0)]) == E_FULL


def test_a_shared_cell_stays_while_one_sequence_needs_it():
    m = MemoryProbe(256, 32, 8)
    m.place(run(0, 16, 0, 1))
    m.place(run(16, 16, 0))
    assert m.place(run(32, 18, 0)) == OK
    assert positions(m, 1, True) == [9, 10, 11, 12, 13, 14, 15]
    assert m.fit([run(50, 1, 0)]) == OK and m.pos_min(0) == 25
    assert m.place(run(16, 1, 1)) == OK and m.pos_min(1) == 9 and m.pos_min(0) == 26


def test_a_reused_cell_passes_its_number_on():
    m = MemoryProbe(256, 32, 8)
    m.place(run(0, 1, 5))
    m.place(run(0, 1, 0))
    m.rm(5, -1, -1)
    m.place(run(0, 31, 0))                       # full; position 0 twice, numbers 1 and 0
    m.place(run(31, 2, 0))
    got = numbers(m, 0, True)
    assert (got[31], got[32], m.pos_min(0)) == (1, 0, 1)   # the first written one went, and with it the other position 0


def test_undo_does_not_bring_reused_cells_back():
    m = MemoryProbe(256, 32, 8)
    m.place(run(0, 32, 0))
    m.place(run(32, 4, 0))
    m.undo()
    assert positions(m, 0, True) == list(range(4, 32)) and positions(m, 0) == list(range(32))
    assert len(m.cell_list(True)) == 28 and m.place(run(32, 4, 0)) == OK and m.pos_min(0) == 4


def test_what_the_window_needs_is_never_evicted():
    m = MemoryProbe(4096, 64, 12)
    top = {s: -1 for s in range(3)}
    for i in range(300):
        s, n = i * 7 % 3, 1 + i * 5 % 9
        assert m.place(run(top[s] + 1, n, s)) == OK
        top[s] += n
        for t, last in top.items():
            assert set(range(max(0, last + 1 - 12 + 1), last + 1)) <= set(positions(m, t, True))
            assert positions(m, t, True) == list(range(m.pos_min(t), last + 1)) or last < 0


# ---- slabs, creation
def test_slabs_come_at_first_use_and_go():
    row = (32 + 32) * 2
    m = MemoryProbe(131072)
    assert m.bytes() == 0
    m.place(run(0, 1, 0))
    assert m.bytes() == 256 * row
    m.place(run(1, 1000, 0))
    assert m.bytes() == 4 * 256 * row
    m.rm(0, 256, -1)
    assert m.bytes() == 2 * 256 * row      # one spare
    m.clear()
    assert m.bytes() == 0 and m.read_row(0, False, 0) == bytes(64)
    m.place(run(0, 300, 0))
    m.undo()
    assert m.bytes() == 256 * row


@pytest.mark.parametrize("bad", [
    dict(n_cells=0), dict(n_cells=17), dict(n_cells=2**31), dict(n_cells=64, n_cells_window=40, n_swa=4),
    dict(n_cells=64, n_cells_window=32),
    dict(n_cells=64, type_k=8), dict(n_cells=64, type_v=2), dict(n_cells=64, layers=[(-1, 32, False)])])
def test_refused_parameters(bad):
    with pytest.raises(ValueError):
        MemoryProbe(**bad)


def test_every_allocation_of_creation_may_fail():
    for n in range(100):
        MemoryProbe.fail_after(n)
        try:
            MemoryProbe(64, 32, 8)
            break
        except MemoryError:
            pass
        finally:
            MemoryProbe.fail_after(-1)
    assert n > 10


def test_placing_in_the_pair_fails_as_a_whole():
    """Every allocation of a place in turn, lists and slabs of both caches."""
    for n in range(20):
        m = MemoryProbe(512, 512, 8, layers=[(32, 32, False), (32, 32, True)])
        m.place(run(0, 250, 0))
        MemoryProbe.fail_after(n)
        try:
            status = m.place(run(250, 100, 0, 1))
        finally:
            MemoryProbe.fail_after(-1)
        if status == OK:
            break
        assert status == E_MEMORY
        m.undo()
        assert positions(m, 0) == positions(m, 0, True) == list(range(250)) and m.pos_max(1) == -1
        assert m.place(run(250, 100, 0, 1)) == OK
    assert n >= 4
