"""Models through the functions and as objects: loading, facts, metadata, callbacks, names of split files."""
import array
import ctypes
import os
import pathlib

import numpy as np
import pytest

import kipu
from conftest import write_llama


def load(path, **fields):
    p = kipu.llama_model_default_params()
    for name, value in fields.items():
        setattr(p, name, value)
    return kipu.llama_model_load_from_file(path, p)


@pytest.fixture(scope="module")
def rich_path(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("models") / "rich.gguf", general__file_type=1, tokenizer__chat_template="{{ hello }}",
                       my__flag=True,
                       my__real=0.5, my__list=[1, 2, 3])


# ------------------------------------------------------------------------------------------------ loading

@pytest.mark.parametrize("form", [str, os.fsencode, pathlib.Path])
def test_paths(llama_path, form):
    assert load(form(llama_path)) is not None


@pytest.mark.parametrize("data", [b"", b"GGUF", b"this is no model file" * 10, None])
def test_bad_files_give_none_and_a_line(tmp_path, log, data):
    path = tmp_path / "x.gguf"
    if data is not None:
        path.write_bytes(data)
    assert load(path) is None
    assert log[-1][0] == 4 and "model" in log[-1][1]
    with pytest.raises((OSError, ValueError)):
        kipu.Model(path)


def test_damaged_files(llama_path, tmp_path):
    data = llama_path.read_bytes()
    for name, changed in (("version", data[:4] + b"\1" + data[5:]), ("cut", data[:-4096]), ("head", data[:200]),
                          ("arch", data.replace(b"llama", b"xlama"))):
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(changed)
        assert load(path) is None
    with pytest.raises(ValueError, match="unknown model architecture"):
        kipu.Model(path)


def test_architectures_for_later(llama_path, tmp_path):
    path = tmp_path / "olmo2.gguf"
    path.write_bytes(llama_path.read_bytes().replace(b"llama", b"olmo2"))
    for load_it in (load, kipu.Model):
        with pytest.raises(NotImplementedError, match="'olmo2' is not supported yet"):
            load_it(path)


def test_explain(model):
    for thing in (model, model.handle, model.context(n_ctx=32), model.context(n_ctx=32).handle):
        assert "blk.0.attn_q.weight" in kipu.explain(thing)
    for thing in (None, 3, model.vocab):
        with pytest.raises(TypeError, match="must be a model or a context"):
            kipu.explain(thing)


@pytest.mark.parametrize("path, error", [(7, TypeError), (None, TypeError)])
def test_paths_of_another_kind(path, error):
    with pytest.raises(error):
        load(path)


def test_zero_byte_in_a_path(log):
    assert load("a\0b") is None and log[-1][0] == 4


def test_parameters_of_another_kind(llama_path):
    with pytest.raises(TypeError):
        kipu.llama_model_load_from_file(llama_path, kipu.llama_context_default_params())
    with pytest.raises(TypeError, match="n_gpu"):
        kipu.Model(llama_path, n_gpu=1)


def test_vocab_only(llama_path, log):
    m = load(llama_path, vocab_only=True)
    assert kipu.llama_vocab_n_tokens(kipu.llama_model_get_vocab(m)) == 64
    assert kipu.llama_model_n_embd(m) == 0
    c = kipu.llama_init_from_model(m, kipu.llama_context_default_params())
    assert kipu.llama_n_ctx(c) == 512 and kipu.llama_get_model(c) is m and kipu.llama_get_memory(c) is None
    assert kipu.llama_decode(c, kipu.llama_batch_get_one([1])) == -1 and "vocab_only" in log[-1][1]
    assert kipu.llama_encode(c, kipu.llama_batch_get_one([1])) == -1
    assert kipu.llama_get_logits(c) is None and kipu.llama_get_logits_ith(c, 0) is None
    assert kipu.llama_memory_seq_pos_max(c, 0) == -1
    with pytest.raises(RuntimeError, match="vocab_only"):
        kipu.llama_set_causal_attn(c, False)
    kipu.llama_free(c)
    with pytest.raises(ValueError, match="freed"):
        kipu.llama_decode(c, kipu.llama_batch_get_one([1]))


