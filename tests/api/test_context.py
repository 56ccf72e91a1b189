"""Contexts through the functions: outputs, settings, callbacks, memory under all names, sizes, counters."""
import threading

import numpy as np
import pytest

import kipu


def one(tokens):
    return kipu.llama_batch_get_one(tokens)


# ------------------------------------------------------------------------------------------------ making

@pytest.mark.parametrize("fields", [{"n_seq_max": 65}, {"n_batch": 0, "n_ubatch": 0}, {"type_v": 8}, {"pooling_type": 9},
                                    {"n_threads": -1}])
def test_refused_parameters_give_none_and_a_line(model, log, fields):
    p = kipu.llama_context_params(**fields)
    assert kipu.llama_init_from_model(model, p) is None
    assert [level for level, _ in log] == [4]
    with pytest.raises(ValueError):
        kipu.Context(model, p)


def test_absurd_sizes_are_refused_not_fatal(model, log):
    for n in (2**31 - 1, 2**32 - 1):
        assert kipu.llama_init_from_model(model, kipu.llama_context_params(n_ctx=n)) is None
        assert log[-1][0] == 4


def test_no_model(log):
    assert kipu.llama_init_from_model(None, kipu.llama_context_default_params()) is None and log[0][0] == 4


def test_changing_parameters_later_has_no_effect(model):
    p = kipu.llama_context_params(n_ctx=32)
    c = kipu.llama_new_context_with_model(model, p)
    p.n_ctx = 4096
    assert kipu.llama_n_ctx(c) == 32 and kipu.llama_n_seq_max(c) == 1 and kipu.llama_pooling_type(c) == 0
    assert kipu.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN == 1


# ------------------------------------------------------------------------------------------------ outputs

def test_logits_and_their_indices(ctx, log):
    b = kipu.llama_batch_init(4, 0, 1)
    b.token[:], b.pos[:], b.n_seq_id[:], b.logits[:], b.n_tokens = [1, 2, 3, 4], range(4), 1, [0, 1, 0, 1], 4
    assert kipu.llama_decode(ctx, b) == 0
    both = kipu.llama_get_logits(ctx)
    assert both.shape == (2, 64) and both.dtype == np.float32
    for i, row in ((1, 0), (3, 1), (-1, 1), (-2, 0)):
        assert (kipu.llama_get_logits_ith(ctx, i) == both[row]).all()
    assert not log
    for i in (0, 2, 4, -3, 1000, -(2**31), 2**31 - 1):
        assert kipu.llama_get_logits_ith(ctx, i) is None
        assert log[-1][0] == 4 and f"invalid logits id {i}" in log[-1][1]


def test_no_outputs_before_and_without_flags(ctx, log):
    assert kipu.llama_get_logits(ctx) is None and kipu.llama_get_logits_ith(ctx, -1) is None
    b = kipu.llama_batch_get_one([1, 2])
    b.logits = [0, 0]
    assert kipu.llama_decode(ctx, b) == 0
    assert kipu.llama_get_logits(ctx) is None


def test_arrays_never_change(ctx):
    kept = []
    for t in range(20):
        assert kipu.llama_decode(ctx, one([t])) == 0
        a = kipu.llama_get_logits(ctx) if t % 2 else kipu.llama_get_logits_ith(ctx, 0)
        kept.append((a, a.copy()))
    assert all((a == b).all() for a, b in kept)
    assert len({bytes(b) for _, b in kept}) == 20


def test_refused_batches_leave_the_outputs(ctx):
    assert kipu.llama_decode(ctx, one([1, 2])) == 0
    before = kipu.llama_get_logits(ctx).copy()
    assert kipu.llama_decode(ctx, one([64])) == -1
    assert (kipu.llama_get_logits(ctx) == before).all()


def test_embeddings_are_not_there(ctx, log):
    assert kipu.llama_get_embeddings(ctx) is None and kipu.llama_get_embeddings_seq(ctx, 0) is None
    assert kipu.llama_get_embeddings_ith(ctx, 0) is None and "no embeddings" in log[-1][1]
    with pytest.raises(NotImplementedError):
        kipu.llama_set_embeddings(ctx, True)


def test_encode_is_refused(ctx, log):
    assert kipu.llama_encode(ctx, one([1])) == -1 and log[-1][0] == 4


# ------------------------------------------------------------------------------------------------ room

def test_full_memory_is_code_1_and_changes_nothing(ctx, log):
    assert kipu.llama_decode(ctx, one([1] * 60)) == 0
    assert kipu.llama_decode(ctx, one([1] * 5)) == 1 and log[-1][0] == 3
    assert kipu.llama_kv_self_n_tokens(ctx) == 60
    assert kipu.llama_decode(ctx, one([1] * 4)) == 0


