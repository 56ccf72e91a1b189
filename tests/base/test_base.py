"""csrc/base through a small C program: errors, memory, threads, half floats."""
import os
import subprocess

import numpy as np
import pytest
from c_programs import ROOT, build_program


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    sources = sorted((ROOT / "csrc/base").glob("*.c")) + ["tests/base/check_base.c"]
    return build_program(tmp_path_factory.mktemp("base") / "check_base", sources, ["-Wl,--wrap=pthread_create"])


def run(program, *arguments, data=None, cpus=4):
    environment = {**os.environ, "KIPU_CPUS": str(cpus), "TSAN_OPTIONS": "die_after_fork=0"}
    environment.pop("LD_PRELOAD", None)
    done = subprocess.run([program, *arguments], input=data, capture_output=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:].decode() + done.stderr[-3000:].decode()
    return done.stdout


@pytest.mark.parametrize("part", ["error", "alloc", "pool"])
def test_part(program, part):
    assert run(program, part) == b""


def test_checker_fails_when_it_should(program):
    with pytest.raises(AssertionError, match="line"):
        run(program, "pool", cpus=2)   # which the checks of four workers must notice
    assert subprocess.run([program, "nonsense"]).returncode == 2


def test_idle_pool_uses_no_cpu(program):
    """Three waiting workers, 100 ms: spinning would be 200 000 to 300 000 microseconds of CPU time."""
    assert int(run(program, "idle")) < 20_000


def test_every_half_to_float(program):
    halves = np.arange(65536, dtype="<u2")
    got = np.frombuffer(run(program, "half_to_float", data=halves.tobytes()), "<u4")
    expected = halves.view("<f2").astype("<f4").view("<u4")
    nan = np.isnan(halves.view("<f2"))
    expected[nan] |= 0x400000   # a NaN becomes quiet, whatever numpy does with it
    assert np.array_equal(got, expected)


def test_every_bf16_to_float(program):
    halves = np.arange(65536, dtype="<u2")
    got = np.frombuffer(run(program, "bf16_to_float", data=halves.tobytes()), "<u4")
    assert np.array_equal(got, halves.astype("<u4") << 16)


def floats_to_convert():
    """Random bits, everything around each half and around the middle to the next one."""
    halves = np.arange(0x7C01, dtype="<u2").view("<f2").astype("<f4")
    middles = ((halves[:-1].astype("f8") + np.where(np.isinf(halves[1:]), 65536, halves[1:])) / 2).astype("<f4")
    edges = np.concatenate([halves, middles]).view("<u4")
    near = np.concatenate([edges.astype("<i8") + d for d in (-2, -1, 0, 1, 2)]).astype("<u4")   # -1 is some NaN
    bits = np.random.default_rng(1).integers(0, 2**32, 2_000_000, dtype="<u4")
    return np.concatenate([bits, near, near | 0x80000000]).astype("<u4").view("<f4")


@pytest.mark.filterwarnings("ignore:overflow")
def test_float_to_half(program):
    floats = floats_to_convert()
    got = np.frombuffer(run(program, "float_to_half", data=floats.tobytes()), "<u2")
    nan = np.isnan(floats)
    assert np.array_equal(got[~nan], floats[~nan].astype("<f2").view("<u2"))
    bits = floats[nan].view("<u4")
    assert np.array_equal(got[nan], bits >> 16 & 0x8000 | 0x7E00 | bits >> 13 & 0x3FF)
