"""The library itself: log hook, system facts, types, names that come later, import without gguf."""
import logging

import numpy as np
import pytest

import kipu


# ------------------------------------------------------------------------------------------------ log

def test_hook_and_default_sink(caplog):
    seen = []
    kipu.llama_log_set(lambda *record: seen.append(record), "data")
    kipu.llama_init_from_model(None, kipu.llama_context_default_params())
    kipu.llama_log_set(None, None)
    assert seen == [(4, b"llama_init_from_model: model is None\n", "data")]
    with caplog.at_level(logging.DEBUG, "kipu"):
        kipu.llama_init_from_model(None, kipu.llama_context_default_params())
    assert [(r.name, r.levelno) for r in caplog.records] == [("kipu", logging.ERROR)] and len(seen) == 1


def test_nothing_is_printed_by_default(in_child, capfd):
    out = in_child("""
m = kipu.Model(path)
c = m.context()
kipu.llama_decode(c, kipu.llama_batch_get_one([1000]))
kipu.llama_model_load_from_file("missing", kipu.llama_model_default_params())
""")
    assert out == "" and capfd.readouterr() == ("", "")


def test_a_hook_that_raises(ctx, llama_path):
    """Its exception reaches the caller, whatever the function does with failures of its own."""
    def hook(level, text, data):
        raise ValueError("mine")

    kipu.llama_log_set(hook)
    try:
        for call in (lambda: kipu.llama_decode(ctx, kipu.llama_batch_get_one([1000])), lambda: kipu.llama_init_from_model(None, None),
                     lambda: kipu.llama_model_load_from_file(llama_path, kipu.llama_model_default_params()),
                     lambda: kipu.llama_get_logits_ith(ctx, 5)):
            with pytest.raises(ValueError, match="mine"):
                call()
    finally:
        kipu.llama_log_set(None)


def test_hook_must_be_callable():
    with pytest.raises(TypeError):
        kipu.llama_log_set(7)


# ------------------------------------------------------------------------------------------------ facts

def test_facts():
    kipu.llama_backend_init()
    kipu.llama_backend_free()
    kipu.llama_numa_init(kipu.GGML_NUMA_STRATEGY_DISABLED)
    with pytest.raises(ValueError):
        kipu.llama_numa_init(9)
    assert kipu.llama_time_us() <= kipu.llama_time_us()
    assert kipu.llama_supports_mmap() is True and kipu.llama_supports_gpu_offload() is False and kipu.llama_supports_rpc() is False
    assert kipu.llama_max_devices() == 16 and kipu.llama_max_parallel_sequences() == 64
    info = kipu.llama_print_system_info()
    assert info.startswith(b"CPU : ") and all(b" = " in part for part in info[6:].split(b" | ")[:-1])
    assert info.endswith(f" KIPU_CPU = {kipu.system_info()['tier']} | ".encode())


def test_constants():
    assert (kipu.LLAMA_DEFAULT_SEED, kipu.LLAMA_TOKEN_NULL) == (0xFFFFFFFF, -1)
    assert (kipu.LLAMA_SESSION_VERSION, kipu.LLAMA_STATE_SEQ_VERSION) == (9, 2)
    assert kipu.LLAMA_FILE_MAGIC_GGSN.to_bytes(4, "big") == b"ggsn" and kipu.LLAMA_FILE_MAGIC_GGSQ.to_bytes(4, "big") == b"ggsq"
    assert (kipu.GGML_TYPE_BF16, kipu.LLAMA_POOLING_TYPE_RANK, kipu.LLAMA_VOCAB_TYPE_BPE, kipu.GGML_LOG_LEVEL_CONT) == (30, 4, 2, 5)


def test_import_is_light(in_child):
    in_child("import sys; assert not {'gguf', 'jinja2', 'yaml'} & set(sys.modules)")


def test_names_for_later():
    from kipu import _llama_later

    names = [n for names in _llama_later._NAMES.values() for n in names.split()]
    assert len(names) == len(set(names)) and set(names) <= set(kipu.__all__)
    for name in names:
        with pytest.raises(NotImplementedError, match=name):
            getattr(kipu, name)(None)