def test_splits_of_one(llama_path, log):
    assert kipu.llama_model_load_from_splits([llama_path], 1, kipu.llama_model_default_params()) is not None
    assert kipu.llama_model_load_from_splits([], 0, kipu.llama_model_default_params()) is None
    with pytest.raises(ValueError):
        kipu.llama_model_load_from_splits([llama_path], 2, kipu.llama_model_default_params())


# ------------------------------------------------------------------------------------------------ callbacks while loading

def test_progress(llama_path):
    seen = []
    assert load(llama_path, progress_callback=lambda f, data: seen.append((f, data)) or True, progress_callback_user_data="x") is not None
    fractions = [f for f, _ in seen]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0 and {d for _, d in seen} == {"x"}


def test_progress_cancels(llama_path, log):
    assert load(llama_path, progress_callback=lambda f, data: False) is None
    assert log[-1][0] == 2 and "cancelled" in log[-1][1]
    with pytest.raises(kipu.Aborted):
        kipu.Model(llama_path, progress_callback=lambda f, data: False)


@pytest.mark.parametrize("error", [ValueError("mine"), KeyError("mine"), KeyboardInterrupt("mine")])
def test_an_exception_in_the_progress_callback_comes_back(llama_path, error):
    def callback(fraction, data):
        raise error

    for call in (lambda: load(llama_path, progress_callback=callback), lambda: kipu.Model(llama_path, progress_callback=callback)):
        with pytest.raises(type(error)) as caught:
            call()
        assert caught.value is error


# ------------------------------------------------------------------------------------------------ facts

def test_facts(model):
    names = ("n_ctx_train n_embd n_layer n_head n_head_kv n_swa rope_type n_cls_out has_encoder has_decoder decoder_start_token "
             "is_recurrent").split()
    assert [getattr(kipu, "llama_model_" + n)(model) for n in names] == [128, 64, 2, 4, 2, 0, 0, 1, False, True, -1, False]
    assert kipu.llama_model_rope_freq_scale_train(model) == 1.0 and kipu.llama_model_cls_label(model, 0) is None
    matrices = 2 * 64 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64)
    assert kipu.llama_model_n_params(model) == matrices + 5 * 64 and kipu.llama_model_size(model) == 4 * (matrices + 5 * 64)
    assert (kipu.llama_n_ctx_train(model), kipu.llama_n_embd(model), kipu.llama_n_layer(model), kipu.llama_n_head(model)) == (128, 64, 2, 4)
    assert model.hyper_params.n_layer == 2 and model.n_vocab == 64


def test_description(model, rich_path):
    assert model.description == "llama ?B all F32 (guessed)"
    assert kipu.Model(rich_path).description == "llama ?B F16"
    buf = ctypes.create_string_buffer(64)
    assert kipu.llama_model_desc(model, buf, 64) == 26 and buf.value == b"llama ?B all F32 (guessed)"


def test_names_of_formats():
    from kipu._describe import format_name

    assert [format_name(n) for n in ("Q4_K_M", "Q2_K", "Q3_K_L", "Q6_K", "IQ4_XS", "Q8_0", "IQ3_M")] == [
        "Q4_K - Medium", "Q2_K - Medium", "Q3_K - Large", "Q6_K", "IQ4_XS - 4.25 bpw", "Q8_0", "IQ3_S mix - 3.66 bpw"]


def test_chat_template(model, rich_path):
    assert kipu.llama_model_chat_template(model, None) is None
    rich = kipu.Model(rich_path)
    assert kipu.llama_model_chat_template(rich, None) == b"{{ hello }}" and kipu.llama_model_chat_template(rich, b"tools") is None


def test_metadata(rich_path):
    m = kipu.Model(rich_path)
    n = kipu.llama_model_meta_count(m)
    found = {}
    for i in range(n):
        key, value = np.zeros(200, np.uint8), bytearray(200)
        k, v = kipu.llama_model_meta_key_by_index(m, i, key, 200), kipu.llama_model_meta_val_str_by_index(m, i, value, 200)
        found[bytes(key[:k])] = bytes(value[:v])
    assert found[b"my.flag"] == b"true" and found[b"my.real"] == b"0.500000" and found[b"llama.block_count"] == b"2"
    assert b"my.list" not in found
    assert {k.decode(): v.decode() for k, v in found.items()} == m.metadata
    assert list(m.handle.get("my.list")) == [1, 2, 3]


