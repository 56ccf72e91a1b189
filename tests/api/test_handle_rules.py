"""Every handle hashes by identity, has an address and is a context manager."""
from pathlib import Path

import kipu
import pytest

PATH = Path(__file__).parent.parent / "golden" / "data" / "models" / "llama.gguf"


@pytest.fixture(scope="module")
def handles():
    model = kipu.llama_model_load_from_file(str(PATH), kipu.llama_model_default_params())
    ctx = kipu.llama_init_from_model(model, kipu.llama_context_default_params())
    return {"model": model, "context": ctx, "vocab": kipu.llama_model_get_vocab(model), "memory": kipu.llama_get_memory(ctx),
            "batch": kipu.llama_batch_init(4, 0, 1), "sampler": kipu.llama_sampler_init_greedy()}


@pytest.mark.parametrize("name", ["sampler", "batch", "memory", "vocab", "context", "model"])
def test_handle(handles, name):
    handle = handles[name]
    assert int(handle) > 0 and int(handle) == handle.__index__()
    assert handle in {handle} and handle == handle
    with handle as same:
        assert same is handle
