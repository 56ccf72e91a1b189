"""Vocabularies that the tests make themselves: written as GGUF files with the gguf package, read back by kipu."""
import gguf
from gguf import GGUFValueType as T

from kipu._core import Vocab

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def alphabet():
    """The 256 letters of the GPT-2 byte alphabet, in order of the bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    extra = iter(range(0x100, 0x200))
    return [chr(b if b in plain else next(extra)) for b in range(256)]


LETTERS = alphabet()


def spell(data):
    """Bytes in the byte alphabet."""
    return "".join(LETTERS[b] for b in data)


def write(path, arch="llama", **fields):
    """A GGUF file whose metadata are `fields`, without tensors. Keys begin with tokenizer.ggml. unless they hold a dot (written __).

    A value is an int, bool, str or list, or a pair (gguf type, value) where the type matters.
    """
    writer = gguf.GGUFWriter(path, arch)
    for name, value in fields.items():
        key = name.replace("__", ".") if "__" in name else "tokenizer.ggml." + name
        if isinstance(value, tuple):
            writer.add_key_value(key, value[1], value[0])
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def load(folder, warnings=None, **fields):
    return Vocab.from_file(write(folder / "vocab.gguf", **fields), warnings)


def bpe_fields(extra=(), merges=(), **fields):
    """A byte-level vocabulary: the 256 letters, what the merges make, then `extra` (text, type) tokens."""
    tokens = LETTERS + [m.replace(" ", "", 1) for m in merges] + [t for t, _ in extra]
    types = [NORMAL] * (len(tokens) - len(extra)) + [kind for _, kind in extra]
    return dict(model="gpt2", tokens=tokens, token_type=types, merges=list(merges) or (T.ARRAY, ["\u0121 \u0121"]), pre="gpt-2", **fields)


def spm_fields(pieces, extra=(), **fields):
    """<unk>, <s>, </s>, 256 byte tokens, `pieces` (text, score), then `extra` (text, type)."""
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *(p for p, _ in pieces), *(t for t, _ in extra)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces) + [kind for _, kind in extra]
    scores = [0.0] * 259 + [float(s) for _, s in pieces] + [0.0] * len(extra)
    return dict(model="llama", tokens=tokens, token_type=types, scores=scores, **fields)
