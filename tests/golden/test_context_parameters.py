"""Context parameters in, effective values and a few logits out."""
import json

import kipu
import numpy as np
import pytest
from engine import Context, Refused, load, nmse, plain
from reference import ARCHITECTURES, F16_CACHE, FOLDERS

# What is refused until a later version has it.
LATER = ("embeddings",)
CACHES = (None, "F16", "F32")
REPORTED = {"n_ctx": kipu.llama_n_ctx, "n_batch": kipu.llama_n_batch, "n_ubatch": kipu.llama_n_ubatch, "n_seq_max": kipu.llama_n_seq_max,
            "pooling_type": lambda h: int(kipu.llama_pooling_type(h)), "state_size": kipu.llama_state_get_size,
            "memory": lambda h: kipu.llama_get_memory(h) is not None,
            "can_shift": lambda h: kipu.llama_memory_can_shift(kipu.llama_get_memory(h))}


def is_due(folder, case):
    """Architectures and caches of today, embeddings off."""
    p = case["params"]
    name = case["model"][:-5]
    return (name in ARCHITECTURES and (folder / "models" / case["model"]).exists() and not any(p.get(k) for k in LATER)
            and p.get("type_k") in CACHES and p.get("type_v") in CACHES)


def cases():
    for where, folder in FOLDERS.items():
        for i, case in enumerate(json.loads((folder / "context_params.json").read_text())["cases"]):
            if is_due(folder, case):
                yield pytest.param(folder, case, id=f"{where}-{i}-{case['model'][:-5]}-{case['params']}")


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
def test_defaults(folder):
    p = kipu.llama_context_default_params()
    for name, value in json.loads((folder / "context_params.json").read_text())["defaults"].items():
        assert getattr(p, name) == pytest.approx(value), name


@pytest.mark.parametrize("folder, case", list(cases()))
def test_case(folder, case):
    model = load(folder / "models" / case["model"])
    if case.get("aborts"):    # llama.cpp dies: made or refused, both are better
        try:
            Context(model, **case["params"])
        except (Refused, ValueError):
            pass
        return
    if not case["ok"] or case["params"].get("pooling_type") == 9:
        with pytest.raises((Refused, ValueError)):
            Context(model, **case["params"])
        return
    with Context(model, **case["params"]) as ctx:
        for name, of in REPORTED.items():
            if name in case:
                assert of(ctx.h) == case[name], name
        for name in ("n_threads", "n_threads_batch"):
            if name in case["params"]:
                assert getattr(kipu, "llama_" + name)(ctx.h) == plain(name, case["params"][name])
        if "decode_3_tokens" in case:
            assert ctx.decode([5, 6, 7], [0, 1, 2], [[0]] * 3, [1] * 3) == case["decode_3_tokens"]
        if "logits_first8_last" in case:
            assert nmse(np.array(case["logits_first8_last"]), ctx.rows([2])[0][:8]) <= F16_CACHE
