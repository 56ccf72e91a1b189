"""Random walks over the functional API: valid and hostile calls on one context, and a twin that is told only what succeeded.

Whatever a refused, aborted or impossible call left behind shows as a difference from the twin: positions, outputs, later logits.
"""
import kipu
import numpy as np

MAX = 2**31 - 1
EXPECTED = (ValueError, TypeError, OverflowError, IndexError)    # what a wrong argument may raise


class Stop(Exception):
    """Raised by an abort callback."""


def context(model, **kw):
    p = kipu.llama_context_default_params()
    for name, value in {"n_ctx": 64, "n_batch": 64, "n_ubatch": 8, "n_seq_max": 4, "n_threads": 1, "n_threads_batch": 1, **kw}.items():
        setattr(p, name, value)
    ctx = kipu.llama_init_from_model(model, p)
    assert ctx is not None
    return ctx


def make_batch(fields):
    """fields: dict of n_tokens, token, embd, pos, seqs (list of id lists), n_seq_id, logits."""
    batch = kipu.llama_batch_init(0, 0, 1)
    batch.n_tokens = fields["n_tokens"]
    for name, dtype in (("token", np.int32), ("embd", np.float32), ("pos", np.int32), ("n_seq_id", np.int32), ("logits", np.int8)):
        setattr(batch, name, None if fields.get(name) is None else np.array(fields[name], dtype))
    seqs = fields.get("seqs")
    if seqs is not None:
        batch.seq_id = seqs
        if batch.n_seq_id is None:
            batch.n_seq_id = np.array([len(ids) for ids in seqs], np.int32)
    return batch


def part(fields, rows):
    """The batch of these rows alone, with every field given."""
    take = lambda values: None if values is None else [values[i] for i in rows]
    return {"n_tokens": len(rows), **{name: take(fields.get(name)) for name in ("token", "embd", "pos", "seqs", "logits")}}


def positions(ctx):
    memory = kipu.llama_get_memory(ctx)
    return [kipu.llama_memory_seq_pos_max(memory, s) for s in range(64)]


def starts(ctx):
    memory = kipu.llama_get_memory(ctx)
    return [kipu.llama_memory_seq_pos_min(memory, s) for s in range(64)]


def same(a, b):
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32))


