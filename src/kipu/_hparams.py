"""Hyper-parameters of a model: metadata keys of its architecture, with GGUF's defaults and checks."""
import math

SCALING = {"none": 0, "linear": 1, "yarn": 2, "longrope": 3}
MAX_LAYERS = 512


class HyperParams:
    """Reads `{arch}.*` keys from a mapping of metadata. Missing or absurd values raise ValueError with the key's name.

    Attributes
    ----------
    arch, n_ctx_train, n_embd, n_layer, n_vocab, n_ff, n_head, n_head_kv, head_dim_k, head_dim_v, n_rot, norm_eps, n_expert
    n_swa : int, window in positions, 0 for none.  swa_layers : list of bool.
    rope_type : 0 adjacent pairs, 2 halves (set by the architecture).
    rope_freq_base, rope_freq_scale, rope_scaling_type, rope_attn_factor, yarn_orig_ctx : RoPE as trained.
    """

    causal, pooling_type, rope_type, n_swa = True, -1, 0, 0

    def __init__(self, metadata, n_vocab):
        self._meta = metadata
        self.arch = self._meta.get("general.architecture")
        self.n_vocab = n_vocab
        self.n_ctx_train = self.integer("context_length", lowest=1)
        self.n_embd = self.integer("embedding_length", lowest=1)
        self.n_layer = self.integer("block_count", lowest=1, highest=MAX_LAYERS)
        self.swa_layers = [False] * self.n_layer
        self.n_expert = self.integer("expert_count", 0)
        self.read_heads()
        self.norm_eps = self.number("attention.layer_norm_rms_epsilon")
        self.read_rope()

    def release_metadata(self):
        """To be called when all is read. The metadata belong to the model that will hold this object: in a circle of the two the weights
        would live until the next garbage collection."""
        self._meta = None

    def value(self, key, default=None):
        key = f"{self.arch}.{key}"
        found = self._meta.get(key, default)
        if found is None:
            raise ValueError(f"metadata key '{key}' is missing")
        return found

    def integer(self, key, default=None, lowest=0, highest=2**31 - 1):
        found = self.value(key, default)
        if isinstance(found, bool) or not isinstance(found, int) or not lowest <= found <= highest:
            raise ValueError(f"metadata key '{self.arch}.{key}' is {found!r}, expected an integer in {lowest}..{highest}")
        return found

    def number(self, key, default=None):
        found = self.value(key, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
            raise ValueError(f"metadata key '{self.arch}.{key}' is {found!r}, expected a finite number")
        return float(found)

    def text(self, key, default=None):
        found = self.value(key, default)
        if not isinstance(found, str):
            raise ValueError(f"metadata key '{self.arch}.{key}' is {found!r}, expected a string")
        return found

    def same_in_all_layers(self, key, default=None):
        """An integer, or an array with one equal integer for each layer."""
        found = self.value(key, default)
        if isinstance(found, int) and not isinstance(found, bool):
            return self.integer(key, default)
        values = list(found) if not isinstance(found, (str, float, bool)) else []
        if len(values) < self.n_layer or any(not isinstance(int(v), int) for v in values):
            raise ValueError(f"metadata key '{self.arch}.{key}' is {found!r}, expected an integer or one for each of {self.n_layer} layers")
        if len(set(map(int, values[: self.n_layer]))) != 1:
            raise NotImplementedError(f"metadata key '{self.arch}.{key}' differs from layer to layer, which is not supported yet")
        return int(values[0])

    def read_heads(self):
        self.n_ff = self.same_in_all_layers("feed_forward_length")
        self.n_head = self.same_in_all_layers("attention.head_count")
        self.n_head_kv = self.same_in_all_layers("attention.head_count_kv", self.n_head)
        if not 1 <= self.n_head_kv <= self.n_head or self.n_head % self.n_head_kv:
            raise ValueError(f"{self.arch}: {self.n_head} heads cannot share {self.n_head_kv} key-value heads")
        if self.n_ff < 1:
            raise ValueError(f"metadata key '{self.arch}.feed_forward_length' is {self.n_ff}, expected at least 1")
        per_head = self.n_embd // self.n_head
        self.head_dim_k = self.integer("attention.key_length", per_head, lowest=1, highest=65536)
        self.head_dim_v = self.integer("attention.value_length", per_head, lowest=1, highest=65536)

    def read_rope(self):
        self.n_rot = self.integer("rope.dimension_count", self.head_dim_k, lowest=2)
        if self.n_rot > self.head_dim_k or self.n_rot % 2:
            raise ValueError(f"metadata key '{self.arch}.rope.dimension_count' is {self.n_rot}, "
                             f"expected an even number up to {self.head_dim_k}")
        self.rope_freq_base = self.number("rope.freq_base", 10000.0)
        kind = self.text("rope.scaling.type", "linear")
        if kind not in SCALING:
            raise ValueError(f"metadata key '{self.arch}.rope.scaling.type' is '{kind}', expected one of {', '.join(SCALING)}")
        self.rope_scaling_type = SCALING[kind]
        factor = self.number("rope.scaling.factor", self.number("rope.scale_linear", 0.0))
        self.rope_freq_scale = 1.0 / factor if factor else 1.0
        self.rope_attn_factor = self.number("rope.scaling.attn_factor", 1.0)
        self.yarn_orig_ctx = self.integer("rope.scaling.original_context_length", self.n_ctx_train)

    def window(self, pattern, n_swa):
        """Layers whose number modulo `pattern` is below pattern - 1 see only the last n_swa positions (pattern 1: none, 0: all)."""
        self.n_swa = n_swa
        if n_swa:
            self.swa_layers = [pattern == 0 or il % pattern < pattern - 1 for il in range(self.n_layer)]
