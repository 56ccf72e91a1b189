"""kipu info: what a GGUF file holds, without loading its weights."""
from ._core import GgufFile

_SHOWN = 70


def shown(value):
    """A value on one line."""
    if isinstance(value, str):
        text = " ".join(value.split())
        return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    if hasattr(value, "__len__"):
        return f"[{len(value)} items]"
    return repr(value)


def mib(n):
    return f"{n / 2**20:.1f} MiB"


def cache_bytes(metadata, n_ctx):
    """Bytes of an F16 cache of n_ctx positions in all layers, or None if the metadata does not say."""
    arch = metadata.get("general.architecture")
    get = lambda key, default=None: metadata.get(f"{arch}.{key}", default)
    layers, heads, embd = get("block_count"), get("attention.head_count"), get("embedding_length")
    if not all(isinstance(v, int) and v > 0 for v in (layers, heads, embd)):
        return None
    heads_kv = get("attention.head_count_kv", heads)
    width = get("attention.key_length", embd // heads) + get("attention.value_length", embd // heads)
    return 2 * n_ctx * layers * heads_kv * width if isinstance(heads_kv, int) else None


def show(path, n_ctx):
    """Prints metadata, tensors, sizes and the memory that the weights and a context of n_ctx tokens need."""
    with GgufFile(path) as file:
        metadata, tensors = file.metadata, file.tensors
        print(f"{path}: GGUF version {file.version}, {mib(file.size)}")
    print(f"\nmetadata ({len(metadata)})")
    for key, value in metadata.items():
        print(f"  {key} = {shown(value)}")
    print(f"\ntensors ({len(tensors)})")
    for t in tensors:
        print(f"  {t.name:40} {t.type:8} [{', '.join(map(str, t.shape))}] {mib(t.bytes)}")
    weights, cache = sum(t.bytes for t in tensors), cache_bytes(metadata, n_ctx)
    print(f"\nweights {mib(weights)}, {sum(t.elements for t in tensors):,} parameters")
    if cache is not None:
        print(f"memory needed: {mib(weights)} weights + {mib(cache)} cache (F16, {n_ctx} tokens, filled) + compute buffers")
