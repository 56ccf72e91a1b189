"""Parameter objects with the field names of llama.h, and their resolution into the values a context really uses.

Fields are checked when they are set (fixed-width integers by range, C floats rounded to single precision); attributes that llama.h does
not have are accepted and ignored. Functions copy what they are given: changing an object later has no effect.
"""
import copy
import math
import operator
import struct
from dataclasses import dataclass

from . import _constants as C
from . import _log


class Field:
    """A checked attribute of a parameter object. Subclasses convert the value that is set."""

    def __init__(self, default):
        self.default = default

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__.get(self.name, self.default)

    def __set__(self, instance, value):
        instance.__dict__[self.name] = self.convert(value)

    def convert(self, value):
        return value


class Integer(Field):
    """An integer of a fixed C type: int32_t or, unsigned, uint32_t."""

    def __init__(self, default, unsigned=False):
        super().__init__(default)
        self.low, self.high = (0, 2**32 - 1) if unsigned else (-(2**31), 2**31 - 1)

    def convert(self, value):
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"{self.name} must be an integer, got {type(value).__name__}") from None
        if not self.low <= number <= self.high:
            raise ValueError(f"{self.name} must be in {self.low}..{self.high}, got {number}")
        return number


class Float(Field):
    """A C float."""

    def convert(self, value):
        try:
            return struct.unpack("<f", struct.pack("<f", value))[0]
        except (struct.error, OverflowError):
            raise ValueError(f"{self.name} must be a number within the range of a float, got {value!r}") from None


class Flag(Field):
    """A C bool."""

    def convert(self, value):
        return bool(value)


class Parameters:
    """Base of the parameter objects. Positional and keyword construction in the order of the C fields."""

    def __init__(self, *args, **kwargs):
        names = self.fields()
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes at most {len(names)} positional arguments, got {len(args)}")
        for name, value in zip(names, args):
            if name in kwargs:
                raise TypeError(f"{type(self).__name__} got two values for {name}")
            setattr(self, name, value)
        for name, value in kwargs.items():
            setattr(self, name, value)

    @classmethod
    def fields(cls):
        """Names of the C fields, in order."""
        return [name for name, value in vars(cls).items() if isinstance(value, Field)]

    def copy(self):
        return copy.copy(self)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.fields())})"


class llama_context_params(Parameters):
    """Parameters of a context. Zero, -1 and None mean what llama.h says: the model's own value."""

    n_ctx = Integer(512, unsigned=True)
    n_batch = Integer(2048, unsigned=True)
    n_ubatch = Integer(512, unsigned=True)
    n_seq_max = Integer(1, unsigned=True)
    n_threads = Integer(C.GGML_DEFAULT_N_THREADS)
    n_threads_batch = Integer(C.GGML_DEFAULT_N_THREADS)
    rope_scaling_type = Integer(C.LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED)
    pooling_type = Integer(C.LLAMA_POOLING_TYPE_UNSPECIFIED)
    attention_type = Integer(C.LLAMA_ATTENTION_TYPE_UNSPECIFIED)
    rope_freq_base = Float(0.0)
    rope_freq_scale = Float(0.0)
    yarn_ext_factor = Float(-1.0)
    yarn_attn_factor = Float(1.0)
    yarn_beta_fast = Float(32.0)
    yarn_beta_slow = Float(1.0)
    yarn_orig_ctx = Integer(0, unsigned=True)
    defrag_thold = Float(-1.0)
    cb_eval = Field(None)
    cb_eval_user_data = Field(None)
    type_k = Integer(C.GGML_TYPE_F16)
    type_v = Integer(C.GGML_TYPE_F16)
    abort_callback = Field(None)
    abort_callback_data = Field(None)
    embeddings = Flag(False)
    offload_kqv = Flag(True)
    flash_attn = Flag(False)
    no_perf = Flag(True)
    op_offload = Flag(True)
    swa_full = Flag(True)
    fused = Flag(True)    # kipu's own: False runs every operation as a step of its own, with the same bits


class llama_model_params(Parameters):
    """Parameters of loading a model. What concerns graphics processors is kept and ignored."""

    devices = Field(None)
    tensor_buft_overrides = Field(None)
    n_gpu_layers = Integer(0)
    split_mode = Integer(C.LLAMA_SPLIT_MODE_LAYER)
    main_gpu = Integer(0)
    tensor_split = Field(None)
    progress_callback = Field(None)
    progress_callback_user_data = Field(None)
    kv_overrides = Field(None)
    vocab_only = Flag(False)
    use_mmap = Flag(True)
    use_mlock = Flag(False)
    check_tensors = Flag(False)


class llama_sampler_chain_params(Parameters):
    """Parameters of a sampler chain."""

    no_perf = Flag(True)


