"""Parameter objects: defaults, checks on assignment, resolution."""
from types import SimpleNamespace

import pytest

import kipu
from kipu._params import resolve_context

DEFAULTS = dict(n_ctx=512, n_batch=2048, n_ubatch=512, n_seq_max=1, n_threads=4, n_threads_batch=4, rope_scaling_type=-1, pooling_type=-1,
                attention_type=-1, rope_freq_base=0.0, rope_freq_scale=0.0, yarn_ext_factor=-1.0, yarn_attn_factor=1.0, yarn_beta_fast=32.0,
                yarn_beta_slow=1.0, yarn_orig_ctx=0, defrag_thold=-1.0, cb_eval=None, cb_eval_user_data=None, type_k=1, type_v=1,
                abort_callback=None, abort_callback_data=None, embeddings=False, offload_kqv=True, flash_attn=False, no_perf=True,
                op_offload=True, swa_full=True)


def hyper(**changes):
    values = dict(n_ctx_train=256, causal=True, pooling_type=-1, n_swa=0, swa_layers=[False] * 6, rope_scaling_type=1,
                  rope_freq_base=10000.0,
                  rope_freq_scale=1.0, rope_attn_factor=1.0, yarn_orig_ctx=256)
    return SimpleNamespace(**{**values, **changes})


def resolve(hp=None, **fields):
    p = kipu.llama_context_default_params()
    for name, value in fields.items():
        setattr(p, name, value)
    return resolve_context(p, hp or hyper())


def test_defaults_of_contexts_and_their_order():
    p = kipu.llama_context_default_params()
    assert {name: getattr(p, name) for name in DEFAULTS} == DEFAULTS
    assert p.fields() == [*DEFAULTS, "fused"]


def test_defaults_of_models():
    p = kipu.llama_model_default_params()
    assert (p.n_gpu_layers, p.split_mode, p.vocab_only, p.use_mmap, p.use_mlock, p.check_tensors) == (0, 1, False, True, False, False)
    assert p.kv_overrides is None and p.progress_callback is None and p.devices is None


def test_positional_construction():
    p = kipu.llama_context_params(1024, 128, n_seq_max=3)
    assert (p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max) == (1024, 128, 512, 3)
    with pytest.raises(TypeError):
        kipu.llama_context_params(1024, n_ctx=3)
    with pytest.raises(TypeError):
        kipu.llama_context_params(*range(40))


@pytest.mark.parametrize("field, bad", [("n_ctx", -1), ("n_ctx", 2**32), ("n_threads", 2**31), ("n_seq_max", -5), ("rope_freq_base", 1e60),
                                        ("type_k", 2**40)])
def test_values_that_do_not_fit_are_refused_when_set(field, bad):
    p = kipu.llama_context_default_params()
    with pytest.raises(ValueError, match=field):
        setattr(p, field, bad)
    assert getattr(p, field) == DEFAULTS[field]


@pytest.mark.parametrize("field, bad", [("n_ctx", 1.5), ("n_ctx", "8"), ("n_threads", None)])
def test_integers_only(field, bad):
    with pytest.raises(TypeError, match=field):
        setattr(kipu.llama_context_default_params(), field, bad)


def test_unknown_attributes_are_accepted():
    p = kipu.llama_context_default_params()
    p.logits_all = True
    assert p.logits_all is True


def test_floats_have_single_precision():
    p = kipu.llama_context_default_params()
    p.rope_freq_scale = 0.1
    assert p.rope_freq_scale == pytest.approx(0.1, rel=1e-7) and p.rope_freq_scale != 0.1


def test_copies_do_not_share():
    p = kipu.llama_context_default_params()
    q = p.copy()
    q.n_ctx = 7
    assert p.n_ctx == 512


