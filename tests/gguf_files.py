"""GGUF files made with struct, byte by byte, so that each byte can be wrong; tiny models made with the gguf package."""
import struct

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = dict(zip((U8, I8, U16, I16, U32, I32, F32, BOOL, U64, I64, F64), "BbHhIif?Qqd"))
TYPE_F32, TYPE_F16, TYPE_Q4_0, TYPE_Q8_0 = 0, 1, 2, 8


def text(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack("<Q", len(data)) + data


def item(kind, value):
    return text(value) if kind == STRING else struct.pack("<" + CODES[kind], value)


def scalar(key, kind, value):
    return text(key) + struct.pack("<I", kind) + item(kind, value)


def array(key, kind, values, count=None):
    """`count` is what the file says, if not the truth."""
    n = len(values) if count is None else count
    return text(key) + struct.pack("<IIQ", ARRAY, kind, n) + b"".join(item(kind, v) for v in values)


def tensor(name, ne=(4,), kind=TYPE_F32, offset=0, n_dims=None):
    n = len(ne) if n_dims is None else n_dims
    return text(name) + struct.pack(f"<I{len(ne)}QIQ", n, *ne, kind, offset)


def whole(values=(), tensors=(), data=b"", version=3, n_values=None, n_tensors=None, magic=b"GGUF", alignment=32):
    """| magic | version | counts | values | directory | padding | data |; counts as given, if not the truth."""
    counts = (len(tensors) if n_tensors is None else n_tensors, len(values) if n_values is None else n_values)
    head = magic + struct.pack("<IQQ", version, *counts) + b"".join(values) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


def every_kind(version=3):
    """A small file with a value of each type, arrays of each type, and three tensors."""
    values = [scalar("general.architecture", STRING, "none")]
    for kind in (*CODES, STRING):
        one = {BOOL: True, STRING: "zwölf"}.get(kind, 12)
        values += [scalar(f"one.{kind}", kind, one), array(f"some.{kind}", kind, [one] * 3), array(f"empty.{kind}", kind, [])]
    tensors = [tensor("a", (4, 2)), tensor("b", (32, 1, 2), TYPE_Q4_0, 32), tensor("c", (1, 1, 1, 3), TYPE_F16, 96)]
    return whole(values, tensors, bytes(range(102)), version)


def small():
    """The smallest file with something of everything that has a count or a length: for tests that try each byte."""
    values = [scalar("n", U32, 7), scalar("s", STRING, "xy"), array("a", STRING, ["p", ""]), array("b", BOOL, [True, False])]
    return whole(values, [tensor("t", (4,)), tensor("u", (2, 2), TYPE_F16, 32)], bytes(range(40)))


def encoded(x, kind):
    """Rows of x in a format; random bytes for formats that the package cannot write."""
    import gguf
    try:
        return gguf.quantize(x, kind)
    except NotImplementedError:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        return np.random.default_rng(1).integers(0, 256, (*x.shape[:-1], x.shape[-1] // block * size), dtype=np.uint8)


def tiny_llama(path, n_embd=64, n_ff=96, n_vocab=40, kinds=None, damage=None, more=None):
    """A random llama of one layer without tokens (vocabulary "none").

    kinds : dict of tensor name -> gguf.GGMLQuantizationType, F32 without.
    damage : function of (name, array) -> array, on what is written.
    more : dict of name without ".weight" -> shape, slowest first: other tensors, or other shapes.
    """
    import gguf
    rng, kinds, damage = np.random.default_rng(0), kinds or {}, damage or (lambda name, x: x)
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(64), w.add_embedding_length(n_embd), w.add_block_count(1), w.add_feed_forward_length(n_ff)
    w.add_head_count(2), w.add_layer_norm_rms_eps(1e-5), w.add_tokenizer_model("none"), w.add_vocab_size(n_vocab)
    shapes = {"token_embd": (n_vocab, n_embd), "output_norm": (n_embd,), "blk.0.attn_norm": (n_embd,), "blk.0.ffn_norm": (n_embd,)}
    shapes |= {f"blk.0.attn_{part}": (n_embd, n_embd) for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (n_ff, n_embd), "blk.0.ffn_up": (n_ff, n_embd), "blk.0.ffn_down": (n_embd, n_ff)}
    shapes |= more or {}
    for name, shape in shapes.items():
        name += ".weight"
        kind = kinds.get(name, gguf.GGMLQuantizationType.F32)
        w.add_tensor(name, damage(name, encoded(rng.standard_normal(shape).astype(np.float32), kind)), raw_dtype=kind)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    return path
