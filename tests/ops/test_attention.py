"""Runs attention_check.c (what it proves stands there), and checks that it finds planted faults."""
import subprocess

import pytest
from build_check import ROOMS, build

TEXT = dict(capture_output=True, text=True)


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    program = tmp_path_factory.mktemp("attention") / "check"
    build(program, rooms=(*ROOMS, "csrc/ops/"), tests="tests/ops/attention_check.c")
    return program


def test_random_scenes(check):
    run = subprocess.run([check, "0", "40"], **TEXT)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert run.stdout.startswith("ok: 0 failures, tiers: ref")


@pytest.mark.slow
def test_many_random_scenes(check):
    run = subprocess.run([check, "1000", "100"], **TEXT)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]


@pytest.mark.parametrize("fault", ["sees_everything", "forgets_pieces", "rounds_down"])
def test_finds_planted_faults(check, fault):
    run = subprocess.run([check, "0", "12", fault], **TEXT)
    assert run.returncode == 1, run.stdout[-2000:] + run.stderr[-2000:]