def test_exceptions_instead_of_codes(model):
    with kipu.Context(model, n_ctx=64) as c:
        c.decode([1] * 64)
        with pytest.raises(kipu.CacheFull):
            c.decode([1])
        with pytest.raises(ValueError, match="token"):
            c.decode([64])
        c.set_abort_callback(lambda data: True)
        c.memory.clear(True)
        with pytest.raises(kipu.Aborted):
            c.decode([1])
        c.set_abort_callback(None)
        c.decode([1])
        assert c.logits.shape == (1, 64) and c.logits_ith(0).shape == (64,)
        with pytest.raises(IndexError):
            c.logits_ith(5)


# ------------------------------------------------------------------------------------------------ callbacks

def test_abort(ctx, log):
    calls = []
    kipu.llama_set_abort_callback(ctx, lambda data: calls.append(data) or True, "data")
    assert kipu.llama_decode(ctx, one([1, 2])) == 2
    assert calls and set(calls) == {"data"} and log[-1][0] == 4
    assert kipu.llama_get_logits(ctx) is None and kipu.llama_memory_seq_pos_max(ctx, 0) == -1
    kipu.llama_set_abort_callback(ctx, None, None)
    assert kipu.llama_decode(ctx, one([1, 2])) == 0


def test_abort_from_the_parameters(model):
    p = kipu.llama_context_params(n_ctx=32, abort_callback=lambda data: data, abort_callback_data=True)
    assert kipu.llama_decode(kipu.llama_init_from_model(model, p), one([1])) == 2


@pytest.mark.parametrize("error", [KeyError("mine"), ValueError("mine"), KeyboardInterrupt("mine")])
def test_an_exception_in_the_abort_callback_comes_back(ctx, error):
    def callback(data):
        raise error

    kipu.llama_set_abort_callback(ctx, callback, None)
    with pytest.raises(type(error)) as caught:
        kipu.llama_decode(ctx, one([1]))
    assert caught.value is error
    kipu.llama_set_abort_callback(ctx, None)
    assert kipu.llama_decode(ctx, one([1])) == 0


def test_calls_from_a_callback_into_its_own_context_raise(ctx, model):
    seen = []

    def callback(data):
        for call in (lambda: kipu.llama_decode(ctx, one([1])), lambda: kipu.llama_memory_clear(ctx), lambda: kipu.llama_get_logits(ctx)):
            with pytest.raises(RuntimeError, match="callback"):
                call()
        with kipu.Context(model, n_ctx=32) as other:
            other.decode([1])
        seen.append(1)
        return False

    kipu.llama_set_abort_callback(ctx, callback)
    assert kipu.llama_decode(ctx, one([1])) == 0 and seen


def test_abort_callback_must_be_callable(ctx):
    with pytest.raises(TypeError):
        kipu.llama_set_abort_callback(ctx, 7)


def test_a_second_thread_waits(ctx):
    """Two threads on one context: every decode sees whole states only."""
    codes = []
    work = lambda: codes.extend(kipu.llama_decode(ctx, kipu.llama_batch_get_one([3], 1, None, s)) for _ in range(10) for s in range(2))
    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert codes == [0] * 60 and kipu.llama_kv_self_n_tokens(ctx) == 60


def test_signals_stop_a_decode(in_child):
    in_child("""
import signal
m = kipu.Model(path)
c = m.context(n_ctx=4096, n_batch=4096, n_ubatch=4096)
def stop(*_):
    raise KeyError("alarm")
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    while True:
        c.memory.clear(True)
        c.decode([1] * 4096)
except KeyError:
    pass
c.memory.clear(True)
c.decode([1])
""")


# ------------------------------------------------------------------------------------------------ settings

def test_threads(ctx):
    kipu.llama_set_n_threads(ctx, 2, 3)
    assert (kipu.llama_n_threads(ctx), kipu.llama_n_threads_batch(ctx)) == (2, 3)
    for bad in ((0, 1), (1, 0), (-1, 1), (513, 1)):
        with pytest.raises(ValueError):
            kipu.llama_set_n_threads(ctx, *bad)
    assert (kipu.llama_n_threads(ctx), kipu.llama_n_threads_batch(ctx)) == (2, 3)


def test_thread_pools(ctx):
    assert kipu.llama_decode(ctx, one([1, 2, 3])) == 0
    want = kipu.llama_get_logits(ctx)
    pool = kipu.ggml_threadpool_new(kipu.ggml_threadpool_params_default(2))
    assert pool.n_threads == 2
    kipu.llama_attach_threadpool(ctx, pool, None)
    kipu.ggml_threadpool_free(pool)
    kipu.ggml_threadpool_free(pool)
    kipu.llama_memory_clear(ctx)
    assert kipu.llama_decode(ctx, one([1, 2, 3])) == 0
    assert (kipu.llama_get_logits(ctx) == want).all()
    with pytest.raises(ValueError, match="freed"):
        kipu.llama_attach_threadpool(ctx, pool, None)
    kipu.llama_detach_threadpool(ctx)
    kipu.llama_memory_clear(ctx)
    assert kipu.llama_decode(ctx, one([1, 2, 3])) == 0
    with pytest.raises(ValueError):
        kipu.ggml_threadpool_new(kipu.ggml_threadpool_params_default(0))


