"""No call crashes, refused calls change nothing, stopped ones leave what was finished: random walks beside a twin."""
import sys
from pathlib import Path

import kipu
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from walk import Walk  # noqa: E402

DATA = Path(__file__).parent.parent / "golden" / "data" / "models"
CASES = [("llama.gguf", {}), ("llama.gguf", {"n_ubatch": 1}), ("llama-q/Q4_K_S.gguf", {"n_ctx": 128, "n_ubatch": 5, "n_threads": 2, "n_threads_batch": 2}),
         ("gemma3.gguf", {"swa_full": True, "n_ctx": 96}), ("gemma3.gguf", {"swa_full": False, "n_ctx": 160, "n_ubatch": 8, "n_threads_batch": 2}),
         ("qwen2.gguf", {"n_seq_max": 1, "type_k": 0, "type_v": 0, "n_ubatch": 64})]


@pytest.fixture(autouse=True)
def quiet():
    kipu.llama_log_set(lambda level, text, data: None)
    yield
    kipu.llama_log_set(None)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name, params", CASES, ids=lambda v: v if isinstance(v, str) else "-".join(f"{k}={x}" for k, x in v.items()))
def test_walk(name, params, seed):
    model = kipu.llama_model_load_from_file(str(DATA / name), kipu.llama_model_default_params())
    walk = Walk(model, seed, **params)
    for _ in range(120):
        walk.step()
    assert walk.codes[0] > 5 and walk.codes.get(2, 0) > 0 and walk.codes.get(-1, 0) > 0    # the walk went everywhere
