"""A C extension that uses kipu through include/kipu.h alone, built and run here."""
import importlib.util
import subprocess
import sysconfig
from pathlib import Path

import kipu
import pytest

HERE = Path(__file__).parent
TOKENS = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    target = tmp_path_factory.mktemp("native") / ("native" + sysconfig.get_config_var("EXT_SUFFIX"))
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    subprocess.run([*compiler, "-std=c11", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
                    f"-I{sysconfig.get_path('include')}", f"-I{kipu.get_include()}", str(HERE / "native.c"), "-o", str(target)], check=True)
    spec = importlib.util.spec_from_file_location("native", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random llama whose vocabulary is the 256 bytes."""
    import gguf
    import numpy as np
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("model") / "bytes.gguf"
    w = gguf.GGUFWriter(path, "llama")
    n_embd, n_ff, n_vocab = 64, 96, len(TOKENS)
    w.add_context_length(256), w.add_embedding_length(n_embd), w.add_block_count(1), w.add_feed_forward_length(n_ff)
    w.add_head_count(2), w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("llama"), w.add_token_list(TOKENS), w.add_token_scores([0.0] * n_vocab)
    w.add_token_types([2, 3, 3] + [6] * 256), w.add_add_space_prefix(False)
    matrix = lambda rows, k: rng.standard_normal((rows, k)).astype(np.float32)
    w.add_tensor("token_embd.weight", matrix(n_vocab, n_embd)), w.add_tensor("output_norm.weight", np.ones(n_embd, np.float32))
    for name in ("attn_norm", "ffn_norm"):
        w.add_tensor(f"blk.0.{name}.weight", np.ones(n_embd, np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        w.add_tensor(f"blk.0.{name}.weight", matrix(n_embd, n_embd))
    w.add_tensor("blk.0.ffn_gate.weight", matrix(n_ff, n_embd)), w.add_tensor("blk.0.ffn_up.weight", matrix(n_ff, n_embd))
    w.add_tensor("blk.0.ffn_down.weight", matrix(n_embd, n_ff))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    return kipu.Model(path)


def python_text(model, prompt, n):
    """The same in Python."""
    ctx, out = model.context(n_ctx=256), b""
    ctx.decode(model.tokenize(prompt))
    for _ in range(n):
        token = int(ctx.logits_ith(-1).argmax())
        if kipu.llama_vocab_is_eog(kipu.llama_model_get_vocab(model.handle), token):
            break
        out += model.token_to_piece(token, special=False)
        ctx.decode([token])
    return out


def test_same_text_as_python(native, model):
    greedy = kipu.llama_sampler_init_greedy()
    assert native.generate(model, model.context(n_ctx=256), greedy, b"hello", 40) == python_text(model, "hello", 40)


def test_a_full_cache_is_a_code_with_a_reason(native, model):
    with pytest.raises(RuntimeError, match="code 1: .*room"):
        native.generate(model, model.context(n_ctx=32), kipu.llama_sampler_init_greedy(), b"x" * 20, 100)


def test_wrong_and_freed_objects(native, model):
    ctx = model.context(n_ctx=32)
    with pytest.raises(TypeError, match="expected Sampler"):
        native.generate(model, ctx, 7, b"x", 1)
    ctx.free()
    with pytest.raises(ValueError, match="freed"):
        native.generate(model, ctx, kipu.llama_sampler_init_greedy(), b"x", 1)
