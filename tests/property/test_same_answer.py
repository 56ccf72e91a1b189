"""Rule 3: the same answer in any company. Logits are compared bit for bit.

Each test takes one prompt and one context parameter or neighbour that must not matter. The models are the tiny ones of the golden
selection: F32, Q4_0 and Q4_K weights, a head count that threads do not divide, and a sliding window.
"""
import os
import subprocess
import sys
from pathlib import Path

import kipu
import numpy as np
import pytest

DATA = Path(__file__).parent.parent / "golden" / "data" / "models"
MODELS = ("llama.gguf", "llama-q/Q4_0.gguf", "llama-q/Q4_K_S.gguf", "qwen2.gguf", "gemma2.gguf", "gemma3.gguf")
N = 600                                  # tokens: more than a piece of 512 positions


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return kipu.Model(DATA / request.param)


def tokens(model, n=N, seed=0):
    return np.random.default_rng(seed).integers(0, model.n_vocab, n).tolist()


def context(model, **kw):
    return model.context(**{"n_ctx": 1024, "n_batch": 1024, "n_ubatch": 512, "n_seq_max": 1, "n_threads": 1, "n_threads_batch": 1, **kw})


def add(batch, ids, pos0=0, seqs=(0,), logits=True):
    for i, token in enumerate(ids):
        batch.add(token, pos0 + i, seqs, logits)


def decode(ctx, ids, pos0=0, seqs=(0,), logits=True):
    batch = kipu.Batch(len(ids), n_seq_max=len(seqs))
    add(batch, ids, pos0, seqs, logits)
    ctx.decode(batch)
    return np.array(ctx.logits)


@pytest.fixture(scope="module")
def wanted(model):
    return decode(context(model), tokens(model))


def same(a, b):
    return a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32))


def test_one_token_at_a_time(model, wanted):
    ctx = context(model)
    rows = [decode(ctx, [t], i) for i, t in enumerate(tokens(model))]
    assert same(np.concatenate(rows), wanted)


@pytest.mark.parametrize("n_ubatch", [1, 7, 64, 512])
def test_ubatch(model, wanted, n_ubatch):
    assert same(decode(context(model, n_ubatch=n_ubatch), tokens(model)), wanted)


def test_plain_program(model, wanted):
    ctx = context(model, fused=False)
    assert same(decode(ctx, tokens(model)), wanted)


def test_fewer_outputs(model, wanted):
    """Rows that nobody asked for are not computed in the last layer; the others do not notice."""
    ctx, ids = context(model), tokens(model)
    batch = kipu.Batch(len(ids))
    for i, token in enumerate(ids):
        batch.add(token, i, logits=i % 5 == 3)
    ctx.decode(batch)
    assert same(np.array(ctx.logits), wanted[3::5])


def test_any_order_in_the_batch(model, wanted):
    ids = tokens(model)
    order = np.random.default_rng(1).permutation(len(ids))
    batch = kipu.Batch(len(ids))
    for i in order:
        batch.add(ids[i], int(i), logits=True)
    ctx = context(model)
    ctx.decode(batch)
    assert same(np.array(ctx.logits), wanted[order])


def test_among_31_other_sequences(model, wanted):
    """One sequence of 40 tokens beside 31 others that are interleaved with it token by token."""
    n, ids = 40, tokens(model)[:40]
    ctx = context(model, n_ctx=2048, n_batch=2048, n_seq_max=32)
    batch = kipu.Batch(32 * n)
    others = [tokens(model, n, seed) for seed in range(1, 32)]
    for i in range(n):
        for s in range(32):
            batch.add(ids[i] if s == 5 else others[s - (s > 5)][i], i, (s,), logits=s == 5)
    ctx.decode(batch)
    assert same(np.array(ctx.logits), wanted[:n])


def test_shared_prefix(model, wanted):
    """Cells that two sequences share, then part: both go on as if alone."""
    ids, half = tokens(model), 300
    ctx = context(model, n_seq_max=2)
    decode(ctx, ids[:half], logits=False)
    ctx.memory.seq_cp(0, 1, -1, -1)
    decode(ctx, tokens(model, 50, 9), half, (1,))
    assert same(decode(ctx, ids[half:], half), wanted[half:])


def test_scattered_cells(model, wanted):
    """A cache that is full but for single cells here and there."""
    ids, n = tokens(model), 200
    ctx = context(model, n_ctx=256, n_batch=256, n_seq_max=4, swa_full=True)
    rng = np.random.default_rng(3)
    decode(ctx, tokens(model, 256, 7), seqs=(1,), logits=False)
    for p in sorted(rng.choice(255, n, replace=False).tolist()):
        ctx.memory.seq_rm(1, p, p + 1)
    assert same(decode(ctx, ids[:n]), wanted[:n])


THREADS = """
import sys, numpy as np, kipu
sys.path.insert(0, {here!r})
from test_same_answer import context, decode, tokens
for path in {paths!r}:
    model = kipu.Model(path)
    results = []
    for threads in (1, 2, 3):
        ctx = context(model, n_threads=threads, n_threads_batch=threads)
        rows = decode(ctx, tokens(model))
        workers = [ctx.workers]
        more = [decode(ctx, [t], {n} + i) for i, t in enumerate(tokens(model, 20, 2))]
        assert workers + [ctx.workers] == [threads, threads], (workers, ctx.workers)
        results.append(np.concatenate([rows, *more]))
    assert all(np.array_equal(r.view(np.uint32), results[0].view(np.uint32)) for r in results[1:]), path
print("same")
"""


def test_threads():
    """1, 2 and 3 workers, whatever the machine has."""
    code = THREADS.format(here=str(Path(__file__).parent), paths=[str(DATA / m) for m in MODELS], n=N)
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "KIPU_CPUS": "3"}, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "same", done.stderr
