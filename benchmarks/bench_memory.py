"""What the bookkeeping of the KV cache costs, in microseconds. Run: python benchmarks/bench_memory.py

Bounds worth keeping: placing one token well under 2 us at 131072 cells, spans of 4096 positions under 10 us.
"""
import time

from kipu._core import MemoryProbe

clock = time.perf_counter


def best(call, n=5):
    """Seconds of the fastest of n runs; each is what a fresh `call` returns."""
    times = []
    for _ in range(n):
        run = call()
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def row(what, seconds):
    print(f"{what:<66}{seconds * 1e6:10.2f} us")


def single(start, n, seq=0):
    return [(p, 1 << seq) for p in range(start, start + n)]


def filled(n, n_cells=131072, **kw):
    m = MemoryProbe(n_cells, layers=[(1, 1, False), (1, 1, True)], **kw)
    for at in range(0, n, 512):
        if m.place(single(at, min(512, n - at))):
            raise RuntimeError(m.message)
    return m


def place_rows():
    for depth in (0, 4096, 100000):
        m = filled(depth)
        row(f"place one token at depth {depth}, 131072 cells", min(m.place_seconds(single(depth + i * 900, 900), clock) for i in range(3)))
    m = MemoryProbe(131072, layers=[(1, 1, False)])
    for seq in range(32):
        m.place(single(0, 1000, seq))
    tokens = [(1000 + i, 1 << seq) for i in range(50) for seq in range(32)]
    row("place one token, 32 sequences in turn", m.place_seconds(tokens, clock))
    for n_seq in (1, 32):
        m = MemoryProbe(131072, 4608, 128, layers=[(1, 1, False), (1, 1, True)])
        for seq in range(n_seq):
            m.place(single(0, 4608 // n_seq, seq))
        times = []
        for at in range(4608 // n_seq, 4608 // n_seq + 1000, 200):
            times.append(m.place_seconds([(at + i, 1 << seq) for i in range(200) for seq in range(n_seq)], clock))
        row(f"place one token in a full window cache, {n_seq} sequences", min(times))


def operation_rows():
    def removing(p0, p1):
        def setup():
            m = filled(100000)
            return lambda: m.rm(0, p0, p1)
        return setup
    row("remove the last 10 of 100000 positions", best(removing(99990, -1)))
    row("remove 1000 positions in the middle of 100000", best(removing(50000, 51000)))

    def copying():
        m = filled(100000)
        return lambda: m.cp(0, 1, -1, -1)
    row("copy 100000 positions to another sequence", best(copying))

    def clearing():
        m = filled(100000)
        return m.clear
    row("clear after 100000 positions", best(clearing))
    row("a new memory of 131072 cells", best(lambda: lambda: MemoryProbe(131072)))


if __name__ == "__main__":
    place_rows()
    operation_rows()
