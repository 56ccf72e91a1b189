"""One file for each architecture: `build(g, m)` records the forward pass (g: kipu._recorder.Recorder, m: Weights, m.hp: HyperParams).

A file has the name of `general.architecture`; adding one is all it takes.
"""
from importlib import import_module

NAMES = ("gemma", "gemma2", "gemma3", "llama", "qwen2", "qwen3")


def find(name):
    """The module of an architecture; ValueError names an unknown one."""
    if name not in NAMES:
        raise ValueError(f"unknown model architecture: '{name}'")
    return import_module(f"{__name__}.{name}")
