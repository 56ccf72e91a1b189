"""The recorded scenarios of the reference, without a model: codes, positions and counts after every step.

Needs KIPU_REFERENCE (see its README, memory/). Batches are checked as llama_decode does before they are placed.
"""
import glob
import json
import os

import pytest

from kipu._core import MemoryProbe

DATA = os.environ.get("KIPU_REFERENCE")
SCENARIOS = "bad_then_good clear cp fill fill_seqs frag frag_thold keep long nopos rm shared".split()
N_SWA = {"llama": 0, "gemma3-full": 12, "gemma3-swa": 12}   # the models' sliding windows
PAD = 32                                                    # of n_ctx without flash attention
CASES = [f"{model}.{scenario}" for model in N_SWA for scenario in SCENARIOS]


def memory_for(model, params):
    n_ctx = (params["n_ctx"] + PAD - 1) // PAD * PAD
    n_swa = N_SWA[model]
    window = min(n_ctx, (n_swa * params["n_seq_max"] + params["n_ubatch"] + PAD - 1) // PAD * PAD)
    if not n_swa:
        return MemoryProbe(n_ctx)
    return MemoryProbe(n_ctx, n_ctx if params.get("swa_full", True) else window, n_swa, layers=[(8, 8, False), (8, 8, True)])


def valid(m, seqs, pos):
    """One run of positions of some sequences: it goes on where each of them ends, and they lie alike."""
    if any(m.pos_max(s) >= 0 and m.pos_max(s) + 1 != pos for s in seqs):
        return False
    return len({(m.pos_min(s), m.pos_max(s)) for s in seqs}) == 1


def decode(m, step, params):
    seqs, n = step["seqs"], len(step["tokens"])
    pos = m.pos_max(seqs[0]) + 1 if step.get("nopos") else step["pos"]
    if n == 0 or not valid(m, seqs, pos):
        return -1
    tokens = [(pos + i, sum(1 << s for s in seqs)) for i in range(n)]
    ubatches = [tokens[i:i + params["n_ubatch"]] for i in range(0, n, params["n_ubatch"])]
    if m.fit(ubatches):
        return 1
    assert [m.place(u) for u in ubatches] == [0] * len(ubatches)
    return 0


OPERATIONS = {
    "clear": lambda m, data: m.clear(data),
    "seq_rm": lambda m, *args: m.rm(*args)[1],
    "seq_cp": lambda m, *args: m.cp(*args),
    "seq_keep": lambda m, *args: m.keep(*args),
}


def check(m, want, n_swa, n_seq_max):
    seqs = range(len(want["pos_min"]))
    assert [m.pos_max(s) for s in seqs] == want["pos_max"]
    if not n_swa:
        assert [m.pos_min(s) for s in seqs] == want["pos_min"]
        assert m.n_tokens(n_seq_max) == want["n_tokens"] == want["used_cells"]   # the reference gives both the same value
        return
    for s in seqs:   # when cells behind the window are reused is free, what it needs is there
        assert (m.pos_min(s) < 0) == (want["pos_min"][s] < 0)
        assert m.pos_min(s) <= max(want["pos_min"][s], m.pos_max(s) + 2 - n_swa)
    assert m.n_tokens(n_seq_max) == sum(m.pos_max(s) - m.pos_min(s) + 1 for s in range(n_seq_max) if m.pos_max(s) >= 0)


@pytest.mark.skipif(not DATA, reason="KIPU_REFERENCE is not set")
@pytest.mark.parametrize("case", CASES)
def test_recorded_scenario(case):
    with open(f"{DATA}/memory/{case}.json") as f:
        record = json.load(f)
    params, model = record["params"], case.split(".")[0]
    m = memory_for(model, params)
    for i, step in enumerate(record["steps"]):
        if i == record.get("aborted_at", -1):
            break
        if step["op"] == "decode":
            assert decode(m, step, params) == step["rc"], f"step {i}"
        else:
            result = OPERATIONS[step["op"]](m, *step.get("args", []))
            assert "result" not in step or result == step["result"], f"step {i}"
        check(m, step["after"], N_SWA[model], params["n_seq_max"])


@pytest.mark.skipif(not DATA, reason="KIPU_REFERENCE is not set")
def test_all_scenarios_are_recorded():
    found = {os.path.basename(p)[:-5] for p in glob.glob(f"{DATA}/memory/*.json")}
    assert set(CASES) <= found
