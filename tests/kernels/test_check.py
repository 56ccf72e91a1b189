"""Runs the kernel checker over every tier, and checks that it finds planted faults.

KIPU_BUILD=asan chooses the sanitizer build for it, as for the extension.
"""
import re
import subprocess

import pytest
from build_check import build
from kernel_tools import TIERS

TEXT = dict(capture_output=True, text=True)


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    program = tmp_path_factory.mktemp("check") / "check"
    build(program)
    return program


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    program = tmp_path_factory.mktemp("check") / "faulty"
    build(program, table="tests/kernels/faults.c")
    return program


@pytest.mark.parametrize("tier", TIERS)
def test_tier_equals_ref(check, tier):
    run = subprocess.run([check, tier], **TEXT)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    passed, failed = map(int, re.fullmatch(r"(\d+) passed, (\d+) failed", run.stdout.splitlines()[-1]).groups())
    assert failed == 0 and passed > 10_000
    assert f"{tier}: {passed} cases" in run.stdout, "the tier that was asked for really ran"


def test_filter(check):
    run = subprocess.run([check, "ref", "--filter", "argmax"], **TEXT)
    assert run.returncode == 0
    assert 100 < int(run.stdout.splitlines()[-1].split()[0]) < 2000


def test_wrong_arguments(check):
    assert subprocess.run([check, "avx9"], **TEXT).returncode == 2
    assert subprocess.run([check, "--filter"], **TEXT).returncode == 2


@pytest.mark.parametrize("fault, where, code", [
    ("none", "argmax", 0),
    ("reads_behind_weights", "Q4_0", 3),
    ("reads_behind_activations", "Q4_0", 3),
    ("writes_before_y", "Q4_0", 3),
    ("flips_a_bit", "Q4_0", 1),
    ("pads_with_ones", "Q4_0", 1),
    ("forgets_q4_0", "Q4_0", 1),
    ("touches_blind_rows", "attention", 1),
    ("exp_of_libm", "swiglu", 1),
    ("last_maximum", "argmax", 1),
])
def test_finds_planted_faults(faulty, fault, where, code):
    run = subprocess.run([faulty, "avx2", "--filter", where], env={"KIPU_CHECK_FAULT": fault}, **TEXT)
    assert run.returncode == code, run.stdout[-2000:] + run.stderr[-2000:]
    if code == 3:
        assert "guard page" in run.stdout and where in run.stdout
