"""Hostile calls: the code that llama.cpp gives, or a refusal where it dies; afterwards the context computes as a fresh one does."""
import json

import kipu
import numpy as np
import pytest
from engine import Context, Refused, load, nmse
from reference import FOLDERS

ZERO = [[0]]
# llama.cpp takes these; kipu refuses them: each is silent garbage, a count that no longer fits, or a read beyond a table.
REFUSED_HERE = {"n_seq_id = 0 for a token", "same position twice in batch", "negative position", "same seq twice for a token",
                "seq_pos_max with seq_id 64"}


def good(c):
    return c.decode([5, 6, 7, 8], [0, 1, 2, 3], ZERO * 4, [0, 0, 0, 1])


def one(c, token=9, pos=0, seq=(0,)):
    return c.decode([token], [pos], [list(seq)], [1])


def two(c, pos=(0, 1), tokens=(5, 6), seqs=None):
    return c.decode(list(tokens), list(pos), seqs or ZERO * 2, [1, 1])


def many(c, n):
    return c.decode([5] * n, list(range(n)), ZERO * n, [0] * (n - 1) + [1])


def vectors(c, n):
    return np.zeros((n, kipu.llama_model_n_embd(c.model)), np.float32)


def there(c, i):
    return kipu.llama_get_logits_ith(c.h, i) is not None


# name in invalid.json -> (context parameters, call on the context)
CALLS = {
    "n_tokens 0": ({}, lambda c: c.decode([5], [0], ZERO, [1], n_tokens=0)),
    "n_tokens negative": ({}, lambda c: c.decode([5], [0], ZERO, [1], n_tokens=-1)),
    "token id = n_vocab": ({}, lambda c: two(c, tokens=(5, 128))),
    "token id = -1": ({}, lambda c: two(c, tokens=(5, -1))),
    "token id huge": ({}, lambda c: one(c, 2**31 - 1)),
    "seq_id = n_seq_max (4)": ({}, lambda c: one(c, seq=[4])),
    "seq_id = 63": ({}, lambda c: one(c, seq=[63])),
    "seq_id = 64": ({}, lambda c: one(c, seq=[64])),
    "seq_id = -1": ({}, lambda c: one(c, seq=[-1])),
    "n_seq_id = 0 for a token": ({}, lambda c: two(c, seqs=[[0], []])),
    "pos NULL, seq_id given": ({}, lambda c: c.decode([5, 6, 7], None, [[1], [1], [0]], [1] * 3)),
    "pos NULL, seq_id NULL": ({}, lambda c: c.decode([5, 6, 7], None, None, [1] * 3)),
    "everything NULL but token": ({}, lambda c: c.decode([5, 6, 7])),
    "logits NULL": ({}, lambda c: c.decode([5, 6, 7], [0, 1, 2], ZERO * 3)),
    "all logits flags 0": ({}, lambda c: c.decode([5, 6, 7], [0, 1, 2], ZERO * 3, [0] * 3)),
    "position gap inside batch": ({}, lambda c: two(c, (0, 2))),
    "decreasing positions in batch": ({}, lambda c: two(c, (1, 0))),
    "same position twice in batch": ({}, lambda c: two(c, (0, 0))),
    "negative position": ({}, lambda c: one(c, 5, -1)),
    "start position > 0 in empty cache": ({}, lambda c: one(c, 5, 17)),
    "position gap to cache": ({}, lambda c: [good(c), one(c, pos=5)]),
    "position already in cache": ({}, lambda c: [good(c), one(c, pos=3)]),
    "position before cache": ({}, lambda c: [good(c), one(c, pos=0)]),
    "after error the next good decode": ({}, lambda c: [good(c), one(c, pos=7), one(c, pos=4)]),
    "token and embd both": ({}, lambda c: c.decode([5], [0], ZERO, [1], embd=vectors(c, 1))),
    "neither token nor embd": ({}, lambda c: c.decode()),
    "batch larger than n_batch": ({"n_batch": 64, "n_ubatch": 64}, lambda c: many(c, 65)),
    "batch larger than n_ctx (n_batch = n_ctx)": ({"n_ctx": 64, "n_batch": 512}, lambda c: many(c, 100)),
    "partially overlapping sequence sets": ({}, lambda c: c.decode([5, 6, 7], [0, 1, 2], [[0, 1], [0], [0, 1]], [1] * 3)),
    "coupled sequences that diverged": ({}, lambda c: [good(c), one(c, pos=4, seq=[0, 1])]),
    "same seq twice for a token": ({}, lambda c: one(c, seq=[0, 0])),
    "embd with repeated position": ({}, lambda c: [good(c), c.decode(None, [3, 4], ZERO * 2, [1, 1], embd=vectors(c, 2))]),
    "llama: non-causal, batch larger than n_ubatch": ({"attention_type": 1, "n_ubatch": 32}, lambda c: many(c, 40)),
    "get_logits_ith out of range": ({}, lambda c: [good(c)] + [there(c, i) for i in (3, -1, 0, 4, -2, 100)]),
    "seq_rm with seq_id 64": ({}, lambda c: [good(c), c.seq_rm(64, -1, -1)]),
    "seq_pos_max with seq_id 64": ({}, lambda c: [good(c), c.pos_max(64)]),
    "seq_pos_max with seq_id -1": ({}, lambda c: [good(c), c.pos_max(-1)]),
}
# name -> what is done to the bytes of a good file; None: no file at all
FILES = {
    "load: missing file": None,
    "load: not a gguf": lambda raw: b"this is no model file, only text" * 10,
    "load: empty file": lambda raw: b"",
    "load: truncated header": lambda raw: raw[:200],
    "load: truncated tensor data": lambda raw: raw[:-4096],
    "load: version 1": lambda raw: raw[:4] + b"\1\0\0\0" + raw[8:],
    "load: unknown architecture": lambda raw: raw.replace(b"llama", b"xlama"),
}
PARAMS = {"n_ctx": 256, "n_batch": 256, "n_ubatch": 256, "n_seq_max": 4, "n_threads": 1, "n_threads_batch": 1}
LATER = ("bert", "mamba", "t5", "t5encoder", "rwkv7", "jina-bert-v2", "state_", "get_embeddings", "llama: encode", "llama: embeddings",
         "llama: pooled", "llama: RANK")