class ggml_threadpool_params(Parameters):
    """Parameters of a thread pool. Only n_threads has an effect."""

    cpumask = Field(None)
    n_threads = Integer(C.GGML_DEFAULT_N_THREADS)
    prio = Integer(0)
    poll = Integer(50, unsigned=True)
    strict_cpu = Flag(False)
    paused = Flag(False)


# ------------------------------------------------------------------------------------------------ resolution

@dataclass(frozen=True)
class ResolvedContext:
    """What a context really uses. Sizes in tokens; rope_freq_base and rope_freq_scale 0: the model's own."""

    n_ctx: int
    n_batch: int
    n_ubatch: int
    n_seq_max: int
    n_threads: int
    n_threads_batch: int
    rope_freq_base: float
    rope_freq_scale: float
    yarn_ext_factor: float
    yarn_attn_factor: float
    yarn_beta_fast: float
    yarn_beta_slow: float
    yarn_orig_ctx: int
    type_k: int
    type_v: int
    causal: bool
    flash_attn: bool
    swa_full: bool
    no_perf: bool
    fused: bool
    n_swa: int
    n_cells_window: int
    pooling_type: int


_FLOAT_TYPES = {C.GGML_TYPE_F32, C.GGML_TYPE_F16, C.GGML_TYPE_BF16}
_QUANTISED = {C.GGML_TYPE_Q4_0, C.GGML_TYPE_Q4_1, C.GGML_TYPE_Q5_0, C.GGML_TYPE_Q5_1, C.GGML_TYPE_Q8_0, C.GGML_TYPE_IQ4_NL}
_CACHE_TYPES = {C.GGML_TYPE_F32, C.GGML_TYPE_F16}


def round_up(n, multiple):
    return (n + multiple - 1) // multiple * multiple


def _check(p):
    """Values that no model could make right: ValueError names the field."""
    if p.n_batch == 0 and p.n_ubatch == 0:
        raise ValueError("n_batch and n_ubatch cannot both be 0")
    if p.n_seq_max > C.LLAMA_MAX_PARALLEL_SEQUENCES:
        raise ValueError(f"n_seq_max must be <= {C.LLAMA_MAX_PARALLEL_SEQUENCES}, got {p.n_seq_max}")
    for name, low, high in (("rope_scaling_type", -1, 3), ("pooling_type", -1, 4), ("attention_type", -1, 1)):
        if not low <= getattr(p, name) <= high:
            raise ValueError(f"{name} must be in {low}..{high}, got {getattr(p, name)}")
    for name in ("n_threads", "n_threads_batch"):
        check_threads(name, getattr(p, name))
    for name in ("rope_freq_base", "rope_freq_scale"):
        if not (math.isfinite(getattr(p, name)) and getattr(p, name) >= 0):
            raise ValueError(f"{name} must be finite and >= 0, got {getattr(p, name)}")
    for name in ("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow"):
        if not math.isfinite(getattr(p, name)):
            raise ValueError(f"{name} must be finite, got {getattr(p, name)}")
    _check_cache_types(p)


def _check_cache_types(p):
    for name in ("type_k", "type_v"):
        if getattr(p, name) not in _FLOAT_TYPES | _QUANTISED:
            raise ValueError(f"{name} must be a float or quantised type that a cache can hold, got {getattr(p, name)}")
    if p.type_v in _QUANTISED and not p.flash_attn:
        raise ValueError("V cache quantization requires flash_attn")


def check_threads(name, n):
    if not 1 <= n <= C.GGML_MAX_N_THREADS:
        raise ValueError(f"{name} must be in 1..{C.GGML_MAX_N_THREADS}, got {n}")


def _check_supported(p):
    """Valid requests of features that are not built yet: NotImplementedError."""
    if p.embeddings:
        raise NotImplementedError("embeddings are not supported yet: use embeddings=False")
    if p.type_k not in _CACHE_TYPES or p.type_v not in _CACHE_TYPES:
        raise NotImplementedError(f"cache types {p.type_k} and {p.type_v} are not supported yet: use F16 (1) or F32 (0)")
    if p.cb_eval is not None:
        raise NotImplementedError("cb_eval is not supported yet")


def _sizes(p, hp, causal, records):
    """(n_ctx before padding, n_batch, n_ubatch) in tokens."""
    n_ctx = p.n_ctx or hp.n_ctx_train
    if n_ctx == 0:
        raise ValueError("n_ctx is 0 and the model does not say how many positions it was trained with")
    n_batch = min(n_ctx, p.n_batch) if causal else p.n_batch
    if n_batch < C.GGML_KQ_MASK_PAD:
        records.append((_log.WARN, f"n_batch is less than GGML_KQ_MASK_PAD - increasing to {C.GGML_KQ_MASK_PAD}"))
        n_batch = C.GGML_KQ_MASK_PAD
    return n_ctx, n_batch, min(n_batch, p.n_ubatch or p.n_batch)


