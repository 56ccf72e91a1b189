"""Where the golden data lies: the selection beside this file, and the whole of it where KIPU_REFERENCE names a folder."""
import json
import os
from pathlib import Path

import numpy as np

SELECTION = Path(__file__).parent / "data"
WHOLE = Path(os.environ["KIPU_REFERENCE"]) if os.environ.get("KIPU_REFERENCE") else None
FOLDERS = {"selection": SELECTION} | ({"whole": WHOLE} if WHOLE else {})
WITHOUT_WHOLE = "KIPU_REFERENCE is not set: the whole reference data is not here"

ARCHITECTURES = ("llama", "llama-linear", "llama-yarn", "llama-freqs", "llama-tied-mha", "qwen2", "qwen3", "gemma", "gemma2", "gemma3")
GELU = ("gemma", "gemma2", "gemma3")
F32_CACHE, F32_CACHE_GELU, F16_CACHE = 1e-9, 1e-6, 1e-5


def golden(folder, name):
    """(info, arrays) of a model."""
    arrays = np.load(folder / "golden" / f"{name}.npz")
    return json.loads((folder / "golden" / f"{name}.json").read_text()), {k: arrays[k] for k in arrays.files}


def pairs(names):
    """(folder name, model name) for every model that a folder holds."""
    return [(where, name) for where, folder in FOLDERS.items() for name in names if (folder / "golden" / f"{name}.npz").exists()]