@pytest.fixture(scope="module", params=list(FOLDERS))
def folder(request):
    return FOLDERS[request.param]


@pytest.fixture(scope="module")
def model(folder):
    return load(folder / "models" / "llama.gguf")


def recorded(folder, name):
    return json.loads((folder / "invalid.json").read_text())["cases"][name]


def is_refusal(got):
    """A code below 0, None or False: of a sequence of calls the last one counts."""
    last = got[-1] if isinstance(got, list) else got
    return last is None or last is False or (last is not True and last != 0)


def judge(name, want, call):
    """Makes the call; where llama.cpp dies (or kipu refuses more) an exception or a code, else exactly its result."""
    if not want.get("aborts") and name not in REFUSED_HERE:
        assert call() == want["result"]
        return
    try:
        got = call()
    except (ValueError, RuntimeError):
        return
    if name in REFUSED_HERE:
        assert (got[-1] if isinstance(got, list) else got) == -1
    assert is_refusal(got), got


@pytest.mark.parametrize("name", CALLS)
def test_call(folder, model, name):
    params, call = CALLS[name]
    with Context(model, **{**PARAMS, **params}) as ctx:
        judge(name, recorded(folder, name), lambda: call(ctx))
        ctx.clear()
        assert good(ctx) == 0
        with Context(model, **{**PARAMS, **params}) as fresh:
            good(fresh)
            assert nmse(fresh.rows([3]), ctx.rows([3])) == 0


@pytest.mark.parametrize("name", FILES)
def test_file(folder, tmp_path, name):
    path = tmp_path / "case.gguf"
    if FILES[name]:
        path.write_bytes(FILES[name]((folder / "models" / "llama.gguf").read_bytes()))
    want = recorded(folder, name)
    assert want["result"] is False
    with pytest.raises(Refused) as refusal:
        load(path)
    assert str(refusal.value).strip(), "the log must say why"


def test_every_recorded_case_is_here(folder):
    cases = json.loads((folder / "invalid.json").read_text())["cases"]
    left = [name for name in cases if name not in CALLS and name not in FILES and not name.startswith(LATER)]
    assert not left
