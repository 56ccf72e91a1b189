"""Builds C check programs with the compiler and the flags of setup.py; KIPU_BUILD=asan|tsan gives the sanitizer build."""
import os
import runpy
import shlex
import subprocess
import sysconfig
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]


def setup_py():
    """The names that setup.py defines, without running it."""
    with mock.patch("setuptools.setup"), mock.patch("Cython.Build.cythonize"):
        return runpy.run_path(str(ROOT / "setup.py"))


def build_program(program, sources, more_flags=()):
    """Compiles and links `sources` (paths from the root of the repository) into `program`."""
    s = setup_py()
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    flags = [*s["BUILDS"][s["build_kind"]()], *s["BASE_FLAGS"], *s["linker_flags"](), *more_flags]
    subprocess.run([*compiler, *flags, *map(str, sources), "-lm", "-o", str(program)], check=True, cwd=ROOT)
    return program
