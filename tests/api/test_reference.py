"""Parameters and hostile calls as recorded in the reference data: what a context makes of its parameters, sizes, codes."""
import json

import numpy as np
import pytest

import kipu

MODELS = ("llama", "llama-yarn", "gemma3")
TYPES = dict(F32=0, F16=1, Q4_0=2, Q4_1=3, Q5_0=6, Q5_1=7, Q8_0=8, IQ4_NL=20, BF16=30)
POOLING = dict(UNSPECIFIED=-1, NONE=0, MEAN=1, CLS=2, LAST=3, RANK=4)
F16_CACHE = 1e-5    # NMSE between an F16 cache and itself in another order of sums: the README of the data


def params_of(values):
    p = kipu.llama_context_default_params()
    for name, value in values.items():
        setattr(p, name, {**TYPES, **POOLING}.get(value, value) if isinstance(value, str) else value)
    return p


@pytest.fixture(scope="module")
def recorded(reference):
    data = json.loads((reference / "context_params.json").read_text())
    models = {name: kipu.Model(reference / "models" / f"{name}.gguf") for name in MODELS}
    return data, models


def test_defaults(recorded):
    p = kipu.llama_context_default_params()
    assert {name: getattr(p, name) for name in recorded[0]["defaults"]} == recorded[0]["defaults"]


def test_every_recorded_set_of_parameters(recorded, log):
    data, models = recorded
    judged = [check(models[case["model"][:-5]], case) for case in data["cases"] if case["model"][:-5] in models and not case.get("aborts")]
    assert sum(judged) >= 40


def check(model, case):
    """True if the case could be judged."""
    try:
        c = kipu.llama_init_from_model(model, params_of(case["params"]))
    except NotImplementedError:
        return False
    if case["params"].get("pooling_type") == 9:    # no such pooling: refused here, kept by the reference
        assert c is None
        return True
    assert (c is not None) == case["ok"], case["params"]
    if c is not None:
        compare(c, case)
    return True


def compare(c, case):
    memory = kipu.llama_get_memory(c)
    got = dict(n_ctx=kipu.llama_n_ctx(c), n_batch=kipu.llama_n_batch(c), n_ubatch=kipu.llama_n_ubatch(c), n_seq_max=kipu.llama_n_seq_max(c),
               pooling_type=kipu.llama_pooling_type(c), n_threads=kipu.llama_n_threads(c), n_threads_batch=kipu.llama_n_threads_batch(c),
               memory=memory is not None, can_shift=kipu.llama_memory_can_shift(memory), state_size=kipu.llama_state_get_size(c))
    assert got == {name: case[name] for name in got}, case["params"]
    assert kipu.llama_decode(c, kipu.llama_batch_get_one([5, 6, 7])) == case["decode_3_tokens"]
    want = np.array(case["logits_first8_last"])
    error = ((kipu.llama_get_logits_ith(c, -1)[:8] - want) ** 2).sum() / (want**2).sum()
    assert error <= F16_CACHE, (case["params"], error)
