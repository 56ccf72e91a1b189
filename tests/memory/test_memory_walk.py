"""Random walks: after every operation the engine's memory and the naive model say the same about everything."""
import random
import struct

import pytest
from memory_model import Full, Memory, ids

from kipu._core import MemoryProbe

OK, E_ARG, E_MEMORY, E_FULL = 0, 1, 2, 7
LAYERS = [(4, 3, False), (5, 4, True), (2, 6, False)]

SHAPES = {
    "unified-64": dict(n_cells=64),
    "unified-320": dict(n_cells=320),
    "unified-1024": dict(n_cells=1024),
    "pair-small": dict(n_cells=512, n_cells_window=48, n_swa=9),
    "pair-medium": dict(n_cells=512, n_cells_window=96, n_swa=16),
    "pair-full": dict(n_cells=128, n_cells_window=128, n_swa=20),
    "pair-one": dict(n_cells=256, n_cells_window=32, n_swa=1),
    "pair-wide": dict(n_cells=192, n_cells_window=64, n_swa=100),
}


class Walk:
    def __init__(self, seed, shape):
        self.r = random.Random(seed)
        self.model, self.probe = Memory(**shape), MemoryProbe(layers=LAYERS, **shape)
        self.n_seq = self.r.choice([1, 3, 6])
        self.names = self.r.sample(range(64), self.n_seq)

    def step(self):
        ops = [self.place] * 12 + [self.rm] * 3 + [self.cp] * 2 + [self.undo] * 2 + [self.fit] * 2 + [self.keep]
        if self.r.random() < 0.02:
            ops = [self.clear]
        self.r.choice(ops)()

    # ---- operations on both
    def seq(self):
        return self.r.choice(self.names)

    def bound(self):
        return self.r.choice([-1, -1, 0, self.r.randrange(40), self.r.randrange(200), 2**31 - 1])

    def attempt(self, on_probe, on_model):
        """Once in a while with failing allocations: then nothing may have changed, and it works the next time."""
        if self.r.random() < 0.15:
            MemoryProbe.fail_after(self.r.randrange(4))
            try:
                status = on_probe()
            finally:
                MemoryProbe.fail_after(-1)
            if status == E_MEMORY:
                self.model.settle()
                self.compare()
                status = on_probe()
        else:
            status = on_probe()
        try:
            on_model()
            assert status == OK, self.probe.message
        except Full:
            assert status == E_FULL

    def tokens(self, n, top):
        """Some tokens as decode gives them: positions go on without gaps, shared tokens where the sequences are at the same place."""
        out = []
        for _ in range(n):
            s = self.seq()
            group = [t for t in self.names if top[t] == top[s] and (t == s or self.r.random() < 0.3)]
            if top[s] < 0 and self.r.random() < 0.2:
                start = self.r.randrange(150)
                top.update({t: start - 1 for t in group})
            repeat = top[s] >= 0 and self.r.random() < 0.03    # embedding input may repeat the last position
            run = 1 if repeat or self.r.random() < 0.5 else self.r.randrange(1, 20)
            for _ in range(min(run, n - len(out))):
                pos = top[s] + (0 if repeat else 1)
                out.append((pos, sum(1 << t for t in group)))
                top.update({t: pos for t in group})
            if len(out) >= n:
                return out
        return out

    def tops(self):
        return {s: self.model.pos_max(s) for s in self.names}

    def place(self):
        tokens = self.tokens(self.r.choice([1, 1, 2, 5, 16, 30]), self.tops())
        self.attempt(lambda: self.probe.place(tokens), lambda: self.model.place(tokens))
        for k, cache in enumerate(self.model.caches):
            if cache.placed:
                assert self.probe.cells(k) == cache.placed

    def fit(self):
        top = self.tops()
        ubatches = [self.tokens(self.r.choice([1, 3, 16, 40]), top) for _ in range(self.r.randrange(1, 6))]
        assert self.probe.fit(ubatches) == (OK if self.model.fits(ubatches) else E_FULL)

    def undo(self):
        self.probe.undo()
        self.model.undo()

    def rm(self):
        seq = -1 if self.r.random() < 0.1 else self.seq()
        p0, p1 = self.bound(), self.bound()
        if self.r.random() < 0.4 and seq >= 0:     # the usual one: a suffix
            p0, p1 = max(0, self.model.pos_max(seq) - self.r.randrange(12)), -1
        assert self.probe.rm(seq, p0, p1) == (OK, True)
        self.model.rm(seq, p0, p1)

    def cp(self):
        src, dst, p0, p1 = self.seq(), self.seq(), self.bound(), self.bound()
        self.attempt(lambda: self.probe.cp(src, dst, p0, p1), lambda: self.model.cp(src, dst, p0, p1))

    def keep(self):
        if self.r.random() < 0.3:
            seq = self.seq()
            assert self.probe.keep(seq) == OK
            self.model.keep(seq)

    def clear(self):
        self.probe.clear()
        self.model.clear()
        assert self.probe.bytes() == 0

    # ---- comparison
    def compare(self):
        p, m = self.probe, self.model
        for s in self.names + [63]:
            assert (p.pos_min(s), p.pos_max(s)) == (m.pos_min(s), m.pos_max(s))
        assert p.n_tokens(64) == m.n_tokens(64)
        assert p.used_cells() == len(m.caches[0].cells)
        for k, cache in enumerate(m.caches):
            self.compare_cache(k, cache)
        self.compare_bytes()

    def compare_cache(self, k, cache):
        listed = self.probe.cell_list(k)
        assert listed == cache.cell_list()
        for c in listed:
            x = cache.cells[c]
            assert self.probe.cell(k, c) == (x.pos, x.seqs, x.number)
        for s in self.names:
            assert self.probe.cell_list(k, s) == cache.cell_list(s)
            spans = self.probe.spans(k, s)
            assert [((pos // 64, round, pos), cells) for pos, round, _, _, cells in spans] == list(cache.spans(s).items())
            for _, _, block, lanes, cells in spans:
                assert lanes == sum(1 << i for i, c in enumerate(cells) if c >= 0) != 0
                one = {c // 16 for c in cells if c >= 0}
                in_lanes = all(c < 0 or c % 16 == i for i, c in enumerate(cells))
                assert block == (one.pop() if in_lanes and len(one) == 1 else -1)

    def compare_bytes(self):
        """Every slab that is needed, and at most those of the ubatch that was taken back or removed last."""
        need = 0
        slab = [sum((256 * n * 2 + 63) // 64 * 64 for lk, lv, w in LAYERS if w == bool(k) or len(self.model.caches) == 1
                    for n in (lk, lv)) for k in range(2)]
        for k, cache in enumerate(self.model.caches):
            need += slab[k] * len({c // 256 for c in cache.cells})
        spare = sum(slab[:len(self.model.caches)])
        assert need <= self.probe.bytes() <= need + spare

    def compare_mask(self):
        for k, cache in enumerate(self.model.caches):
            tokens = [(self.r.randrange(200), 1 << self.seq() | 1 << self.seq()) for _ in range(self.r.choice([0, 1, 3, 65]))]
            causal, pad = self.r.random() < 0.7, self.r.choice([32, 256])
            values, n_rows, n_kv = self.probe.mask(k, tokens, causal, pad)
            want = cache.mask(tokens, causal, pad, self.model.n_swa if k else 0)
            assert (n_rows, n_kv) == (len(want), len(want[0]) if want else n_kv)
            assert struct.unpack(f"{n_rows * n_kv}f", values) == tuple(v for row in want for v in row)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_walk(shape, seed):
    w = Walk(f"{shape} {seed}", SHAPES[shape])
    for i in range(200):
        w.step()
        w.compare()
        if i % 20 == 0:
            w.compare_mask()


def test_the_walk_meets_everything():
    """The walk itself: shared cells, repeated positions, full caches, reuse, parted blocks all happen."""
    seen = set()
    for seed in range(8):
        w = Walk(f"coverage {seed}", SHAPES["pair-small" if seed % 2 else "unified-64"])
        for _ in range(100):
            w.step()
            window = w.model.caches[-1]
            seen |= {"shared" for x in window.cells.values() if len(ids(x.seqs)) > 1}
            seen |= {"round" for s in w.names for key in window.spans(s) if key[1] > 0}
            seen |= {"gathered" for s in w.names for span in w.probe.spans(0, s) if span[2] < 0}
            seen |= {"full"} if len(window.cells) == window.size else set()
            seen |= {"reused"} if len(w.model.caches) == 2 and len(window.cells) < len(w.model.caches[0].cells) else set()
    assert seen == {"shared", "round", "gathered", "full", "reused"}