def test_the_snprintf_contract(rich_path):
    m = kipu.Model(rich_path)
    buf = bytearray(b"#" * 8)
    assert kipu.llama_model_meta_val_str(m, "general.architecture", buf, 4) == 5 and buf == b"lla\0####"
    assert kipu.llama_model_meta_val_str(m, b"general.architecture", buf, 8) == 5 and buf == b"llama\0##"
    assert kipu.llama_model_meta_val_str(m, "no.such.key", buf, 8) == -1 and buf[0] == 0
    assert kipu.llama_model_meta_val_str(m, "general.architecture", None, 0) == 5
    assert kipu.llama_model_meta_val_str(m, "general.architecture", bytearray(), 0) == 5
    for i in (-1, 1000):
        assert kipu.llama_model_meta_key_by_index(m, i, buf, 8) == kipu.llama_model_meta_val_str_by_index(m, i, buf, 8) == -1
    with pytest.raises(ValueError):
        kipu.llama_model_meta_val_str(m, "general.architecture", buf, 9)
    with pytest.raises(TypeError):
        kipu.llama_model_meta_val_str(m, "general.architecture", b"12345678", 8)


# ------------------------------------------------------------------------------------------------ overrides

class Override:
    """The shape of llama_model_kv_override."""

    def __init__(self, key, tag, **value):
        self.key, self.tag = key, tag
        self.__dict__.update(value)


@pytest.mark.parametrize("overrides", [{"llama.context_length": 99}, [("llama.context_length", 99)],
                                       [(b"llama.context_length", 99), ("", 0), ("x", object())],
                                       [Override(b"llama.context_length", 0, val_i64=99), Override(b"", 0, val_i64=0)]])
def test_overrides(llama_path, overrides):
    assert kipu.llama_model_n_ctx_train(load(llama_path, kv_overrides=overrides)) == 99


def test_overrides_reach_the_vocabulary_and_new_keys(llama_path):
    m = load(llama_path, kv_overrides={"llama.vocab_size": 64, "tokenizer.chat_template": "short", "my.real": 0.5, "my.flag": True})
    assert kipu.llama_model_chat_template(m, None) == b"short" and m.get("my.real") == 0.5 and m.get("my.flag") is True
    assert load(llama_path, kv_overrides={"tokenizer.ggml.model": "nonsense"}) is None


def test_overrides_of_another_type_are_ignored(llama_path, log):
    assert kipu.llama_model_n_ctx_train(load(llama_path, kv_overrides={"llama.context_length": 1.5, "nobody.asks": 1})) == 128
    assert any(level == 3 and "context_length" in text for level, text in log)


@pytest.mark.parametrize("overrides", [{"a" * 128: 1}, {"a": "b" * 128}, {"a": [1]}, {"a": 2**63}, {"a": "\ud800"}])
def test_overrides_that_cannot_be(llama_path, log, overrides):
    assert load(llama_path, kv_overrides=overrides) is None and log[-1][0] == 4


# ------------------------------------------------------------------------------------------------ split names

def test_split_names():
    buf = array.array("b", bytes(64))
    n = kipu.llama_split_path(buf, 64, "/a/model", 1, 3)
    assert bytes(buf[:n]) == b"/a/model-00002-of-00003.gguf" and buf[n] == 0
    out = bytearray(64)
    assert kipu.llama_split_prefix(out, 64, b"/a/model-00002-of-00003.gguf", 1, 3) == 8 and out[:9] == b"/a/model\0"
    for path, no, count in (("/a/model-00002-of-00003.gguf", 0, 3), ("/a/model-00002-of-00003.gguf", 1, 4), ("/a/model.gguf", 0, 1),
                            ("", 0, 0)):
        assert kipu.llama_split_prefix(out, 64, path, no, count) == 0
