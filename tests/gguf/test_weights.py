"""The weight loader: rows come back as they lie in the file; errors, progress and cancelling with any number of threads."""
import gc
import os
import threading
import weakref

import gguf
import numpy as np
import pytest
from gguf_files import tiny_llama

from kipu._core import Aborted, GgufFile, ModelHandle, _kernel_types, _model_weight_rows, _model_weights
from kipu._load import build_program

Q = gguf.GGMLQuantizationType
DOWN = "blk.0.ffn_down.weight"


def load(path, n_threads=2, check=False, progress=lambda fraction: True, between=lambda: None):
    handle = ModelHandle([os.fsencode(path)])
    hp = build_program(handle, handle, handle.vocab.size)
    between()
    handle.load(hp, n_threads, check, progress)
    return handle


@pytest.mark.parametrize("n_threads", [1, 2, 5, 1000])
@pytest.mark.parametrize("kind", _kernel_types("ref"))
def test_rows_are_the_files(tmp_path, kind, n_threads):
    """Matrices of 40, 256, 300 rows: all but one end inside a panel. Every part of the rows, too."""
    kind = Q(kind)
    names = ("token_embd", *(f"blk.0.{part}" for part in ("attn_q", "attn_output", "ffn_up", "ffn_gate")))
    path = tiny_llama(tmp_path / "m.gguf", n_embd=256, n_ff=300, kinds={f"{name}.weight": kind for name in names})
    model, file = load(path, n_threads), GgufFile(path)
    data = {t.name: (file.read(i), t) for i, t in enumerate(file.tensors)}
    assert len(_model_weights(model)) == 8
    for name, rows in _model_weights(model):
        raw, entry = data[name]
        assert rows == entry.shape[1] and _model_weight_rows(model, name, 0, rows) == raw
    raw, size = data["token_embd.weight"][0], len(data["token_embd.weight"][0]) // 40
    for r0, r1 in ((0, 0), (0, 1), (39, 40), (15, 17), (7, 33), (40, 40)):
        assert _model_weight_rows(model, "token_embd.weight", r0, r1) == raw[r0 * size:r1 * size]
    for r0, r1 in ((-1, 1), (0, 41), (3, 2)):
        with pytest.raises(ValueError, match=r"rows .* of tensor 'token_embd.weight', which has 40"):
            _model_weight_rows(model, "token_embd.weight", r0, r1)


def test_more_than_one_read(tmp_path):
    """Tensors of several reads each, and rows longer than a read."""
    path = tiny_llama(tmp_path / "m.gguf", n_embd=512, n_ff=5003, n_vocab=777)
    model, file = load(path, 3), GgufFile(path)
    for i, t in enumerate(file.tensors):
        if len(t.shape) == 2:
            assert _model_weight_rows(model, t.name, 0, t.shape[1]) == file.read(i)


# ------------------------------------------------------------------------------------------------ progress

@pytest.mark.parametrize("n_threads", [1, 2])
def test_progress(tmp_path, n_threads):
    seen, threads = [], set()

    def progress(fraction):
        seen.append(fraction)
        threads.add(threading.get_ident())
        return True
    load(tiny_llama(tmp_path / "m.gguf"), n_threads, progress=progress)
    assert seen[0] == 0 and seen[-1] == 1 and seen == sorted(seen)
    assert threads == {threading.get_ident()}
    if n_threads == 1:
        assert len(seen) == 2 + 11      # one read for each tensor


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("at", [0, 1])
def test_cancelled(tmp_path, n_threads, at):
    seen = []

    def progress(fraction):
        seen.append(fraction)
        return fraction < at
    with pytest.raises(Aborted, match="loading was cancelled"):
        load(tiny_llama(tmp_path / "m.gguf"), n_threads, progress=progress)
    assert seen[-1] == at or n_threads == 1 and seen[-1] >= at
    assert at or seen == [0]


# ------------------------------------------------------------------------------------------------ what is refused

def test_what_the_program_wants(tmp_path):
    def refused(message, kind=ValueError, **fields):
        path = tiny_llama(tmp_path / "m.gguf", **fields)
        with pytest.raises(kind, match=message):
            load(path)
    refused(r"tensor 'blk.0.ffn_up.weight' has shape \[64, 97\], expected \[64, 96\]", more={"blk.0.ffn_up": (97, 64)})
    refused(r"tensor 'output_norm.weight' has shape \[64, 1\], expected \[64\]", more={"output_norm": (1, 64)})
    refused("wrong number of tensors; expected 12, got 13: the model does not use 'blk.1.extra.weight'",
            more={"blk.1.extra": (2,), "output": (40, 64)})
    refused("tensor 'output_norm.weight' is Q8_0, expected F32, F16 or BF16", kinds={"output_norm.weight": Q.Q8_0})
    refused(r"tensor 'blk.0.attn_q.weight' has type 10 \(Q2_K\), which is not supported yet", NotImplementedError, n_embd=256,
            kinds={"blk.0.attn_q.weight": Q.Q2_K})


def put(name, index, value):
    def damage(tensor, x):
        if tensor == name:
            x.reshape(-1)[index] = value
        return x
    return damage


def put_half(name, index, bits):
    """Two bytes of a quantised tensor: a scale."""
    def damage(tensor, x):
        if tensor == name:
            x.view("<u2").reshape(-1)[index] = bits
        return x
    return damage


@pytest.mark.parametrize("kind, damage", [
    (Q.F32, put(DOWN, -1, np.nan)), (Q.F32, put(DOWN, 5, -np.inf)), (Q.F16, put(DOWN, 7, np.nan)), (Q.Q8_0, put_half(DOWN, 0, 0x7E00)),
    (Q.Q4_1, put_half(DOWN, 1, 0x7C00)), (Q.F32, put("blk.0.attn_norm.weight", 63, np.nan)),
])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_check_tensors(tmp_path, kind, damage, n_threads):
    path = tiny_llama(tmp_path / "m.gguf", kinds={DOWN: kind}, damage=damage)
    with pytest.raises(ValueError, match="tensor 'blk.0.(ffn_down|attn_norm).weight' holds a value that is not finite"):
        load(path, n_threads, check=True)
    load(path, n_threads)


def test_check_tensors_lets_good_ones_pass(tmp_path):
    load(tiny_llama(tmp_path / "m.gguf", kinds={DOWN: Q.Q5_1}), check=True)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_shrinks_before_loading(tmp_path, n_threads):
    path = tiny_llama(tmp_path / "m.gguf")
    with pytest.raises(OSError, match="m.gguf' ends at byte"):
        load(path, n_threads, between=lambda: os.truncate(path, os.path.getsize(path) - 100))


def test_loading_twice(tmp_path):
    model = load(tiny_llama(tmp_path / "m.gguf"))
    with pytest.raises(RuntimeError, match="the weights were loaded before"):
        model.load(model.hp, 1, False, lambda fraction: True)


def test_memory_is_given_back_at_once(tmp_path):
    """Not only by the next garbage collection: weights are large."""
    gc.disable()
    try:
        model = load(tiny_llama(tmp_path / "m.gguf"))
        alive = weakref.ref(model)
        del model
        assert alive() is None
    finally:
        gc.enable()


def test_a_file_that_changes_later_does_not_matter(tmp_path):
    path = tiny_llama(tmp_path / "m.gguf")
    model, before = load(path), GgufFile(path).read(0)
    os.truncate(path, 10)
    name, rows = _model_weights(model)[0]
    assert name == "token_embd.weight" and _model_weight_rows(model, name, 0, rows) == before
