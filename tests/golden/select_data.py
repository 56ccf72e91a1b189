"""Writes the selection in data/ from the whole reference data: python tests/golden/select_data.py REFERENCE"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
MODELS = ("llama", "llama-yarn", "qwen2", "qwen3", "gemma", "gemma2", "gemma3")
CASES = ("base", "fa", "kvf32", "multiseq", "greedy", "pos50", "swa_min")
FORMATS = ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K_S", "Q6_K")
MEMORY_MODELS = ("llama", "gemma3-full", "gemma3-swa")
SCENARIOS = ("bad_then_good", "clear", "cp", "fill", "fill_seqs", "frag", "frag_thold", "keep", "long", "nopos", "rm", "shared")
# Prompt lengths kept; the rest of the rows proves nothing new.
LENGTHS = ("7", "33", "70")


def keep_case(key):
    """base/33/logits -> base; tokens are always kept."""
    case, *rest = key.split("/")
    return case == "tokens" or (case in CASES and (case == "multiseq" or rest[0] in LENGTHS))


def copy_golden(source, target, name):
    (target / "golden" / name).parent.mkdir(parents=True, exist_ok=True)
    (target / "models" / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "models" / f"{name}.gguf", target / "models" / f"{name}.gguf")
    arrays = np.load(source / "golden" / f"{name}.npz")
    whole = name.startswith("llama-q")
    np.savez_compressed(target / "golden" / f"{name}.npz", **{k: arrays[k] for k in arrays.files if whole or keep_case(k)})
    info = json.loads((source / "golden" / f"{name}.json").read_text())
    cases = {k: {f: v for f, v in case.items() if f != "log"} for k, case in info["cases"].items() if whole or k.split("/")[0] in CASES}
    slim = {"model": info["model"], "opts": info.get("opts", ""), "cases": cases, "noise_floor": info["noise_floor"]}
    (target / "golden" / f"{name}.json").write_text(json.dumps(slim, indent=1) + "\n")


def copy_scenario(source, target, name):
    (target / "memory").mkdir(exist_ok=True)
    record = json.loads((source / "memory" / f"{name}.json").read_text())
    (target / "memory" / f"{name}.json").write_text(json.dumps(record) + "\n")
    if (source / "memory" / f"{name}.npz").exists():
        shutil.copy(source / "memory" / f"{name}.npz", target / "memory")


def copy_json(source, target, name, keep):
    found = json.loads((source / name).read_text())
    found["cases"] = keep(found["cases"])
    (target / name).write_text(json.dumps(found, indent=0) + "\n")


def without_log(case):
    return {k: v for k, v in case.items() if k != "log"}


def main(reference):
    source, target = Path(reference), HERE / "data"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in MODELS + tuple(f"llama-q/{f}" for f in FORMATS):
        copy_golden(source, target, name)
    for model in MEMORY_MODELS:
        for scenario in SCENARIOS:
            copy_scenario(source, target, f"{model}.{scenario}")
    copy_json(source, target, "invalid.json", lambda cases: {k: without_log(v) for k, v in cases.items()})
    copy_json(source, target, "context_params.json",
              lambda cases: [without_log(c) for c in cases] if isinstance(cases, list) else {k: without_log(v) for k, v in cases.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