def _rope(p, hp):
    """Rope values of the context: what the caller set wins over the model; YaRN only where the scaling type asks for it."""
    scaling = hp.rope_scaling_type if p.rope_scaling_type == C.LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED else p.rope_scaling_type
    is_yarn = scaling == C.LLAMA_ROPE_SCALING_TYPE_YARN
    return dict(rope_freq_base=p.rope_freq_base,
                rope_freq_scale=1.0 if scaling == C.LLAMA_ROPE_SCALING_TYPE_NONE else p.rope_freq_scale,
                yarn_ext_factor=float(is_yarn) if p.yarn_ext_factor < 0 else p.yarn_ext_factor,
                yarn_attn_factor=p.yarn_attn_factor * hp.rope_attn_factor, yarn_beta_fast=p.yarn_beta_fast,
                yarn_beta_slow=p.yarn_beta_slow, yarn_orig_ctx=p.yarn_orig_ctx or hp.yarn_orig_ctx or hp.n_ctx_train)


def _window_cells(p, hp, n_ctx, n_ubatch, n_seq_max, pad):
    """Cells of the sliding-window cache, 0 if the model has none."""
    if hp.n_swa == 0 or not any(hp.swa_layers):
        return 0
    return n_ctx if p.swa_full else min(n_ctx, round_up(hp.n_swa * n_seq_max + n_ubatch, pad))


def _describe(r, n_ctx, p, hp, records):
    """The lines a context writes when it is made: `name = value`."""
    per_seq = n_ctx // r.n_seq_max
    values = dict(n_seq_max=r.n_seq_max, n_ctx=n_ctx, n_ctx_per_seq=per_seq, n_batch=r.n_batch, n_ubatch=r.n_ubatch,
                  causal_attn=int(r.causal), flash_attn=int(r.flash_attn), freq_base=f"{r.rope_freq_base or hp.rope_freq_base:.1f}",
                  freq_scale=f"{r.rope_freq_scale or hp.rope_freq_scale:g}")
    records += [(_log.INFO, f"{name:13} = {value}") for name, value in values.items()]
    if per_seq < hp.n_ctx_train:
        records.append((_log.WARN, f"n_ctx_per_seq ({per_seq}) < n_ctx_train ({hp.n_ctx_train}): the model could use more"))
    if per_seq > hp.n_ctx_train:
        records.append((_log.WARN, f"n_ctx_per_seq ({per_seq}) > n_ctx_train ({hp.n_ctx_train}): positions beyond the training context"))
    if r.n_cells_window and not r.swa_full and r.n_seq_max > 1:
        records.append((_log.WARN, f"n_seq_max = {r.n_seq_max} and swa_full = 0: sequences cannot always go on from an earlier position"))


def resolve_context(p, hp):
    """The values a context of a model with hyper-parameters `hp` uses for parameters `p`.

    Returns
    -------
    (ResolvedContext, list of (level, text) log records)

    Raises
    ------
    ValueError
        A value that llama_init_from_model refuses; the message names the field.
    NotImplementedError
        A valid request for something that is not built yet.
    """
    _check(p)
    _check_supported(p)
    records = []
    causal = hp.causal if p.attention_type == C.LLAMA_ATTENTION_TYPE_UNSPECIFIED else p.attention_type == C.LLAMA_ATTENTION_TYPE_CAUSAL
    n_seq_max, pad = max(1, p.n_seq_max), 256 if p.flash_attn else 32
    n_ctx, n_batch, n_ubatch = _sizes(p, hp, causal, records)
    padded = round_up(n_ctx, pad)
    if max(padded, n_batch) >= 2**31:
        raise ValueError(f"n_ctx and n_batch must be below 2^31, got {n_ctx} and {n_batch}")
    pooling = hp.pooling_type if p.pooling_type == C.LLAMA_POOLING_TYPE_UNSPECIFIED else p.pooling_type
    r = ResolvedContext(n_ctx=padded, n_batch=n_batch, n_ubatch=n_ubatch, n_seq_max=n_seq_max, n_threads=p.n_threads,
                        n_threads_batch=p.n_threads_batch, type_k=p.type_k, type_v=p.type_v, causal=causal, flash_attn=p.flash_attn,
                        swa_full=p.swa_full, no_perf=p.no_perf, fused=p.fused, n_swa=hp.n_swa,
                        n_cells_window=_window_cells(p, hp, padded, n_ubatch, n_seq_max, pad), pooling_type=max(0, pooling), **_rope(p, hp))
    _describe(r, n_ctx, p, hp, records)
    return r, records