@pytest.mark.parametrize("fields, n_ctx, n_batch, n_ubatch", [
    ({}, 512, 512, 512), ({"n_ctx": 0}, 256, 256, 256), ({"n_ctx": 300}, 320, 300, 300), ({"n_ctx": 1}, 32, 64, 64),
    ({"n_ctx": 33}, 64, 64, 64), ({"n_ctx": 300, "flash_attn": True}, 512, 300, 300), ({"n_ctx": 256, "n_batch": 0}, 256, 64, 64),
    ({"n_ctx": 256, "n_ubatch": 0}, 256, 256, 256), ({"n_ctx": 256, "n_batch": 100, "n_ubatch": 200}, 256, 100, 100),
    ({"n_ctx": 256, "n_batch": 512, "n_ubatch": 33}, 256, 256, 33), ({"n_ctx": 4096}, 4096, 2048, 512),
    ({"n_ctx": 64, "attention_type": 1, "n_batch": 512}, 64, 512, 512)])
def test_sizes(fields, n_ctx, n_batch, n_ubatch):
    r, _ = resolve(**fields)
    assert (r.n_ctx, r.n_batch, r.n_ubatch) == (n_ctx, n_batch, n_ubatch)


def test_window_cache():
    gemma = hyper(n_swa=12, swa_layers=[True] * 5 + [False])
    assert resolve(gemma, n_ctx=256)[0].n_cells_window == 256
    assert resolve(gemma, n_ctx=256, swa_full=False)[0].n_cells_window == 256
    assert resolve(gemma, n_ctx=256, swa_full=False, n_seq_max=8, n_ubatch=64)[0].n_cells_window == 160
    assert resolve(n_ctx=256, swa_full=False)[0].n_cells_window == 0


def test_rope():
    yarn = hyper(rope_scaling_type=2, rope_freq_scale=0.25, yarn_orig_ctx=64, rope_attn_factor=0.5)
    assert resolve()[0].yarn_ext_factor == 0 and resolve(yarn)[0].yarn_ext_factor == 1
    assert resolve(yarn, yarn_ext_factor=0.0)[0].yarn_ext_factor == 0
    assert resolve(yarn, rope_scaling_type=1)[0].yarn_ext_factor == 0
    assert resolve(yarn, rope_scaling_type=0, rope_freq_scale=0.5)[0].rope_freq_scale == 1.0
    assert resolve(yarn, yarn_attn_factor=0.8)[0].yarn_attn_factor == pytest.approx(0.4)
    assert [resolve(yarn)[0].yarn_orig_ctx, resolve(yarn, yarn_orig_ctx=9)[0].yarn_orig_ctx,
            resolve(hyper(yarn_orig_ctx=0))[0].yarn_orig_ctx] == [64, 9, 256]


@pytest.mark.parametrize("fields", [{"n_batch": 0, "n_ubatch": 0}, {"n_seq_max": 65}, {"type_v": 8}, {"pooling_type": 9},
                                    {"rope_scaling_type": 7},
                                    {"type_k": 99}, {"type_k": 26}, {"n_threads": 0}, {"n_threads_batch": 513},
                                    {"rope_freq_base": float("nan")},
                                    {"rope_freq_scale": -1.0}, {"yarn_beta_fast": float("inf")}, {"n_ctx": 2**32 - 1},
                                    {"attention_type": 2}])
def test_refused(fields):
    with pytest.raises(ValueError):
        resolve(**fields)


@pytest.mark.parametrize("fields", [{"embeddings": True}, {"type_k": 8}, {"type_k": 8, "type_v": 8, "flash_attn": True},
                                    {"cb_eval": print}])
def test_later(fields):
    with pytest.raises(NotImplementedError):
        resolve(**fields)


def test_what_a_context_says():
    _, records = resolve(n_ctx=64, n_seq_max=2)
    text = "\n".join(f"{level} {line}" for level, line in records)
    for part in ("n_seq_max     = 2", "n_ctx         = 64", "n_ctx_per_seq = 32", "n_batch       = 64", "causal_attn   = 1",
                 "flash_attn    = 0",
                 "freq_base     = 10000.0", "freq_scale    = 1"):
        assert f"2 {part}" in text
    assert "3 n_ctx_per_seq (32) < n_ctx_train (256)" in text
