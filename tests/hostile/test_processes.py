"""Threads, forks, frees and exits, each in a process of its own: exit code 0, no hang, the right bits."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = Path(__file__).parent.parent / "golden" / "data" / "models" / "llama.gguf"

HEAD = f"""
import faulthandler, gc, os, sys, threading, time
import numpy as np
import kipu
faulthandler.dump_traceback_later(90, exit=True)
kipu.llama_log_set(lambda level, text, data: None)
model = kipu.Model({str(MODEL)!r})
IDS = np.random.default_rng(0).integers(0, model.n_vocab, 200).tolist()


def context(**kw):
    return model.context(**{{"n_ctx": 512, "n_batch": 512, "n_ubatch": 32, "n_threads": 2, "n_threads_batch": 2, **kw}})


def prompt(ctx, ids=IDS, seq=0):
    batch = kipu.Batch(len(ids))
    for i, t in enumerate(ids):
        batch.add(t, i, (seq,), True)
    ctx.decode(batch)
    return np.array(ctx.logits)


def same(a, b):
    return a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32))


def run_all(threads):
    for t in threads: t.start()
    for t in threads: t.join()


"""


def run(code, expected="", cpus="3"):
    done = subprocess.run([sys.executable, "-c", HEAD + code], env={**os.environ, "KIPU_CPUS": cpus}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    assert done.stdout.strip() == expected, done.stdout + done.stderr


def test_one_context_many_threads():
    """Calls queue: each of four threads keeps a sequence of its own in one context."""
    run("""
ctx, alone, bad = context(n_ctx=1024, n_seq_max=8), prompt(context()), []
def work(seq):
    for i in range(40):
        b = kipu.llama_batch_init(1, 0, 1)
        b.n_tokens, b.token[0], b.pos[0], b.n_seq_id[0], b.seq_id[0][0], b.logits[0] = 1, IDS[i], i, 1, seq, 1
        if kipu.llama_decode(ctx, b) != 0:
            bad.append((seq, i))
        kipu.llama_get_logits(ctx), kipu.llama_get_logits_ith(ctx, -1), kipu.llama_memory_seq_pos_max(kipu.llama_get_memory(ctx), seq)
run_all([threading.Thread(target=work, args=(s,)) for s in range(4)])
assert not bad and [ctx.memory.seq_pos_max(s) for s in range(4)] == [39] * 4
for s in range(4):
    ctx.decode(kipu.Batch.of(IDS[40:41], 40, s) if hasattr(kipu.Batch, "of") else (lambda b: (b.add(IDS[40], 40, (s,), True), b)[1])(kipu.Batch(1)))
    assert same(np.array(ctx.logits), alone[40:41])
""")


def test_many_contexts_of_one_model():
    run("""
wanted, results = prompt(context()), {}
def work(k):
    results[k] = prompt(context(n_ubatch=16 + k))
run_all([threading.Thread(target=work, args=(k,)) for k in range(4)])
assert all(same(results[k], wanted) for k in range(4))
""")


def test_shared_pool():
    run("""
wanted, results, pool = prompt(context()), {}, kipu.ggml_threadpool_new(kipu.ggml_threadpool_params(n_threads=2))
def work(k):
    ctx = context()
    kipu.llama_attach_threadpool(ctx, pool, None)
    results[k] = prompt(ctx)
run_all([threading.Thread(target=work, args=(k,)) for k in range(3)])
kipu.ggml_threadpool_free(pool)
assert all(same(results[k], wanted) for k in range(3))
""")


@pytest.mark.parametrize("what", ["ctx.free()", "model.free()", "ctx.free(); model.free(); gc.collect()"])
def test_free_while_another_thread_decodes(what):
    """The decode ends as it would have, or raises ValueError when it comes too late."""
    run(f"""
for k in range(20):
    model = kipu.Model({str(MODEL)!r})
    ctx, seen, running = context(), [], threading.Event()
    kipu.llama_set_abort_callback(ctx, lambda _: running.set(), None)
    def work():
        try:
            for _ in range(5):
                ctx.memory.clear(True)
                seen.append(len(prompt(ctx)))
        except ValueError as e:
            seen.append("freed" in str(e))
    t = threading.Thread(target=work)
    t.start()
    running.wait(10)
    {what}
    t.join()
    assert seen and all(x in (200, True) for x in seen), seen
""")


def test_fork():
    """In the child the context raises, a new one computes, and freeing the old one is harmless; the parent does not notice."""
    run("""
ctx, wanted = context(), prompt(context())
assert same(prompt(ctx), wanted)
kept = ctx.logits
pid = os.fork()
if pid == 0:
    code = 1
    try:
        for call in (lambda: prompt(ctx), lambda: ctx.logits, lambda: ctx.memory.clear(True), lambda: ctx.memory.seq_pos_max(0)):
            try:
                call()
                os._exit(2)
            except RuntimeError:
                pass
        assert same(np.array(kept), wanted)
        new = context()
        assert same(prompt(new), wanted)
        ctx.free()
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(pid, 0)[1] == 0
ctx.memory.clear(True)
assert same(prompt(ctx), wanted)
""")


def test_fork_while_another_thread_decodes():
    run("""
