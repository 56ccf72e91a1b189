"""Every allocation fails once, alone or with all behind it: a clean MemoryError, None or -2, nothing lost, and the next call is right."""
from pathlib import Path

import kipu
import numpy as np
import pytest
from kipu._core import MemoryProbe

DATA = Path(__file__).parent.parent / "golden" / "data" / "models"
MODELS = ("llama.gguf", "llama-q/Q4_K_S.gguf", "gemma3.gguf")
N, MOST = 40, 4000                       # tokens of a prompt; more allocations than anything makes


@pytest.fixture(params=[MemoryProbe.fail_once, MemoryProbe.fail_after], ids=["once", "on"])
def fail(request):
    yield request.param
    MemoryProbe.fail_after(-1)


@pytest.fixture(autouse=True)
def quiet():
    kipu.llama_log_set(lambda level, text, data: None)
    yield
    kipu.llama_log_set(None)


def failures(fail, action, failed):
    """Calls action with allocation 0, 1, 2 … failing until it succeeds; gives its result and how often it failed."""
    for n in range(MOST):
        fail(n)
        result = action()
        MemoryProbe.fail_after(-1)
        if not failed(result):
            return result, n
    raise AssertionError("it never succeeded")


def load(name):
    return kipu.llama_model_load_from_file(str(DATA / name), kipu.llama_model_default_params())


def context(model, **kw):
    p = kipu.llama_context_default_params()
    for name, value in {"n_ctx": 128, "n_batch": 128, "n_ubatch": 16, "n_seq_max": 2, "n_threads": 2, "n_threads_batch": 2, **kw}.items():
        setattr(p, name, value)
    return kipu.llama_init_from_model(model, p)


def batch(ids, pos0, shuffled=False):
    b = kipu.llama_batch_init(len(ids), 0, 1)
    order = np.random.default_rng(1).permutation(len(ids)) if shuffled else np.arange(len(ids))
    b.n_tokens, b.token, b.pos = len(ids), np.array(ids, np.int32)[order], (pos0 + order).astype(np.int32)
    b.n_seq_id[:], b.logits[:] = 1, 1
    return b


def tokens(n=N):
    return np.random.default_rng(0).integers(0, 64, n).tolist()


def pos_max(ctx, seq=0):
    return kipu.llama_memory_seq_pos_max(kipu.llama_get_memory(ctx), seq)


def same(a, b):
    return a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("name", MODELS)
def test_load(fail, name):
    model, n = failures(fail, lambda: load(name), lambda m: m is None)
    assert n > 10
    wanted, ctx = load(name), context(model)
    assert kipu.llama_decode(ctx, batch(tokens(), 0)) == 0
    other = context(wanted)
    assert kipu.llama_decode(other, batch(tokens(), 0)) == 0
    assert same(kipu.llama_get_logits(ctx), kipu.llama_get_logits(other))


@pytest.mark.parametrize("name", MODELS)
def test_exception_of_load(fail, name):
    with pytest.raises(MemoryError):
        fail(3)
        kipu.Model(DATA / name)


@pytest.mark.parametrize("name", MODELS)
def test_context(fail, name):
    model = load(name)
    ctx, n = failures(fail, lambda: context(model), lambda c: c is None)
    assert n > 10
    assert kipu.llama_decode(ctx, batch(tokens(), 0)) == 0


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("params", [{}, {"swa_full": False, "n_ctx": 64, "n_ubatch": 8}], ids=["full", "window"])
@pytest.mark.parametrize("name", MODELS)
def test_decode(fail, name, params, shuffled):
    """A failing prompt behind a good start: finished ubatches stay, the rest is computed later, to the same bits."""
    model, ids = load(name), tokens(50)
    wanted = context(model, **params)
    assert kipu.llama_decode(wanted, batch(ids, 0)) == 0
    wanted = kipu.llama_get_logits(wanted)
    for n in range(MOST):
        ctx = context(model, **params)
        assert kipu.llama_decode(ctx, batch(ids[:10], 0)) == 0
        kept = kipu.llama_get_logits(ctx)                 # held: the next decode needs another buffer
        fail(n)
        code = kipu.llama_decode(ctx, batch(ids[10:], 10, shuffled))
        MemoryProbe.fail_after(-1)
        assert same(kept, wanted[:10])
        if code == 0:
            order = np.random.default_rng(1).permutation(40) if shuffled else np.arange(40)
            assert same(kipu.llama_get_logits(ctx), wanted[10:][order])
            break
        assert code == -2
        assert kipu.llama_get_logits(ctx) is None and kipu.llama_get_logits_ith(ctx, 0) is None
        done = pos_max(ctx) + 1
        assert done >= 10 and (done - 10) % kipu.llama_n_ubatch(ctx) == 0 and pos_max(ctx, 1) == -1
        assert kipu.llama_decode(ctx, batch(ids[done:], done)) == 0
        assert same(kipu.llama_get_logits(ctx), wanted[done:])
    assert n > 2


@pytest.mark.parametrize("name", MODELS)
def test_memory(fail, name):
    """Copies that fail have copied nothing."""
    model = load(name)
    for n in range(MOST):
        ctx = context(model)
        assert kipu.llama_decode(ctx, batch(tokens(), 0)) == 0
        memory = kipu.llama_get_memory(ctx)
        fail(n)
        try:
            kipu.llama_memory_seq_cp(memory, 0, 1, -1, -1)
            break
        except MemoryError:
            MemoryProbe.fail_after(-1)
            assert (pos_max(ctx), pos_max(ctx, 1)) == (N - 1, -1)
    assert n > 0 and pos_max(ctx, 1) == N - 1
