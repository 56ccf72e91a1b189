"""Logits of every architecture against llama.cpp's, case by case."""
import numpy as np
import pytest
from engine import Context, load, nmse
from reference import ARCHITECTURES, F16_CACHE, F32_CACHE, F32_CACHE_GELU, FOLDERS, GELU, WHOLE, WITHOUT_WHOLE, golden, pairs

PIECES = (1, 5, 16)
PROMPT_CASES = ("base", "fa", "kvf32", "kvf32_fa", "kvf32_ubatch8", "ubatch8", "pieces", "pos50", "swa_min", "swa_min_fa",
                "swa_min_ubatch8",
                "pieces_swa_min")


@pytest.fixture(scope="module", params=pairs(ARCHITECTURES), ids="-".join)
def data(request):
    where, name = request.param
    return name, load(FOLDERS[where] / "models" / f"{name}.gguf"), *golden(FOLDERS[where], name)


def bound(name, case):
    if case.startswith("kvf32") and not case.endswith("fa"):
        return F32_CACHE_GELU if name in GELU else F32_CACHE
    return F16_CACHE


def in_pieces(ctx, tokens):
    """1, 5, 16, then 9 tokens at a time."""
    rows, at, sizes = [], 0, list(PIECES)
    while at < len(tokens):
        n = min(sizes.pop(0) if sizes else 9, len(tokens) - at)
        code, got = ctx.run(tokens[at : at + n], at)
        assert code == 0
        rows.append(got)
        at += n
    return np.concatenate(rows)


def wanted(arrays, case, length):
    """Stored rows (the last ones of the prompt), or those of base where nothing was stored."""
    key = f"{case}/{length}/logits"
    return arrays.get(key, arrays.get(f"base/{length}/logits"))


@pytest.mark.parametrize("case", PROMPT_CASES)
def test_prompt(data, case):
    name, model, info, arrays = data
    if case not in info["cases"]:
        pytest.skip(f"{name} has no case {case}")
    for length in info["cases"][case]["rc"]:
        if f"tokens/{length}" not in arrays:
            continue
        tokens = arrays[f"tokens/{length}"].tolist()
        with Context(model, **info["cases"][case]["params"]) as ctx:
            got = in_pieces(ctx, tokens) if case.startswith("pieces") else ctx.run(tokens, 50 if case == "pos50" else 0)[1]
        want = wanted(arrays, case, length)
        if want is not None:
            assert nmse(want, got[-len(want) :]) <= bound(name, case), f"{case}/{length}"


@pytest.mark.parametrize("case", ["multiseq", "multiseq_ubatch8"])
def test_several_sequences(data, case):
    name, model, info, arrays = data
    if case not in info["cases"]:
        pytest.skip(f"{name} has no case {case}")
    tokens, pos, seq, flags = (arrays[f"{case}/{k}"].tolist() for k in ("tokens", "pos", "seq", "flags"))
    with Context(model, **info["cases"][case]["params"]) as ctx:
        code, got = ctx.run(tokens, pos=pos, seqs=[[s] for s in seq], flags=flags)
        ends = [1 + max(p for p, s in zip(pos, seq) if s == k) for k in range(3)]
        code2, got2 = ctx.run(arrays[f"{case}/next_tokens"].tolist(), pos=ends, seqs=[[0], [1], [2]], flags=[1, 0, 1])
    assert [code, code2] == info["cases"][case]["rc"]
    assert nmse(arrays[f"{case}/logits"], got) <= F16_CACHE
    assert nmse(arrays[f"{case}/next_logits"], got2) <= F16_CACHE


def test_greedy(data):
    name, model, info, arrays = data
    floors = info["noise_floor"]
    noise = 4 * max([floors[k]["max_abs"] for k in ("base ~ fa", "base ~ kvf32") if k in floors] + [1e-3])
    for key in [k for k in info["cases"] if k.startswith("greedy/") and f"{k}/ids" in arrays]:
        ids, margin = arrays[f"{key}/ids"].tolist(), arrays[f"{key}/margin"]
        with Context(model, **info["cases"][key]["params"]) as ctx:
            got = ctx.greedy(arrays["tokens/" + key.split("/")[1]].tolist(), len(ids))
        sure = next((i for i, m in enumerate(margin) if m < noise), len(ids))
        assert got[:sure] == ids[:sure]
        assert len(got) == len(ids)


def test_the_whole_data():
    if WHOLE is None:
        pytest.skip(WITHOUT_WHOLE)
    missing = [name for name in ARCHITECTURES if ("whole", name) not in pairs(ARCHITECTURES)]
    assert not missing
