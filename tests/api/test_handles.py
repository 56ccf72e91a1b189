"""Life cycles: free in any order, twice, at exit, in cycles; fork; pickle. Each ends a process of its own if it goes wrong."""
import pickle

import pytest

import kipu

MAKE = """
m = kipu.llama_model_load_from_file(path, kipu.llama_model_default_params())
c = kipu.llama_init_from_model(m, kipu.llama_context_default_params())
assert kipu.llama_decode(c, kipu.llama_batch_get_one([1, 2, 3])) == 0
"""


@pytest.mark.parametrize("order", ["kipu.llama_free(c); kipu.llama_model_free(m)", "kipu.llama_model_free(m); kipu.llama_free(c)",
                                   "kipu.llama_model_free(m); kipu.llama_model_free(m); kipu.llama_free(c); kipu.llama_free(c)",
                                   "del m; del c", "del c; del m", "pass", "kipu.llama_free(None); kipu.llama_model_free(None)"])
def test_free_in_any_order(in_child, order):
    in_child(MAKE + order)


def test_model_freed_first_leaves_the_context_working(in_child):
    in_child(MAKE + """
v = kipu.llama_model_get_vocab(m)
kipu.llama_model_free(m)
assert kipu.llama_decode(c, kipu.llama_batch_get_one([4])) == 0
assert kipu.llama_get_logits_ith(c, 0).shape == (64,)
assert kipu.llama_vocab_n_tokens(v) == 64
try:
    kipu.llama_model_n_embd(m)
except ValueError as e:
    assert "freed" in str(e)
else:
    raise SystemExit(1)
""")


def test_use_after_free(model):
    c = kipu.llama_init_from_model(model, kipu.llama_context_default_params())
    memory = kipu.llama_get_memory(c)
    kipu.llama_free(c)
    for call in (lambda: kipu.llama_decode(c, kipu.llama_batch_get_one([1])), lambda: kipu.llama_get_logits(c), lambda: kipu.llama_n_ctx(c),
                 lambda: kipu.llama_memory_clear(memory, True), lambda: kipu.llama_set_n_threads(c, 1, 1), lambda: int(c),
                 lambda: kipu.llama_get_memory(c), lambda: kipu.llama_perf_context(c), lambda: kipu.llama_synchronize(c)):
        with pytest.raises(ValueError, match="freed"):
            call()


def test_cycles_are_collected(in_child):
    in_child(MAKE + """
import gc, weakref
w, b = weakref.ref(c), kipu.llama_batch_get_one([1])
kipu.llama_set_abort_callback(c, lambda data, keep=c: False, c)
del c, m
gc.collect()
assert w() is None
""")


def test_memory_handle_keeps_the_context_and_makes_no_cycle(in_child):
    in_child(MAKE + """
import gc, weakref
gc.disable()
mem, w = kipu.llama_get_memory(c), weakref.ref(c)
assert kipu.llama_get_memory(c) is mem and hash(mem) == hash(mem)
del c
assert kipu.llama_memory_seq_pos_max(mem, 0) == 2
del mem
assert w() is None
""")


def test_arrays_outlive_everything(in_child):
    in_child(MAKE + """
a = kipu.llama_get_logits(c)
b = a.copy()
kipu.llama_free(c)
kipu.llama_model_free(m)
del c, m
assert (a == b).all()
""")


def test_use_after_fork_is_an_error(in_child):
    in_child(MAKE + """
import os, warnings
warnings.simplefilter("ignore")
pid = os.fork()
if pid == 0:
    code = 1
    try:
        kipu.llama_decode(c, kipu.llama_batch_get_one([1]))
    except RuntimeError as e:
        code = 0 if "fork" in str(e) else 2
    kipu.llama_free(c)
    os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert kipu.llama_decode(c, kipu.llama_batch_get_one([1])) == 0
""")


def test_free_while_another_thread_computes(in_child):
    in_child(MAKE + """
import threading
started = threading.Event()
def wait(data):
    started.set()
    return False
kipu.llama_set_abort_callback(c, wait, None)
t = threading.Thread(target=lambda: kipu.llama_decode(c, kipu.llama_batch_get_one([1] * 200)))
t.start()
started.wait()
kipu.llama_free(c)
kipu.llama_model_free(m)
t.join()
""")


def test_identity_and_addresses(model, ctx):
    assert kipu.llama_get_model(ctx) is model.handle
    assert int(ctx) > 0 and int(model.handle) > 0 and int(kipu.llama_get_memory(ctx)) > 0
    assert ctx == ctx and {ctx: 1}[ctx] == 1
    assert kipu.llama_get_kv_self(ctx) is kipu.llama_get_memory(ctx)


def test_nothing_can_be_pickled(model, ctx):
    with kipu.Context(model, n_ctx=32) as context:
        for thing in (model, model.handle, context, ctx, kipu.llama_get_memory(ctx), kipu.llama_batch_init(1, 0, 1),
                      kipu.ggml_threadpool_new(kipu.ggml_threadpool_params_default(1))):
            with pytest.raises(TypeError):
                pickle.dumps(thing)


def test_context_managers(llama_path):
    with kipu.Model(llama_path) as m, m.context(n_ctx=32) as c:
        pass
    for thing in (m, c):
        assert "freed" in repr(thing)
    with pytest.raises(ValueError, match="freed"):
        c.decode([1])
    with pytest.raises(ValueError, match="freed"):
        m.context()


def test_wrong_handles_are_type_errors(model, ctx):
    for call in (lambda: kipu.llama_n_ctx(model), lambda: kipu.llama_model_n_embd(ctx), lambda: kipu.llama_n_ctx(None),
                 lambda: kipu.llama_decode(ctx, None),
                 lambda: kipu.llama_memory_clear(7), lambda: kipu.llama_decode(7, kipu.llama_batch_init(1)),
                 lambda: kipu.llama_free(kipu.llama_get_memory(ctx)),
                 lambda: kipu.llama_free(model), lambda: kipu.llama_model_free(ctx)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("code", ["kipu.llama_vocab()", "kipu.llama_vocab.__new__(kipu.llama_vocab).size", "kipu.llama_sampler()",
                                  "kipu.llama_memory(None)",
                                  "kipu.llama_memory.__new__(kipu.llama_memory).clear(True)", "kipu.llama_context(None, None)",
                                  "kipu.llama_context.__new__(kipu.llama_context).logits()", "kipu.llama_model([], False)",
                                  "kipu.llama_model.__new__(kipu.llama_model).n_params()", "kipu._core.Threadpool(0)"])
def test_handles_that_nobody_made(in_child, code):
    in_child(f"""
try:
    {code}
except (TypeError, ValueError):
    pass
else:
    raise SystemExit(1)
""")
