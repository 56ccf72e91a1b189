"""kipu beside llama-cpp-python: same file, same threads, one run, turn by turn.

    python benchmarks/peer.py MODEL [MODEL ...] [--peer-python PATH] [--threads 2] [--rounds 5] [--no-amx]

MODEL is a path or a pulled name. The peer lives in a virtual environment of its own (`make bench-peer` builds it from PyPI with
CMAKE_ARGS=-DGGML_NATIVE=ON; on machines with AMX version 0.3.36 dies of signal 11 in that code: --no-amx then loads its weights without
extra buffers, AMX being one of them); it is measured with flash attention off and on, and the better one counts. Both: F16 cache,
n_batch = n_ubatch = 512, pp512 = one prompt of 512 tokens, tg128 = 128 single tokens behind a prompt of one. Each engine runs in a process
of its own; a round asks every engine once for every test, so that all see the same neighbours. The median of the rounds counts.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

TESTS = {"pp512": 512, "tg128": 128}


# ------------------------------------------------------------------------------------------------ engines, in a child process

class Kipu:
    def __init__(self, path, threads, flash_attn, extra):
        import kipu
        self.model = kipu.Model(path)
        self.ctx = self.model.context(n_ctx=1024, n_batch=512, n_ubatch=512, n_threads=threads, n_threads_batch=threads,
                                      flash_attn=flash_attn)
        self.name = f"kipu {kipu.__version__} ({kipu.system_info()['tier']})"
        self.n_vocab = self.model.n_vocab

    def clear(self):
        self.ctx.memory.clear(True)

    def decode(self, tokens):
        self.ctx.decode(tokens)
        return self.ctx.logits_ith(-1)


class LlamaCpp:
    def __init__(self, path, threads, flash_attn, extra):
        import llama_cpp as L
        self.L = L
        self.silence = L.llama_log_callback(lambda level, text, data: None)
        L.llama_log_set(self.silence, None)
        L.llama_backend_init()
        m = L.llama_model_default_params()
        m.use_extra_bufts = extra
        self.model = L.llama_model_load_from_file(path.encode(), m)
        p = L.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = 1024, 512, 512, threads, threads
        if hasattr(p, "flash_attn_type"):
            p.flash_attn_type = int(flash_attn)
        else:
            p.flash_attn = flash_attn
        self.ctx = L.llama_init_from_model(self.model, p)
        self.name = f"llama-cpp-python {L.__version__}"
        self.n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(self.model))

    def clear(self):
        self.L.llama_memory_clear(self.L.llama_get_memory(self.ctx), True)

    def decode(self, tokens):
        array = (self.L.llama_token * len(tokens))(*tokens)
        if self.L.llama_decode(self.ctx, self.L.llama_batch_get_one(array, len(tokens))):
            raise RuntimeError("llama_decode failed")
        return self.L.llama_get_logits_ith(self.ctx, -1)


def seconds(engine, test):
    tokens = [(7 * i + 100) % min(engine.n_vocab, 30000) for i in range(TESTS[test])]
    engine.clear()
    if test.startswith("tg"):
        engine.decode([1])
    started = time.perf_counter()
    for piece in [tokens] if test.startswith("pp") else [[t] for t in tokens]:
        engine.decode(piece)
    return time.perf_counter() - started


def child(kind, path, threads, flash_attn, extra):
    """One line per test asked on standard input."""
    engine = {"kipu": Kipu, "llama_cpp": LlamaCpp}[kind](path, int(threads), flash_attn == "1", extra == "1")
    print(json.dumps(engine.name), flush=True)
    for line in sys.stdin:
        print(json.dumps(TESTS[line.strip()] / seconds(engine, line.strip())), flush=True)


# ------------------------------------------------------------------------------------------------ the run

class Child:
    def __init__(self, python, kind, path, threads, flash_attn, extra):
        call = [python, os.path.abspath(__file__), "--child", kind, path, str(threads), str(int(flash_attn)), str(int(extra))]
        self.process = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"peer.py: {' '.join(self.process.args[2:4])} ended with code {self.process.wait()} "
                             "(negative: the signal that killed it)")
        return json.loads(line)

    def ask(self, test):
        self.process.stdin.write(test + "\n")
        self.process.stdin.flush()
        return self.read()


def measure(path, peer_python, threads, rounds, extra):
    """{test: {engine: [tokens/s, ...]}}; the first round warms up and does not count."""
    children = {"kipu": Child(sys.executable, "kipu", path, threads, False, extra),
                "peer": Child(peer_python, "llama_cpp", path, threads, False, extra),
                "peer fa": Child(peer_python, "llama_cpp", path, threads, True, extra)}
    results = {test: {engine: [] for engine in children} for test in TESTS}
    for r in range(rounds + 1):
        for test in TESTS:
            for engine, one in children.items():
                speed = one.ask(test)
                if r:
                    results[test][engine].append(speed)
    names = {engine: one.name for engine, one in children.items()}
    for one in children.values():
        one.process.stdin.close()
        one.process.wait()
    return names, results


def report(path, names, results):
    print(f"\n{os.path.basename(path)}: {names['kipu']} beside {names['peer']}")
    print(f"{'test':8}{'kipu t/s':>12}{'peer t/s':>12}{'peer fa t/s':>12}{'ratio':>8}"
          "   (median; ratio to the better one, worst round in brackets)")
    for test, speeds in results.items():
        ours, off, on = (statistics.median(speeds[e]) for e in ("kipu", "peer", "peer fa"))
        better = "peer" if off >= on else "peer fa"
        worst = min(a / b for a, b in zip(speeds["kipu"], speeds[better]))
        print(f"{test:8}{ours:12.1f}{off:12.1f}{on:12.1f}{ours / max(off, on):7.2f}x   [{worst:.2f}x]", flush=True)


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+")
    p.add_argument("--peer-python", required=True, help="python of the peer's virtual environment")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--no-amx", action="store_true", help="the peer's weights without extra buffers, where its AMX code dies")
    a = p.parse_args()
    from kipu._pull import find
    for model in a.models:
        path = str(find(model))
        report(path, *measure(path, a.peer_python, a.threads, a.rounds, not a.no_amx))


if __name__ == "__main__":
    main()
