"""What the golden tests need of kipu, through the functional API alone."""
import kipu as K
import numpy as np

TYPES = {"F32": 0, "F16": 1}
POOLING = {"NONE": 0, "MEAN": 1, "CLS": 2, "LAST": 3, "RANK": 4}


class Refused(Exception):
    """The API returned None; the text is what it logged."""


class Log:
    """Warnings and errors since the last `take`."""

    def __init__(self):
        self.lines = []
        K.llama_log_set(self, None)

    def __call__(self, level, text, user_data):
        if level >= 3:
            self.lines.append(text.decode("utf-8", "replace").strip())

    def take(self):
        K.llama_log_set(self, None)   # another test may have put its own
        lines, self.lines = self.lines, []
        return lines


log = Log()


def load(path, **params):
    p = K.llama_model_default_params()
    for name, value in params.items():
        setattr(p, name, value)
    log.take()
    model = K.llama_model_load_from_file(str(path), p)
    if model is None:
        raise Refused("; ".join(log.take()))
    return model


def plain(name, value):
    """Types and poolings by number, as the API takes them."""
    if name in ("type_k", "type_v") and isinstance(value, str):
        return TYPES[value]
    return POOLING[value] if name == "pooling_type" and isinstance(value, str) else value


def n_vocab(model):
    return K.llama_vocab_n_tokens(K.llama_model_get_vocab(model))


def batch(tokens=None, pos=None, seqs=None, flags=None, embd=None, n_tokens=None):
    """A batch with exactly these arrays; the others are None. seqs: list of id lists."""
    n = len(tokens if tokens is not None else embd) if tokens is not None or embd is not None else 1
    b = K.llama_batch_init(max(n, 1), 0 if embd is None else embd.shape[1], max([len(s) for s in seqs or []] + [1]))
    b.n_tokens = n if n_tokens is None else n_tokens
    if embd is not None:
        b.embd = np.ascontiguousarray(embd, np.float32)
    b.token = None if tokens is None else np.array(tokens, np.int32)
    b.pos = None if pos is None else np.array(pos, np.int32)
    b.logits = None if flags is None else np.array(flags, np.int8)
    if seqs is None:
        b.n_seq_id = b.seq_id = None
    for i, ids in enumerate(seqs or []):
        b.n_seq_id[i] = len(ids)
        b.seq_id[i][: len(ids)] = ids
    return b


class Context:
    """A context and the calls that the scenarios name."""

    def __init__(self, model, **params):
        p = K.llama_context_default_params()
        for name, value in params.items():
            setattr(p, name, plain(name, value))
        log.take()
        self.h = K.llama_init_from_model(model, p)
        if self.h is None:
            raise Refused("; ".join(log.take()))
        self.model, self.memory = model, K.llama_get_memory(self.h)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        K.llama_free(self.h)

    def decode(self, *args, **kw):
        return K.llama_decode(self.h, batch(*args, **kw))

    def rows(self, indices):
        return np.stack([np.array(K.llama_get_logits_ith(self.h, i)) for i in indices])

    def run(self, tokens, pos0=0, seq=0, flags=None, pos=None, seqs=None):
        """Decodes and returns (code, logits of the flagged tokens); all are flagged unless told."""
        n = len(tokens)
        flags = [1] * n if flags is None else flags
        code = self.decode(tokens, list(range(pos0, pos0 + n)) if pos is None else pos, [[seq]] * n if seqs is None else seqs, flags)
        return code, self.rows([i for i in range(n) if flags[i]]) if code == 0 and any(flags) else None

    def greedy(self, tokens, n):
        ids, pos = [], len(tokens)
        code, rows = self.run(tokens, flags=[0] * (pos - 1) + [1])
        while len(ids) < n and code == 0:
            ids.append(int(rows[-1].argmax()))
            code, rows = self.run(ids[-1:], pos)
            pos += 1
        return ids

    def seq_rm(self, *a):
        return K.llama_memory_seq_rm(self.memory, *a)

    def seq_cp(self, *a):
        K.llama_memory_seq_cp(self.memory, *a)

    def seq_keep(self, *a):
        K.llama_memory_seq_keep(self.memory, *a)

    def clear(self, data=True):
        K.llama_memory_clear(self.memory, data)

    def pos_min(self, s):
        return K.llama_memory_seq_pos_min(self.memory, s)

    def pos_max(self, s):
        return K.llama_memory_seq_pos_max(self.memory, s)

    def n_tokens(self):
        return K.llama_kv_self_n_tokens(self.h)

    def used_cells(self):
        return K.llama_kv_self_used_cells(self.h)


def nmse(want, got):
    """sum((want - got)^2) / sum(want^2); infinite where got is not finite."""
    want, got = np.asarray(want, np.float64), np.asarray(got, np.float64)
    assert want.shape == got.shape
    return float(((want - got) ** 2).sum() / (want**2).sum()) if np.isfinite(got).all() else float("inf")
