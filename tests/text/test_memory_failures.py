"""Failing allocations in the text and sample rooms, by a C program (KIPU_BUILD=asan also finds leaks)."""
import subprocess

from c_programs import ROOT, build_program


def test_every_allocation_may_fail(tmp_path):
    sources = [*sorted((ROOT / "csrc/text").glob("*.c")), *sorted((ROOT / "csrc/sample").glob("*.c")), ROOT / "csrc/base/memory_alloc.c",
               ROOT / "csrc/base/error.c", "tests/text/check_memory.c"]
    program = build_program(tmp_path / "check_memory", sources)
    done = subprocess.run([program], capture_output=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
