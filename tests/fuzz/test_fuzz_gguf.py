"""Some thousand rounds of fuzz_gguf.c, with and without sanitizers."""
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

import gguf
import pytest
from c_programs import ROOT, build_program
from gguf_files import U32, every_kind, scalar, small, tensor, tiny_llama, whole

ROOMS = ("base", "quants", "text", "kernels", "kernels/ref")
ENGINE = ("gguf*", "weights", "model", "program")
ROUNDS = 10_000


def sources():
    files = [p for room in ROOMS for p in sorted((ROOT / "csrc" / room).glob("*.c"))]
    return [*files, *(p for name in ENGINE for p in sorted((ROOT / "csrc/engine").glob(name + ".c"))), "tests/fuzz/fuzz_gguf.c"]


def has_asan():
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    found = subprocess.run([*compiler, "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    return os.path.isabs(found)


def vocabulary(path, model, **more):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model), w.add_token_list([f"t{i}" for i in range(12)] + ["\u2581a", "<0x0A>"])
    w.add_token_types([1] * 13 + [6]), w.add_bos_token_id(1), w.add_eos_token_id(2)
    if model == "gpt2":
        w.add_tokenizer_pre("gpt-2"), w.add_token_merges(["t 1", "t 2"])
    else:
        w.add_token_scores([float(i) for i in range(14)])
    w.write_header_to_file(), w.write_kv_data_to_file(), w.close()
    return path


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    q8 = {f"blk.0.{name}.weight": gguf.GGMLQuantizationType.Q8_0 for name in ("attn_q", "ffn_down", "ffn_up")}
    made = {"small": small(), "every_kind": every_kind(), "old": every_kind(2), "nothing": whole(),
            "part": whole([scalar("split.count", U32, 2), scalar("split.no", U32, 0)], [tensor("t")], bytes(16)),
            "aligned": whole([scalar("general.alignment", U32, 64)], [tensor("t")], bytes(16), alignment=64)}
    for name, data in made.items():
        (folder / name).write_bytes(data)
    more = [tiny_llama(folder / "llama", 32, 32, 5), tiny_llama(folder / "q8", 32, 64, 20, kinds=q8)]
    more += [vocabulary(folder / "spm", "llama"), vocabulary(folder / "bpe", "gpt2")]
    return [*(folder / name for name in sorted(made)), *more]


@pytest.fixture(scope="module", params=["plain", "asan"])
def fuzzer(request, tmp_path_factory):
    if request.param == "asan" and not has_asan():
        pytest.skip("the compiler has no libasan")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KIPU_BUILD", request.param.replace("plain", ""))
        return build_program(tmp_path_factory.mktemp("fuzz") / "fuzz_gguf", sources(), ["-O1"])


def run(fuzzer, folder, examples, rounds=ROUNDS, seed=1):
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "ASAN_OPTIONS")}
    environment |= {"ASAN_OPTIONS": "allocator_may_return_null=1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "KIPU_CPU": "ref"}
    call = [fuzzer, folder / "file.gguf", str(rounds), str(seed), *examples]
    return subprocess.run(call, capture_output=True, text=True, env=environment, timeout=600)


def test_damaged_files(fuzzer, examples, tmp_path):
    done = run(fuzzer, tmp_path, examples)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    opened, models, loaded = (int(word) for word in done.stdout.split() if word.isdigit())
    # Deep enough, and not everything passes.
    assert ROUNDS / 5 < opened < ROUNDS and ROUNDS / 20 < models < opened and ROUNDS / 50 < loaded < models


def test_same_rounds_again(fuzzer, examples, tmp_path):
    assert run(fuzzer, tmp_path, examples, 200, 5).stdout == run(fuzzer, tmp_path, examples, 200, 5).stdout


def test_wrong_call(fuzzer):
    assert subprocess.run([fuzzer, Path("x")], env={}).returncode == 2
