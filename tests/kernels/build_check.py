"""Builds the kernel checker (check.h) from the C sources, with the flags of setup.py.

    python tests/kernels/build_check.py [--cc COMPILER] [--tiers avx2,avx512] [--main FILE.c] PROGRAM

KIPU_BUILD=debug|asan|tsan chooses the build as in setup.py. A cross compiler needs --tiers (for example neon). --main replaces the kernel
table of csrc/kernels/kernels.c by another one (faults.c). Objects are kept in build/check.
"""
import argparse
import hashlib
import os
import runpy
import shlex
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("csrc/base/", "csrc/quants/", "csrc/kernels/")


def setup_py():
    """The names that setup.py defines, without running it."""
    with mock.patch("setuptools.setup"), mock.patch("Cython.Build.cythonize"):
        return runpy.run_path(str(ROOT / "setup.py"))


def native_tiers(s, compiler):
    """Tiers for this machine's processor family whose flags the compiler takes."""
    takes = lambda flags: not subprocess.run([*compiler, *flags, "-E", "-x", "c", os.devnull], capture_output=True).returncode
    return [t for t, (machines, flags) in s["TIERS"].items()
            if os.uname().machine in machines and list((ROOT / "csrc/kernels" / t).glob("*.c")) and takes(flags)]


def compile_one(s, compiler, flags, path):
    key = hashlib.sha256(repr((compiler, flags)).encode()).hexdigest()[:12]
    target = ROOT / "build/check" / key / (path[:-2] + ".o")
    if not s["is_fresh"](str(target), path):
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*compiler, *flags, "-MMD", "-c", path, "-o", str(target)], check=True)
    return str(target)


def build(program, compiler=None, tiers=None, table=None, rooms=ROOMS, tests="tests/kernels/check*.c"):
    """Writes the program. table: a C file that defines kipu_kernels_of in place of csrc/kernels/kernels.c; then only ref is linked.
    rooms, tests: what of csrc/, and which C files of the checker, go in."""
    os.chdir(ROOT)
    s = setup_py()
    compiler = compiler or shlex.split(sysconfig.get_config_var("CC"))
    tiers = [] if table else native_tiers(s, compiler) if tiers is None else tiers
    sources = [p for p in s["c_files"](tiers) if p.startswith(rooms)] + sorted(str(p) for p in Path().glob(tests))
    if table:
        sources = [p for p in sources if p != "csrc/kernels/kernels.c"] + [table]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda p: compile_one(s, compiler, s["flags_of"](p, tiers), p), sources))
    subprocess.run([*compiler, *objects, *s["linker_flags"](), "-lm", "-o", str(program)], check=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cc", type=shlex.split)
    arguments.add_argument("--tiers", type=lambda text: [t for t in text.split(",") if t])
    arguments.add_argument("--main", dest="table")
    arguments.add_argument("program")
    a = arguments.parse_args()
    build(Path(a.program).resolve(), a.cc, a.tiers, a.table)