def test_causal_attention(ctx):
    def rows(causal):
        kipu.llama_set_causal_attn(ctx, causal)
        kipu.llama_memory_clear(ctx)
        b = one([1, 2, 3])
        b.logits = [1, 1, 1]
        assert kipu.llama_decode(ctx, b) == 0
        return kipu.llama_get_logits(ctx)

    causal, free = rows(True), rows(False)
    assert not np.allclose(causal[0], free[0])
    assert (rows(True) == causal).all()


def test_switches_that_do_nothing_yet(ctx):
    kipu.llama_set_warmup(ctx, True)
    kipu.llama_set_embeddings(ctx, False)
    kipu.llama_synchronize(ctx)


# ------------------------------------------------------------------------------------------------ memory

@pytest.mark.parametrize("prefix", ["llama_memory_", "llama_kv_self_", "llama_kv_cache_"])
@pytest.mark.parametrize("through_memory", [True, False])
def test_memory_under_all_names(ctx, prefix, through_memory):
    call = lambda name, *args: getattr(kipu, prefix + name)(kipu.llama_get_memory(ctx) if through_memory else ctx, *args)
    assert kipu.llama_decode(ctx, one([1, 2, 3, 4])) == 0
    call("seq_cp", 0, 1, 0, 2)
    assert [call("seq_pos_max", s) for s in range(3)] == [3, 1, -1]
    assert call("seq_rm", 0, 3, -1) is True and call("seq_pos_max", 0) == 2
    call("seq_keep", 1)
    assert [call("seq_pos_max", s) for s in range(2)] == [-1, 1]
    assert call("can_shift") is True
    call("clear", *([True] if prefix == "llama_memory_" else []))
    assert call("seq_pos_max", 1) == -1
    for later in ("seq_add", "seq_div"):
        with pytest.raises(NotImplementedError):
            call(later, 0, 0, -1, 1)


@pytest.mark.parametrize("call", [lambda c: kipu.llama_memory_seq_rm(c, 64, -1, -1), lambda c: kipu.llama_memory_seq_cp(c, 0, 64, -1, -1),
                                  lambda c: kipu.llama_memory_seq_cp(c, -1, 0, -1, -1), lambda c: kipu.llama_memory_seq_keep(c, 64),
                                  lambda c: kipu.llama_memory_seq_pos_max(c, 64), lambda c: kipu.llama_memory_seq_pos_min(c, -1)])
def test_sequence_ids_out_of_range(ctx, call):
    with pytest.raises(ValueError):
        call(ctx)


def test_no_memory():
    kipu.llama_memory_clear(None, True)
    kipu.llama_memory_seq_cp(None, 0, 1, -1, -1)
    kipu.llama_memory_seq_keep(None, 0)
    assert kipu.llama_memory_seq_rm(None, 0, -1, -1) is True and kipu.llama_memory_can_shift(None) is False
    assert kipu.llama_memory_seq_pos_min(None, 0) == kipu.llama_memory_seq_pos_max(None, 0) == -1 and kipu.llama_kv_self_n_tokens(None) == 0


def test_size_of_the_state(ctx, model):
    assert kipu.llama_state_get_size(ctx) == 89
    assert kipu.llama_decode(ctx, one([1, 2, 3])) == 0
    row = 2 * 16 * 2                        # 2 heads of 16 values of 2 bytes
    cells = 3 * 12 + 2 * 3 * (row + row)    # position, count and one id each; K and V rows of two layers
    assert kipu.llama_state_get_size(ctx) == 89 + cells + 4 + 4 * 64


# ------------------------------------------------------------------------------------------------ counters

def test_counters(ctx, log):
    assert kipu.llama_perf_context(None) == (0, 0, 0, 0, 0, 0)
    fresh = kipu.llama_perf_context(ctx)
    assert (fresh.n_p_eval, fresh.n_eval) == (1, 1)
    for tokens in ([1, 2, 3], [4], [5]):
        assert kipu.llama_decode(ctx, one(tokens)) == 0
    assert kipu.llama_perf_context(ctx)[-2:] == (3, 2)
    kipu.llama_perf_context_print(ctx)
    assert [level for level, _ in log] == [2] * 4 and "tokens per second" in log[1][1]
    kipu.llama_perf_context_reset(ctx)
    assert kipu.llama_perf_context(ctx)[-2:] == (1, 1)
