"""Scripted sequence operations: codes, results, positions and logits after every step."""
import json

import numpy as np
import pytest
from engine import Context, load, nmse
from reference import F16_CACHE, FOLDERS

MODELS = ("llama", "gemma3-full", "gemma3-swa")
SCENARIOS = ("bad_then_good", "clear", "cp", "fill", "fill_seqs", "frag", "frag_thold", "keep", "long", "nopos", "rm", "shared")
CASES = [pytest.param(where, f"{model}.{scenario}", id=f"{where}-{model}.{scenario}") for where in FOLDERS for model in MODELS
         for scenario in SCENARIOS
         if (FOLDERS[where] / "memory" / f"{model}.{scenario}.json").exists()]
WINDOW = {"gemma3.gguf": 12}


def play(ctx, step):
    """One step; (code or result, logits of its flagged tokens)."""
    if step["op"] != "decode":
        return getattr(ctx, step["op"])(*step.get("args", [])), None
    n = len(step["tokens"])
    flags = [1] * n if step["flags"] == "all" else [0] * (n - 1) + [1]
    pos = None if step.get("nopos") else list(range(step["pos"], step["pos"] + n))
    code = ctx.decode(step["tokens"], pos, [step["seqs"]] * n, flags)
    return code, ctx.rows([i for i in range(n) if flags[i]]) if code == 0 else None


def check_positions(ctx, after, window):
    """With a window pos_min may be anything that keeps what the window needs: which cells outside are reused is free."""
    seqs = range(len(after["pos_min"]))
    low, high = [ctx.pos_min(s) for s in seqs], [ctx.pos_max(s) for s in seqs]
    assert high == after["pos_max"]
    if not window:
        assert low == after["pos_min"]
        assert [ctx.n_tokens(), ctx.used_cells()] == [after["n_tokens"], after["used_cells"]]
        return
    for mine, theirs, top in zip(low, after["pos_min"], high):
        assert (mine < 0) == (theirs < 0)
        assert mine <= max(theirs, top + 2 - window)


@pytest.mark.parametrize("where, name", CASES)
def test_scenario(where, name):
    folder = FOLDERS[where]
    record = json.loads((folder / "memory" / f"{name}.json").read_text())
    arrays = folder / "memory" / f"{name}.npz"
    logits = dict(np.load(arrays)) if arrays.exists() else {}
    with Context(load(folder / "models" / record["model"]), **record["params"]) as ctx:
        for i, step in enumerate(record["steps"]):
            got, rows = play(ctx, step)
            if step["op"] == "decode":
                assert got == step["rc"], f"step {i}"
            elif "result" in step:
                assert got == step["result"], f"step {i}"
            if rows is not None and f"step{i}/logits" in logits:
                assert nmse(logits[f"step{i}/logits"], rows) <= F16_CACHE, f"step {i}"
            check_positions(ctx, step["after"], WINDOW.get(record["model"]))