class Walk:
    def __init__(self, model, seed, **params):
        self.rng = np.random.default_rng(seed)
        self.model, self.params = model, params
        self.n_vocab = kipu.llama_vocab_n_tokens(kipu.llama_model_get_vocab(model))
        self.n_embd = kipu.llama_model_n_embd(model)
        self.window = params.get("swa_full") is False
        self.ctx, self.twin = context(model, **params), context(model, **params)
        self.n_ubatch = kipu.llama_n_ubatch(self.ctx)
        self.kept = []                   # (array, what it held)
        self.logits, self.rows = None, {}
        self.codes = {}

    # ---- draws

    def below(self, n):
        return int(self.rng.integers(n))

    def chance(self, p):
        return self.rng.random() < p

    def any_of(self, values):
        return values[self.below(len(values))]

    def wild(self):
        return self.any_of([0, 1, 2, 3, 5, 63, 64, 65, -1, -2, 1000, MAX, -MAX - 1, MAX - 1, 2**31, 2**40, -2**63])

    def fields(self):
        """A valid batch: some sequences go on (or start somewhere), tokens in a random order, sometimes shared or as vectors."""
        last, chosen = positions(self.ctx), self.rng.permutation(5)[: 1 + self.below(3)]
        first = starts(self.ctx)
        tokens = []
        for s in map(int, chosen):
            ids = [s]
            if self.chance(0.2):         # a token of several sequences: they must hold the same span
                ids += [o for o in range(5, 8) if (first[o], last[o]) == (first[s], last[s])]
            n, p0 = 1 + self.below(14), last[s] + 1 if last[s] >= 0 else self.any_of([0, 0, 0, 7, 500, 10000, MAX - 40])
            tokens += [(min(p0 + i, MAX), ids) for i in range(n) if p0 + i <= MAX]
        if self.chance(0.5):
            tokens = [tokens[i] for i in self.rng.permutation(len(tokens))]
        n = len(tokens)
        out = {"n_tokens": n, "pos": [p for p, _ in tokens], "seqs": [ids for _, ids in tokens],
               "token": self.rng.integers(0, self.n_vocab, n).tolist(), "embd": None,
               "logits": [int(self.chance(0.4)) for _ in tokens]}
        if self.chance(0.15):
            out["token"], out["embd"] = None, self.rng.standard_normal((n, self.n_embd)).astype(np.float32)
        return out

    def spoil(self, f):
        """One field made strange, often so that the batch is refused."""
        n = max([len(f[name]) for name in ("pos", "seqs") if f[name] is not None], default=0)
        i = self.below(n) if n else 0
        what = self.below(14)
        small = max(min(self.wild(), MAX), -MAX - 1)
        if what == 0: f["n_tokens"] = self.any_of([0, -1, -MAX - 1, n + 1, 65, MAX])
        elif what == 1: f["token"] = None
        elif what == 2: f["embd"] = self.rng.standard_normal((n, self.n_embd)).astype(np.float32)
        elif what == 3: f["pos"] = None
        elif what == 4: f["seqs"] = None
        elif what == 5: f["logits"] = None
        elif what == 6 and f["token"] and n: f["token"][i] = self.any_of([-1, self.n_vocab, MAX, -MAX - 1])
        elif what == 7 and f["pos"]: f["pos"][i] = small
        elif what == 8 and f["seqs"]: f["seqs"][i] = self.any_of([[small], [], [0, 0], [64], [-1], [3, 63], list(range(64)), list(range(65))])
        elif what == 9: f["n_seq_id"] = [self.any_of([0, -1, 2, 64, 65, MAX])] * n
        elif what == 10 and f["pos"]: f["pos"] = [f["pos"][self.below(n)] for _ in range(n)]
        elif what == 11: f["logits"] = [0] * n
        elif what == 12: f["seqs"] = [[self.below(64)] for _ in range(n)]
        elif what == 13: f["embd"], f["token"] = np.full((n, self.n_embd), self.any_of([np.nan, np.inf, 1e38, 0])), None
        return f

    # ---- checks

    def snapshot(self):
        memory = kipu.llama_get_memory(self.ctx)
        return positions(self.ctx), starts(self.ctx), kipu.llama_kv_self_n_tokens(memory)

    def check_outputs(self):
        assert same(kipu.llama_get_logits(self.ctx), self.logits)
        n = 0 if self.logits is None else len(self.logits)
        for i in [*range(-n - 1, 66), MAX, -MAX - 1]:
            row = self.rows.get(i, n + i if -n <= i < 0 else None)
            assert same(kipu.llama_get_logits_ith(self.ctx, i), None if row is None else self.logits[row]), i
        for array, held in self.kept:
            assert same(array, held)

    def check_twin(self):
        assert positions(self.ctx) == positions(self.twin)
        if not self.window:
            assert starts(self.ctx) == starts(self.twin)

    # ---- calls

    def callback(self):
        """An abort callback that stops at its k-th call, by an answer or an exception; None: none."""
        if self.chance(0.6):
            return None
        left, raises = [self.any_of([0, 1, 2, 5, 10, 20, 40, 80])], self.chance(0.3)

        def abort(_):
            left[0] -= 1
            if left[0] < 0 and raises:
                raise Stop
            return left[0] < 0
        return abort

    def decode(self):
        f = self.fields()
        hostile = self.chance(0.5)
        if hostile:
            f = self.spoil(f)
            f = self.spoil(f) if self.chance(0.2) else f
        before = self.snapshot()
        kipu.llama_set_abort_callback(self.ctx, self.callback())
        try:
            code = kipu.llama_decode(self.ctx, make_batch(f))
        except EXPECTED:
            assert hostile
            code = "refused"
        except Stop:
            code = 2
        kipu.llama_set_abort_callback(self.ctx, None)
        self.codes[code] = self.codes.get(code, 0) + 1
        assert code in (0, 1, 2, -1, "refused"), code
        if code == 0:
            self.succeeded(f)
        elif code == 2:
            self.logits, self.rows = None, {}
            self.stopped(f, before)
        else:
            assert self.snapshot() == before
        self.check_outputs()
        self.check_twin()

    def succeeded(self, f):
        assert kipu.llama_decode(self.twin, make_batch(f)) == 0
        self.logits = kipu.llama_get_logits(self.twin)
        self.logits = None if self.logits is None else self.logits.copy()
        flags = f["logits"] or [0] * (f["n_tokens"] - 1) + [1]
        wanted = [i for i in range(f["n_tokens"]) if flags[i]]
        self.rows = {i: row for row, i in enumerate(wanted)}
        if self.logits is not None and not (f["embd"] is not None and not np.isfinite(f["embd"]).all()):
            now = kipu.llama_get_logits(self.ctx)
            self.kept = self.kept[-3:] + [(now, self.logits)]

    def stopped(self, f, before):
        """Finished ubatches stay: the twin decodes their tokens alone."""
        f = self.explicit(f, before[0])
        n, order = f["n_tokens"], self.order(f)
        memory = positions(self.ctx)
        for done in range(0, n, self.n_ubatch):
            top = list(before[0])
            for i in order[:done]:
                for s in f["seqs"][i]:
                    top[s] = max(top[s], f["pos"][i])
            if top == memory:
                break
        else:
            raise AssertionError("no number of finished ubatches explains what the memory holds")
        if done:
            assert kipu.llama_decode(self.twin, make_batch(part(f, order[:done]))) == 0

    @staticmethod
    def explicit(f, last):
        """What missing fields stand for."""
        f = dict(f)
        f["seqs"] = [ids[: f["n_seq_id"][i]] if f.get("n_seq_id") else ids for i, ids in enumerate(f["seqs"])] if f.get("seqs") \
            else [[0]] * f["n_tokens"]
        if f.get("pos") is None:
            top, f["pos"] = list(last), []
            for ids in f["seqs"]:
                p = top[ids[0]] + 1
                f["pos"].append(p)
                for s in ids:
                    top[s] = p
        return f

    @staticmethod
    def order(f):
        """The order of computation: as given if that ascends in every sequence, else by position."""
        last = {}
        for p, ids in zip(f["pos"], f["seqs"]):
            for s in ids:
                if p < last.get(s, -1):
                    return sorted(range(f["n_tokens"]), key=lambda i: f["pos"][i])
                last[s] = p
        return list(range(f["n_tokens"]))

    def memory(self):
        seq = self.any_of([0, 1, 2, 3, 4, 5, self.wild()])
        p0, p1 = (self.any_of([-1, -1, self.below(40), self.wild()]) for _ in range(2))
        call = self.any_of([
            lambda m: kipu.llama_memory_seq_rm(m, seq, p0, p1),
            lambda m: kipu.llama_memory_seq_cp(m, seq, self_dst, p0, p1),
            lambda m: kipu.llama_memory_seq_keep(m, seq) if seq != 0 else None,
            lambda m: kipu.llama_memory_clear(m, True) if rare else None])
        self_dst, rare = self.any_of([0, 1, 2, 5, 6, 7, self.wild()]), self.chance(0.2)
        before = self.snapshot()
        try:
            call(kipu.llama_get_memory(self.ctx))
        except EXPECTED:
            assert self.snapshot() == before
        else:
            call(kipu.llama_get_memory(self.twin))
        self.check_outputs()
        self.check_twin()

    def settings(self):
        """Getters and setters with any numbers."""
        memory = kipu.llama_get_memory(self.ctx)
        for call in (lambda: kipu.llama_get_logits_ith(self.ctx, self.wild()), lambda: kipu.llama_memory_seq_pos_max(memory, self.wild()),
                     lambda: kipu.llama_memory_seq_pos_min(memory, self.wild()),
                     lambda: kipu.llama_set_n_threads(self.ctx, self.wild(), self.wild()),
                     lambda: kipu.llama_get_embeddings_ith(self.ctx, self.wild()), lambda: kipu.llama_state_get_size(self.ctx),
                     lambda: kipu.llama_encode(self.ctx, make_batch(self.fields()))):
            try:
                call()
            except EXPECTED:
                pass
        self.check_outputs()

    def renew(self):
        """The context is freed; its arrays stay; calls raise."""
        old = self.ctx
        kipu.llama_free(old)
        kipu.llama_free(old)
        for call in (lambda: kipu.llama_decode(old, make_batch(self.fields_of_nothing())), lambda: kipu.llama_get_logits(old),
                     lambda: kipu.llama_n_ctx(old), lambda: kipu.llama_get_memory(old)):
            try:
                call()
                raise AssertionError("a freed context answered")
            except ValueError:
                pass
        self.ctx, self.twin = context(self.model, **self.params), context(self.model, **self.params)
        self.logits, self.rows = None, {}
        self.check_outputs()

    @staticmethod
    def fields_of_nothing():
        return {"n_tokens": 1, "token": [1], "pos": None, "seqs": None, "logits": None}

    def step(self):
        draw = self.rng.random()
        if draw < 0.6: self.decode()
        elif draw < 0.9: self.memory()
        elif draw < 0.98: self.settings()
        else: self.renew()
