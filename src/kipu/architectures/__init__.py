"""One file for each architecture: `build(g, m)` records the forward pass (g: kipu._recorder.Recorder, m: Weights, m.hp: HyperParams).

A file has the name of `general.architecture`; adding one is all it takes.
"""
from importlib import import_module

NAMES = ("gemma", "gemma2", "gemma3", "llama", "qwen2", "qwen3")
LATER = ("bert", "gpt2", "jina-bert-v2", "mamba", "nomic-bert", "olmo2", "phi3", "qwen2moe", "qwen3moe", "stablelm", "t5", "t5encoder")


def find(name):
    """The module of an architecture. ValueError names an unknown one, NotImplementedError one that is not built yet."""
    if name in LATER:
        raise NotImplementedError(f"the model architecture '{name}' is not supported yet")
    if name not in NAMES:
        raise ValueError(f"unknown model architecture: '{name}'")
    return import_module(f"{__name__}.{name}")
