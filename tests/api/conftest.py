"""A tiny random llama without vocabulary, written by the tests themselves, and the log of a test."""
import subprocess
import sys

import numpy as np
import pytest

N_VOCAB, N_EMBD, N_LAYER, N_HEAD, N_HEAD_KV, N_FF, N_CTX = 64, 64, 2, 4, 2, 96, 128


def write_llama(path, name="tiny", **extra):
    """A llama of float32 matrices with fixed random values. extra: further metadata, key with dots as double underscores."""
    gguf = pytest.importorskip("gguf")
    rng = np.random.default_rng(7)
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_name(name)
    w.add_context_length(N_CTX)
    w.add_embedding_length(N_EMBD)
    w.add_block_count(N_LAYER)
    w.add_feed_forward_length(N_FF)
    w.add_head_count(N_HEAD)
    w.add_head_count_kv(N_HEAD_KV)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(N_VOCAB)
    w.add_tokenizer_model("none")
    for key, value in extra.items():
        add = {bool: w.add_bool, int: w.add_uint32, float: w.add_float32, str: w.add_string, list: w.add_array}[type(value)]
        add(key.replace("__", "."), value)
    matrix = lambda rows, k: (rng.standard_normal((rows, k)) / np.sqrt(k)).astype(np.float32)
    ones = np.ones(N_EMBD, np.float32)
    w.add_tensor("token_embd.weight", matrix(N_VOCAB, N_EMBD))
    w.add_tensor("output_norm.weight", ones)
    w.add_tensor("output.weight", matrix(N_VOCAB, N_EMBD))
    kv = N_EMBD // N_HEAD * N_HEAD_KV
    for il in range(N_LAYER):
        w.add_tensor(f"blk.{il}.attn_norm.weight", ones)
        w.add_tensor(f"blk.{il}.ffn_norm.weight", ones)
        shapes = dict(attn_q=(N_EMBD, N_EMBD), attn_k=(kv, N_EMBD), attn_v=(kv, N_EMBD), attn_output=(N_EMBD, N_EMBD),
                      ffn_gate=(N_FF, N_EMBD),
                      ffn_up=(N_FF, N_EMBD), ffn_down=(N_EMBD, N_FF))
        for part, shape in shapes.items():
            w.add_tensor(f"blk.{il}.{part}.weight", matrix(*shape))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


@pytest.fixture(scope="session")
def llama_path(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("models") / "llama.gguf")


@pytest.fixture
def model(llama_path):
    import kipu

    with kipu.Model(llama_path) as m:
        yield m


@pytest.fixture
def ctx(model):
    """A functional context of 64 cells on one thread."""
    import kipu

    p = kipu.llama_context_default_params()
    p.n_ctx, p.n_seq_max, p.n_threads, p.n_threads_batch = 64, 4, 1, 1
    c = kipu.llama_init_from_model(model, p)
    yield c
    kipu.llama_free(c)


@pytest.fixture
def log():
    """Records (level, text) since the start of the test."""
    import kipu

    records = []
    kipu.llama_log_set(lambda level, text, _: records.append((level, text.decode())))
    yield records
    kipu.llama_log_set(None)


@pytest.fixture
def in_child(llama_path):
    """Runs code in a Python of its own, with `path` set; the exit code must be 0. Gives what it printed."""

    def run(code):
        done = subprocess.run([sys.executable, "-c", f"path = {str(llama_path)!r}\nimport kipu\n{code}"], capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr[-2000:]}"
        return done.stdout

    return run