def test_decorators_return_the_function():
    def f(*args):
        return args

    for name in ("llama_log_callback", "ggml_abort_callback", "llama_progress_callback", "ggml_backend_sched_eval_callback"):
        assert getattr(kipu, name)(f) is f


# ------------------------------------------------------------------------------------------------ types

def test_scalar_types():
    a = (kipu.llama_token * 3)(7, 8)
    assert isinstance(a, np.ndarray) and a.dtype == np.int32 and list(a) == [7, 8, 0]
    assert kipu.llama_token(5) == 5 and type(kipu.llama_token(5)) is int and kipu.llama_pos() == 0
    with pytest.raises(ValueError):
        kipu.llama_seq_id(2**31)
    with pytest.raises(IndexError):
        (kipu.llama_token * 1)(1, 2)


def test_struct_types():
    a = (kipu.llama_token_data * 2)()
    a[0]["id"] = 7
    assert a.dtype.itemsize == 12 and a["id"][0] == 7
    assert kipu.llama_logit_bias(3, bias=0.5)["bias"] == 0.5


# ------------------------------------------------------------------------------------------------ vocabulary and samplers

def test_vocabulary_without_text(model):
    v = kipu.llama_model_get_vocab(model)
    assert v is model.vocab and kipu.llama_vocab_type(v) == 0 and kipu.llama_vocab_n_tokens(v) == kipu.llama_n_vocab(model) == 64
    assert kipu.llama_vocab_bos(v) == kipu.llama_token_eos(model) == -1
    with pytest.raises(RuntimeError):
        kipu.llama_tokenize(v, b"hi", 2, np.zeros(4, np.int32), 4, True, False)
    for bad in (-1, 64, 2**31 - 1):
        with pytest.raises(ValueError):
            kipu.llama_vocab_get_text(v, bad)
        with pytest.raises(ValueError):
            kipu.llama_token_to_piece(v, bad, bytearray(8), 8, 0, True)
        assert kipu.llama_vocab_is_eog(v, bad) is False


def test_samplers(ctx, log):
    chain = kipu.llama_sampler_chain_init(kipu.llama_sampler_chain_default_params())
    top, greedy = kipu.llama_sampler_init_top_k(5), kipu.llama_sampler_init_greedy()
    kipu.llama_sampler_chain_add(chain, top)
    assert kipu.llama_decode(ctx, kipu.llama_batch_get_one([1, 2])) == 0
    with pytest.raises(RuntimeError):
        kipu.llama_sampler_sample(chain, ctx, -1)
    kipu.llama_sampler_chain_add(chain, greedy)
    assert kipu.llama_sampler_sample(chain, ctx, -1) == kipu.llama_get_logits_ith(ctx, -1).argmax()
    assert kipu.llama_sampler_chain_n(chain) == 2 and kipu.llama_sampler_chain_get(chain, 1) is greedy
    assert kipu.llama_sampler_name(top) == b"top-k"
    with pytest.raises(ValueError):
        kipu.llama_sampler_sample(chain, ctx, 0)
    kipu.llama_sampler_free(greedy)
    assert kipu.llama_sampler_chain_remove(chain, 0) is top and kipu.llama_sampler_get_seed(chain) == 0xFFFFFFFF
    kipu.llama_sampler_free(chain)
    kipu.llama_sampler_free(chain)
    kipu.llama_sampler_free(None)
    with pytest.raises(ValueError, match="freed"):
        kipu.llama_sampler_sample(chain, ctx, -1)


def test_candidates():
    cur = kipu.llama_token_data_array.from_logits(np.array([0.5, 3.0, 1.0], np.float32))
    kipu.llama_sampler_apply(kipu.llama_sampler_init_top_k(2), cur)
    assert cur.size == 2 and list(cur.data["id"][:2]) == [1, 2]
    kipu.llama_sampler_apply(kipu.llama_sampler_init_greedy(), cur)
    assert cur.data["id"][cur.selected] == 1
