"""The two things an architecture file talks to: `Recorder` (g) writes the forward pass, `Weights` (m) names weights and hyper-parameters.

Nothing here runs per token: a file in kipu.architectures calls these once, while the model loads, and the result is a plain C array.
"""
from dataclasses import dataclass


# Values of kipu_op in csrc/engine/program.h.
EMBED, RMS_NORM, LINEAR, ROPE, ATTENTION, ADD, GLU, ROWS, SOFTCAP, LOGITS = range(10)
SILU, GELU = 0, 1
NORM, NEOX = 0, 2


@dataclass(frozen=True)
class Value:
    """A result of the forward pass: (n_tokens, width) floats."""
    g: "Recorder"
    index: int
    width: int

    def __add__(self, other):
        return self.g.op(ADD, self.width, (self, other))


@dataclass(frozen=True)
class Weight:
    """A matrix [k, rows] (fastest dimension first) or a vector of k floats."""
    index: int
    k: int
    rows: int = 1


class Recorder:
    """Records nodes. Every method returns the new Value."""

    def __init__(self, program):
        self._program = program
        self._ropes = {}

    def op(self, op, width, sources, **fields):
        index = self._program.node(op, width, tuple(v.index for v in sources), **fields)
        return Value(self, index, width)

    def name(self, value, name, il=-1):
        """Gives a value the name that callbacks and kipu.explain show."""
        self._program.name(value.index, name, il)
        return value

    def embed(self, table, scale=1.0, scale_vectors=True):
        """Rows of the embedding table, or the vectors of a batch that has these instead, times `scale`."""
        return self.op(EMBED, table.k, (), weight=table.index, ints=(int(scale_vectors),), floats=(scale,), name="inp_embd")

    def rms_norm(self, x, weight, eps):
        """Root mean square norm over weight.k values: the whole row, or each head of it."""
        return self.op(RMS_NORM, x.width, (x,), weight=weight.index, ints=(weight.k,), floats=(eps,), name="norm")

    def linear(self, x, weight, bias=None):
        return self.op(LINEAR, weight.rows, (x,), weight=weight.index, bias=bias.index if bias else -1, name="linear")

    def rope(self, x, head_dim, n_rot, kind, base, scale, factors=None, fixed=False):
        """Rotates the heads of x by their positions. fixed: context parameters do not change these frequencies."""
        key = (n_rot, base, scale, factors.index if factors else -1, fixed)
        if key not in self._ropes:
            self._ropes[key] = self._program.rope_set(*key)
        return self.op(ROPE, x.width, (x,), ints=(head_dim, n_rot, kind, self._ropes[key]), name="rope")

    def attention(self, q, k, v, il, n_head, n_head_kv, scale, softcap=0.0, window=False):
        """Causal attention of q over the cache, to which k and v of this batch are added."""
        width = v.width // n_head_kv * n_head
        return self.op(ATTENTION, width, (q, k, v), il=il, ints=(n_head, n_head_kv, int(window)), floats=(scale, softcap), name="kqv_out")

    def glu(self, gate, up, act=SILU):
        """act(gate) * up."""
        return self.op(GLU, gate.width, (gate, up), ints=(act,), name="ffn_gate_par")

    def softcap(self, x, cap):
        """cap * tanh(x / cap), or x itself for cap 0."""
        return self.op(SOFTCAP, x.width, (x,), floats=(cap,), name="softcap") if cap else x

    def logits(self, x):
        """Marks the result."""
        return self.op(LOGITS, x.width, (self.name(x, "result_output"),), name="logits")


class Weights:
    """Weights by name, with the shape each must have; hyper-parameters as attributes of `hp`."""

    def __init__(self, program, hp):
        self._program, self.hp = program, hp

    def matrix(self, name, k, rows, optional=False):
        index = self._program.weight(name + ".weight", (k, rows), optional)
        return Weight(index, k, rows) if index >= 0 else None

    def vector(self, name, k, optional=False, suffix=".weight"):
        index = self._program.weight(name + suffix, (k,), optional)
        return Weight(index, k) if index >= 0 else None

    def bias(self, name, k, optional=False):
        return self.vector(name, k, optional, ".bias")

    def block(self, il):
        """The weights of one layer: names get the prefix blk.N."""
        return Block(self, il)


class Block:
    def __init__(self, weights, il):
        self._w, self._prefix = weights, f"blk.{il}."

    def matrix(self, name, k, rows, optional=False):
        return self._w.matrix(self._prefix + name, k, rows, optional)

    def vector(self, name, k, optional=False):
        return self._w.vector(self._prefix + name, k, optional)

    def bias(self, name, k, optional=False):
        return self._w.bias(self._prefix + name, k, optional)
