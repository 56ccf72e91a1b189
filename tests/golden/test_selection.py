"""The data beside these tests is all there: a clone that lacks some of it must fail, not skip."""
import numpy as np
import pytest
from reference import SELECTION, golden
from test_memory_scenarios import MODELS, SCENARIOS
from test_weight_formats import SELECTED

ARCHITECTURES = ("llama", "llama-yarn", "qwen2", "qwen3", "gemma", "gemma2", "gemma3")
CASES = {"base", "fa", "kvf32", "multiseq", "greedy/33"}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(name):
    info, arrays = golden(SELECTION, name)
    assert (SELECTION / "models" / f"{name}.gguf").stat().st_size > 0
    assert CASES <= set(info["cases"]) and {"base/33/logits", "multiseq/logits", "greedy/33/ids"} <= set(arrays)
    assert np.isfinite(arrays["base/33/logits"]).all()


@pytest.mark.parametrize("name", SELECTED)
def test_weight_formats(name):
    assert (SELECTION / "models/llama-q" / f"{name}.gguf").exists()
    assert {"base/33/logits", "dequant_f32/33/logits"} <= set(golden(SELECTION, f"llama-q/{name}")[1])


def test_memory_and_calls():
    wanted = [f"memory/{model}.{scenario}.{kind}" for model in MODELS for scenario in SCENARIOS for kind in ("json", "npz")]
    assert [name for name in ["invalid.json", "context_params.json", *wanted] if not (SELECTION / name).exists()] == []
