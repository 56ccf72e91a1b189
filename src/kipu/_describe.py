"""A model in a few words: architecture, size, format. And metadata values as text."""
from . import _constants

_QUANT_SIZES = {"K_S": "K - Small", "K_M": "K - Medium", "K_L": "K - Large"}
_BITS = {"IQ1_S": "1.5625 bpw", "IQ1_M": "1.75 bpw", "IQ2_XXS": "2.0625 bpw", "IQ2_XS": "2.3125 bpw", "IQ2_S": "2.5 bpw",
         "IQ2_M": "2.7 bpw", "IQ3_XXS": "3.0625 bpw", "IQ3_XS": "3.3 bpw", "IQ3_S": "3.4375 bpw", "IQ3_M": "3.66 bpw", "IQ4_XS": "4.25 bpw",
         "IQ4_NL": "4.5 bpw", "TQ1_0": "1.69 bpw ternary", "TQ2_0": "2.06 bpw ternary"}
# architecture -> number of layers -> size, or pairs (test of hyper-parameters, size)
_SIZES = {
    "llama": {16: "1B", 22: "1B", 26: "3B", 28: "3B", 30: "256M", 32: [(lambda hp: hp.n_vocab < 40000, "7B"), (lambda hp: True, "8B")],
              36: "8B", 40: "13B", 48: "34B", 60: "30B", 80: [(lambda hp: hp.n_head == hp.n_head_kv, "65B"), (lambda hp: True, "70B")]},
    "qwen2": {24: [(lambda hp: hp.n_embd == 1024, "0.5B"), (lambda hp: True, "1B")],
              28: [(lambda hp: hp.n_embd == 1536, "1.5B"), (lambda hp: True, "7B")], 32: "7B", 36: "3B",
              40: [(lambda hp: hp.n_head == 20, "4B"), (lambda hp: True, "13B")], 48: "14B", 64: "32B", 80: "70B"},
    "qwen3": {28: [(lambda hp: hp.n_embd == 1024, "0.6B"), (lambda hp: True, "1.7B")],
              36: [(lambda hp: hp.n_embd == 2560, "4B"), (lambda hp: True, "8B")], 40: "14B", 64: "32B"},
    "gemma": {18: "2B", 28: "7B"},
    "gemma2": {26: "2B", 42: "9B", 46: "27B"},
    "gemma3": {26: "1B", 34: "4B", 48: "12B", 62: "27B"},
}


def _size(hp):
    found = _SIZES.get(hp.arch, {}).get(hp.n_layer, "?B") if hp is not None else "?B"
    return found if isinstance(found, str) else next(size for test, size in found if test(hp))


def format_name(name):
    """The name of a file type as llama.cpp writes it: Q4_K_M -> "Q4_K - Medium", IQ4_XS -> "IQ4_XS - 4.25 bpw"."""
    if name in _BITS:
        return f"IQ3_S mix - {_BITS[name]}" if name == "IQ3_M" else f"{name} - {_BITS[name]}"
    if name == "Q2_K":
        return "Q2_K - Medium"
    for suffix, text in _QUANT_SIZES.items():
        if name.endswith(suffix):
            return name[: -len(suffix)] + text
    return name


def _names(prefix):
    return {getattr(_constants, n): n.removeprefix(prefix) for n in _constants.__all__ if n.startswith(prefix)}


def _format(handle):
    """File type by metadata, else by the most frequent tensor format."""
    number = handle.get("general.file_type")
    if isinstance(number, int):
        name = _names("LLAMA_FTYPE_").get(number, "unknown, may not work").removeprefix("MOSTLY_")
        return "all F32" if name == "ALL_F32" else format_name(name)
    types = handle.tensor_types()
    name = _names("GGML_TYPE_").get(max(types, key=types.get), "unknown") if types else "unknown"
    return ("all F32" if name == "F32" else format_name(name + "_M" if name in ("Q3_K", "Q4_K", "Q5_K") else name)) + " (guessed)"


def describe(handle):
    """For example "llama 7B Q4_K - Medium"."""
    return f"{handle.get('general.architecture', 'unknown')} {_size(handle.hp)} {_format(handle)}"


def metadata_text(value):
    """A scalar metadata value as bytes, numbers as C prints them."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return (b"%d" if isinstance(value, int) else b"%f") % value
