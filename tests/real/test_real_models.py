"""SmolLM2 and Gemma 3 beside llama.cpp: see README.md."""
import json
from functools import cache
from pathlib import Path

import kipu
import numpy as np
import pytest
from kipu._pull import MODELS, cache_dir

DATA = Path(__file__).parent / "data"
FILES = {"smollm2": "smollm2", "gemma3": "gemma3-270m"}
CONTEXT = {"n_ctx": 512, "n_batch": 512, "n_ubatch": 512}
SLOW = kipu.system_info()["tier"] == "ref"

pytestmark = pytest.mark.real


@cache
def record(name):
    arrays = np.load(DATA / f"{FILES[name]}.npz")
    return json.loads((DATA / f"{FILES[name]}.json").read_text()), {k: arrays[k] for k in arrays.files}


@pytest.fixture(scope="module", params=list(FILES))
def real(request):
    path = cache_dir() / MODELS[request.param].file
    if not path.exists():
        pytest.skip(f"{path} is not here: kipu pull {request.param}")
    with kipu.Model(path) as model:
        yield model, *record(request.param)


def prompts(info):
    return info["prompts"][:1] if SLOW else info["prompts"]


def all_logits(ctx, tokens, pos0=0):
    batch = kipu.Batch(len(tokens))
    for i, token in enumerate(tokens):
        batch.add(token, pos0 + i, logits=True)
    ctx.decode(batch)
    return np.array(ctx.logits)


def test_token_ids(real):
    model, info, arrays = real
    for i, prompt in enumerate(info["prompts"]):
        assert model.tokenize(prompt["text"], parse_special=True).tolist() == arrays[f"p{i}/tokens"].tolist()
    corpus = (DATA / "corpus.txt").read_bytes()
    assert model.tokenize(corpus).tolist() == arrays["ppl/tokens"].tolist()


def test_argmax(real):
    model, info, arrays = real
    ours, theirs = [], []
    for i, prompt in enumerate(prompts(info)):
        got = all_logits(model.context(**CONTEXT), arrays[f"p{i}/tokens"].tolist()).argmax(-1)
        ours.append((got == arrays[f"p{i}/argmax"]).mean())
        theirs.append(prompt["noise_floor"]["fa"]["argmax_equal"])
    print(f"argmax agreement {np.mean(ours):.4f}, llama.cpp with itself {np.mean(theirs):.4f}")
    assert np.mean(ours) >= np.mean(theirs) - 0.05


def test_greedy(real):
    model, info, arrays = real
    for i, prompt in enumerate(prompts(info)):
        ids, margin = arrays[f"p{i}/greedy_ids"].tolist(), arrays[f"p{i}/greedy_margin"]
        noise = 2 * max(floor["max_abs"] for floor in prompt["noise_floor"].values())
        sure = next((k for k, m in enumerate(margin) if m < noise), len(ids))
        ctx, got = model.context(**CONTEXT), []
        ctx.decode(arrays[f"p{i}/tokens"].tolist())
        for _ in range(min(sure, 8) if SLOW else sure):
            got.append(int(ctx.logits_ith(-1).argmax()))
            ctx.decode(got[-1:])
        assert got == ids[: len(got)], prompt["text"]


def window_nll(model, given, true, n):
    """Negative log likelihood of true[1:], computed 128 tokens at a time."""
    ctx, nll = model.context(n_ctx=n, n_batch=128, n_ubatch=128), []
    for p in range(0, n, 128):
        rows = all_logits(ctx, given[p : p + 128], p).astype(np.float64)
        top = rows.max(-1, keepdims=True)
        sums = top[:, 0] + np.log(np.exp(rows - top).sum(-1))
        nll += [sums[r] - rows[r, true[p + r + 1]] for r in range(len(rows)) if p + r + 1 < n]
    return nll


@pytest.mark.skipif(SLOW, reason="the ref tier runs one prompt")
def test_perplexity(real):
    model, info, arrays = real
    rec, tokens = info["perplexity"], arrays["ppl/tokens"].tolist()
    n, vocab, nll = rec["n_ctx"], kipu.llama_model_get_vocab(model.handle), []
    for w in range(rec["windows"]):
        true = tokens[w * n : (w + 1) * n]
        given = [kipu.llama_vocab_bos(vocab), *true[1:]] if kipu.llama_vocab_get_add_bos(vocab) else true
        nll.append(window_nll(model, given, true, n))
    nll = np.array(nll)
    for name, ours in (("all_positions", np.exp(nll.mean())), ("second_half", np.exp(nll[:, n // 2 :].mean()))):
        theirs = sorted((rec[name], rec[name + "_fa"]))
        print(f"perplexity of {name}: {ours:.3f}, llama.cpp {theirs[0]:.3f} and {theirs[1]:.3f}")
        assert 0.995 * theirs[0] <= ours <= 1.005 * theirs[1]