ctx, stop = context(), []
prompt(ctx)
def work():
    while not stop:
        ctx.memory.clear(True)
        prompt(ctx)
t = threading.Thread(target=work)
t.start()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        try:
            prompt(ctx)
        except RuntimeError:
            ctx.free()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
stop.append(1)
t.join()
""")


@pytest.mark.parametrize("daemon", [True, False])
def test_exit_with_running_threads(daemon):
    run(f"""
ctx = context()
prompt(ctx)
def work():
    for _ in range(30):
        ctx.memory.clear(True)
        prompt(ctx)
threading.Thread(target=work, daemon={daemon}).start()
""")


def test_exit_from_a_callback():
    run("""
ctx = context()
def leave(_):
    raise SystemExit(0)
kipu.llama_set_abort_callback(ctx, leave, None)
prompt(ctx)
raise AssertionError("it went on")
""")


def test_cycles_and_order():
    run("""
class Holder:
    def __del__(self):
        try:
            self.ctx.logits, self.ctx.memory.seq_pos_max(0)
        except (ValueError, AttributeError):
            pass
for _ in range(10):
    h = Holder()
    h.model = kipu.Model(model.path if hasattr(model, "path") else %r)
    h.ctx = h.model.context(n_ctx=64, n_threads=2)
    h.me, h.memory, h.logits = h, h.ctx.memory, None
    h.ctx.decode(IDS[:5])
    h.logits = h.ctx.logits
    kipu.llama_set_abort_callback(h.ctx, lambda _, h=h: False, h)       # the context's callback holds what holds the context
    array = h.logits
    held = array.copy()
    del h
    gc.collect()
    assert same(np.array(array), held)
a = context(); a.free(); a.free(); kipu.llama_free(a); kipu.llama_free(None)
live = context(); prompt(live)           # left to the interpreter's end
""" % str(MODEL))


def test_a_callback_cannot_reenter():
    """The same context raises, another one computes."""
    run("""
ctx, other, seen = context(), context(), []
wanted = prompt(context())
def again(_):
    if len(seen) < 3:
        for call in (lambda: ctx.decode([1]), lambda: ctx.logits, lambda: ctx.memory.clear(True), lambda: kipu.llama_synchronize(ctx)):
            try:
                call()
                seen.append("entered")
            except RuntimeError:
                pass
        other.memory.clear(True)
        seen.append(same(prompt(other), wanted))
    return False
kipu.llama_set_abort_callback(ctx, again, None)
assert same(prompt(ctx), wanted) and seen == [True] * 3, seen
""")


def test_a_callback_that_frees_its_context():
    run("""
ctx = context()
kipu.llama_set_abort_callback(ctx, lambda _: kipu.llama_free(ctx), None)
try:
    prompt(ctx)
except ValueError:
    print("freed")
""", "freed")


def test_a_field_that_changes_the_batch():
    """Sizes are read once: code that runs while a field is converted cannot make the copy longer than its room."""
    run("""
big = np.zeros(1 << 20, np.int32)
class Evil:
    def __init__(self, action): self.action = action
    def __len__(self): return 4
    def __array__(self, dtype=None, copy=None):
        self.action()
        return np.zeros(4, np.int64)
for field in ("token", "pos", "logits", "n_seq_id"):
    ctx = context()
    b = kipu.llama_batch_init(4, 0, 1)
    rows = b.seq_id
    def grow():
        b.n_tokens = 1 << 20
        b.pos = b.n_seq_id = b.logits = big
        try: rows.resize((1 << 20, 1), refcheck=False)
        except ValueError: pass
    b.n_tokens, b.n_seq_id[:] = 4, 1
    setattr(b, field, Evil(grow))
    try:
        kipu.llama_decode(ctx, b)
    except (ValueError, TypeError):
        pass
    assert prompt(context()).shape[0] == 200
""")


def test_idle_contexts_sleep():
    """Process time over a second without calls: the workers are not spinning. (The bound is a tenth of one spinning worker.)"""
    run("""
ctx = context()
prompt(ctx)
ctx.decode([1])
time.sleep(0.05)
start = time.process_time()
time.sleep(1)
assert time.process_time() - start < 0.1, time.process_time() - start
""")


INTERRUPT = """
import signal
ctx = context(n_ctx=8192, n_batch=8192, n_ubatch=512)
wanted = prompt(context())
def ring():
    started.wait(10)
    os.kill(os.getpid(), signal.SIGINT)
started = threading.Event()
kipu.llama_set_abort_callback(ctx, lambda _: started.set(), None)
threading.Thread(target=ring).start()
ids = np.random.default_rng(1).integers(0, model.n_vocab, 8000).tolist()
try:
    ctx.decode(ids)
    time.sleep(1)           # a fast machine is done before the signal comes
    print("late")
except KeyboardInterrupt:
    print("interrupted")
assert (ctx.memory.seq_pos_max(0) + 1) % 512 == 0
kipu.llama_set_abort_callback(ctx, None, None)
ctx.memory.clear(True)
assert same(prompt(ctx), wanted)
"""


def test_interrupt():
    """Ctrl-C stops a decode with KeyboardInterrupt; the context goes on."""
    run(INTERRUPT, "interrupted")
