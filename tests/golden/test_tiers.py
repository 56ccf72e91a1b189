"""Every tier that this machine can run, the ones it would not choose included: the golden tests in a process of its own,
and the same logits, bit for bit."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kipu

HERE = Path(__file__).parent
OTHERS = [tier for tier in kipu.system_info()["tiers"] if tier != kipu.system_info()["tier"]]

LOGITS = """
import hashlib, sys, kipu, numpy as np
kipu.llama_log_set(lambda *record: None)
for path in sys.argv[1:]:
    model = kipu.Model(path)
    for params in ({}, {"flash_attn": True, "type_k": 0, "type_v": 0}):
        ctx = model.context(n_ctx=128, **params)
        assert f"tier {kipu.system_info()['tier']}" in kipu.explain(ctx)
        batch = kipu.Batch(41)
        for i in range(41):
            batch.add((7 * i + 3) % model.n_vocab, i, logits=True)
        ctx.decode(batch)
        rows = [ctx.logits.tobytes()]
        for token in (5, 1, 9):
            ctx.decode([token])
            rows.append(ctx.logits.tobytes())
        print(kipu.system_info()["tier"], hashlib.sha256(b"".join(rows)).hexdigest())
"""


def in_tier(tier, *args):
    return subprocess.run([sys.executable, *map(str, args)], env=os.environ | {"KIPU_CPU": tier}, capture_output=True, text=True)


@pytest.mark.parametrize("tier", OTHERS)
def test_golden(tier):
    done = in_tier(tier, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / "test_architectures.py", HERE / "test_weight_formats.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.fixture(scope="module")
def logits():
    """A function: tier -> a hash for each model and cache, from a process in which that tier computed."""
    models = sorted((HERE / "data/models").glob("**/*.gguf"))
    assert len(models) >= 13

    def of(tier):
        done = in_tier(tier, "-c", LOGITS, *models)
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        assert {name for name, _ in lines} == {tier} and len(lines) == 2 * len(models)
        return [found for _, found in lines]
    return of


def test_same_bits(logits):
    want = logits(kipu.system_info()["tier"])
    assert len(set(want)) > 10
    for tier in OTHERS:
        assert logits(tier) == want, tier
