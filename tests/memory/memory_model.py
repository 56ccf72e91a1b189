"""A naive model of the memory: a dictionary of cells, every question answered by looking at all of them.

It is the oracle of the random walks. Cells are keyed by their place in the cache; sets of sequences are ints with one bit per id.
"""
import copy
from dataclasses import dataclass

N_SEQ = 64
INF = float("inf")


def ids(seqs):
    return [s for s in range(N_SEQ) if seqs >> s & 1]


@dataclass
class Cell:
    pos: int
    seqs: int
    number: int
    written: int


class Full(Exception):
    pass


class Cache:
    """window 0: a cache whose cells are never reused."""

    def __init__(self, size, window=0):
        self.size, self.window = size, window
        self.clear()

    def clear(self):
        self.cells, self.group, self.writes, self.placed = {}, {}, 0, []

    # ---- questions
    def of(self, seq):
        return {c: x for c, x in self.cells.items() if x.seqs >> seq & 1}

    def pos_min(self, seq):
        return min((x.pos for x in self.of(seq).values()), default=-1)

    def pos_max(self, seq):
        return max((x.pos for x in self.of(seq).values()), default=-1)

    def cell_list(self, seq=-1):
        cells = self.cells if seq < 0 else self.of(seq)
        return sorted(cells, key=lambda c: cells[c].number)

    def spans(self, seq):
        """{(pos / 64, round, pos): cells} in order, from the definition: the k-th cell of a position, by writing, is in round k."""
        found, rounds = {}, {}
        for c, x in sorted(self.of(seq).items(), key=lambda item: item[1].written):
            k = rounds[x.pos] = rounds.get(x.pos, -1) + 1
            start = x.pos - x.pos % 16
            found.setdefault((start // 64, k, start), [-1] * 16)[x.pos % 16] = c
        return dict(sorted(found.items()))

    def mask(self, tokens, causal, pad, n_swa):
        """Rows of 0 or -inf, cells by number, rows to a multiple of 64."""
        by_number = {x.number: x for x in self.cells.values()}
        n_kv = min(self.size, max(pad, (max(by_number, default=-1) + 1 + pad - 1) // pad * pad))
        rows = [[-INF] * n_kv for _ in range((len(tokens) + 63) // 64 * 64)]
        for row, (pos, seqs) in zip(rows, tokens):
            for number, x in by_number.items():
                seen = x.seqs >> ids(seqs)[0] & 1 and not (causal and x.pos > pos) and not (n_swa and pos - x.pos >= n_swa)
                row[number] = 0.0 if seen else -INF
        return rows

    # ---- sequence operations
    def drop(self, cell, seqs):
        self.cells[cell].seqs &= ~seqs
        if not self.cells[cell].seqs:
            del self.cells[cell]

    def rm(self, seqs, p0, p1):
        lo, hi = max(p0, 0), INF if p1 < 0 else p1
        for c in [c for c, x in self.cells.items() if lo <= x.pos < hi]:
            self.drop(c, seqs)

    def cp(self, src, dst, p0, p1):
        lo, hi = max(p0, 0), INF if p1 < 0 else p1
        for x in self.of(src).values():
            if lo <= x.pos < hi:
                x.seqs |= 1 << dst

    def undo(self):
        for c in self.placed:
            self.cells.pop(c, None)
        self.placed = []

    # ---- placing
    def reusable(self, top):
        """{cell: distance} of the cells outside of the window of top + 1 of all their sequences (a window of 1 counts as 2)."""
        distance = {c: min(top[s] - x.pos for s in ids(x.seqs)) for c, x in self.cells.items()}
        return {c: d for c, d in distance.items() if self.window and d + 1 >= max(self.window, 2)}

    def place(self, tokens):
        top = {s: self.pos_max(s) for s in range(N_SEQ)}
        reusable = self.reusable(top)
        if len(tokens) > self.size - len(self.cells) + len(reusable):
            raise Full
        self.placed = []
        for pos, seqs in tokens:
            taken = {x.number for x in self.cells.values()}
            number = next(n for n in range(self.size + 1) if n not in taken)
            if len(self.cells) < self.size:
                cell = self.empty_cell(pos, seqs)
            else:
                cell = self.farthest(top)
                number = self.evict(cell)
            if cell % 16 == pos % 16:
                self.group[cell // 16] = pos // 16
            self.writes += 1
            self.cells[cell] = Cell(pos, seqs, number, self.writes)
            self.placed.append(cell)

    def empty_cell(self, pos, seqs):
        """The lane in a common block, nearest earlier position first; the first empty block; the first empty cell."""
        first = ids(seqs)[0]
        held = self.spans(first).get((pos // 64, 0, pos - pos % 16), [-1] * 16)
        for lane in [(pos - step) % 16 for step in range(1, 16)]:
            c = held[lane]
            if c < 0 or c % 16 != lane or self.group[c // 16] != pos // 16 or self.cells[c].seqs & seqs != seqs:
                continue
            if c - lane + pos % 16 not in self.cells:
                return c - lane + pos % 16
        used = {c // 16 for c in self.cells}
        for block in range(self.size // 16):
            if block not in used:
                return block * 16 + pos % 16
        return next(c for c in range(self.size) if c not in self.cells)

    def farthest(self, top):
        def order(item):
            c, distance = item
            x = self.cells[c]
            owner = min(s for s in ids(x.seqs) if top[s] - x.pos == distance)
            return -distance, owner, x.written
        return min(self.reusable(top).items(), key=order)[0]

    def evict(self, cell):
        x = self.cells[cell]
        self.rm(x.seqs, -1, x.pos + 1)
        return x.number


class Memory:
    """One cache, or a base and a window cache."""

    def __init__(self, n_cells, n_cells_window=0, n_swa=0):
        self.n_swa = n_swa
        self.caches = [Cache(n_cells)] + ([Cache(n_cells_window, n_swa)] if n_cells_window else [])

    def rm(self, seq, p0, p1):
        self.settle()
        for c in self.caches:
            c.rm((1 << N_SEQ) - 1 if seq < 0 else 1 << seq, p0, p1)

    def cp(self, src, dst, p0, p1):
        if src == dst:
            return
        self.settle()
        for c in self.caches:
            c.cp(src, dst, p0, p1)

    def keep(self, seq):
        self.settle()
        for c in self.caches:
            c.rm(((1 << N_SEQ) - 1) ^ 1 << seq, -1, -1)

    def clear(self):
        for c in self.caches:
            c.clear()

    def undo(self):
        for c in self.caches:
            c.undo()

    def settle(self):
        for c in self.caches:
            c.placed = []

    def fits(self, ubatches):
        """By doing it with a copy. The base cache must have an empty cell for every token."""
        trial = copy.deepcopy(self)
        try:
            for tokens in ubatches:
                trial.place(tokens)
        except Full:
            return False
        return True

    def place(self, tokens):
        self.settle()
        done = copy.deepcopy(self.caches)
        try:
            for c in self.caches:
                c.place(tokens)
        except Full:
            self.caches = done
            raise

    def pos_min(self, seq):
        return self.caches[-1].pos_min(seq)

    def pos_max(self, seq):
        return self.caches[-1].pos_max(seq)

    def n_tokens(self, n):
        return sum(self.pos_max(s) - self.pos_min(s) + 1 for s in range(n) if self.pos_max(s) >= 0)
