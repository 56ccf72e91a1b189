"""Builds kipu._core: one Cython file and all C below csrc/, each kernel tier with flags of its own.

New files need no line here: every .c file of the rooms is found. A file is compiled again when it, a header it includes or its
flags changed. In the environment: KIPU_BUILD=debug|asan|tsan chooses another build (the default is optimised), KIPU_JOBS=n the
number of compilers side by side (default: the CPUs of this process). Tests that build C programs take flags and helpers from here.
"""
import hashlib
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOMS = ("base", "quants", "kernels", "ops", "memory", "text", "sample", "engine")
# No -march=native, no fast-math, no OpenMP: a wheel runs on every machine, and a float operation is the one that was written.
INCLUDES = ["-Icsrc", "-Isrc/kipu/include"]
BASE_FLAGS = ["-std=c11", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra", "-pthread", "-fPIC", *INCLUDES]
CYTHON_FLAGS = ["-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wno-unused-function", "-pthread", "-fPIC", *INCLUDES,
                f"-I{sysconfig.get_path('include')}"]
BUILDS = {
    "": ["-O3"],
    "debug": ["-O1", "-g", "-UNDEBUG"],
    "asan": ["-O1", "-g", "-UNDEBUG", "-fsanitize=address,undefined", "-fno-omit-frame-pointer"],
    "tsan": ["-O1", "-g", "-UNDEBUG", "-fsanitize=thread", "-fno-omit-frame-pointer"],
}
X86, ARM = ("x86_64", "AMD64"), ("aarch64", "arm64")
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
# tier: (machines, flags). Everything else, `ref` included, gets the machine's baseline.
TIERS = {
    "avx2": (X86, AVX2),
    "avx512": (X86, AVX2 + ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vbmi", "-mavx512vnni",
                            "-mprefer-vector-width=512"]),
    "neon": (ARM, ["-march=armv8.2-a+dotprod+fp16"]),
}
DISPATCHER = "csrc/kernels/kernels.c"   # the only file that knows which tiers were built


def build_kind():
    kind = os.environ.get("KIPU_BUILD", "")
    if kind not in BUILDS:
        sys.exit(f"KIPU_BUILD is '{kind}', expected one of: {', '.join(k or '(empty)' for k in BUILDS)}")
    return kind


def linker_flags():
    return ["-pthread"] + [f for f in BUILDS[build_kind()] if f.startswith("-fsanitize")]


def jobs():
    return int(os.environ.get("KIPU_JOBS") or len(os.sched_getaffinity(0)))


def folder_of(path):
    return os.path.basename(os.path.dirname(path))


def c_files(tiers):
    """Everything below csrc/, without the tiers that are left out."""
    left_out = set(TIERS) - set(tiers)
    paths = [p for room in ROOMS for p in sorted(glob(f"csrc/{room}/**/*.c", recursive=True))]
    return [p for p in paths if folder_of(p) not in left_out]


def flags_of(path, tiers):
    flags = BUILDS[build_kind()] + BASE_FLAGS
    if folder_of(path) in tiers:
        return flags + TIERS[folder_of(path)][1]
    return flags + [f"-DKIPU_HAVE_{tier.upper()}" for tier in tiers] if path == DISPATCHER else flags


class BuildExt(build_ext):
    """Compiles the C and the Cython file itself, file by file, and links once."""

    def finalize_options(self):
        super().finalize_options()
        self.build_temp = os.path.join("build", "objects")   # shared by all ways to build, pip's included

    def build_extension(self, ext):
        tiers = self.find_tiers()
        files = [(path, flags_of(path, tiers)) for path in c_files(tiers)]
        files += [(path, BUILDS[build_kind()] + CYTHON_FLAGS) for path in ext.sources]
        with ThreadPoolExecutor(jobs()) as pool:
            objects = list(pool.map(lambda job: self.compile_one(*job), files))
        self.link(ext, objects)

    def find_tiers(self):
        """Tiers that have files and that the compiler can build for this machine."""
        found = []
        for tier, (machines, flags) in TIERS.items():
            if platform.machine() not in machines or not glob(f"csrc/kernels/{tier}/*.c"):
                continue
            if self.compiler_takes(flags):
                found.append(tier)
            else:
                print(f"kipu: the compiler does not take {' '.join(flags)}: built without the {tier} tier", file=sys.stderr)
        return found

    def compiler_takes(self, flags):
        with tempfile.TemporaryDirectory() as tmp:
            source = os.path.join(tmp, "empty.c")
            open(source, "w").close()
            call = [*self.compiler.compiler_so, *flags, "-c", source, "-o", source + ".o"]
            return subprocess.run(call, capture_output=True).returncode == 0

    def compile_one(self, path, flags):
        """Object of one C file. Its path carries a hash of the call, so that other flags never meet an old object."""
        key = hashlib.sha256(repr((self.compiler.compiler_so, flags)).encode()).hexdigest()[:12]
        target = os.path.join(self.build_temp, key, path[:-2] + ".o")
        if self.force or not is_fresh(target, path):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            self.call([*self.compiler.compiler_so, *flags, "-MMD", "-c", path, "-o", target], f"cc {path}")
        return target

    def link(self, ext, objects):
        target = self.get_ext_fullpath(ext.name)
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        # A fresh file each time: writing into a library that a running Python has mapped would crash it.
        self.call([*self.compiler.linker_so, *objects, *linker_flags(), "-lm", "-o", target + ".new"], f"link {target}")
        os.replace(target + ".new", target)

    def call(self, call, short):
        print(" ".join(call) if self.distribution.verbose > 1 else short, flush=True)
        if subprocess.run(call).returncode:
            raise SystemExit(f"kipu: failed: {' '.join(call)}")


def is_fresh(target, source):
    """Is the object younger than its source and everything its dependency file names?"""
    deps = target[:-2] + ".d"
    if not (os.path.exists(target) and os.path.exists(deps)):
        return False
    with open(deps) as file:
        names = file.read().replace("\\\n", " ").split(":", 1)[-1].split()
    built = os.path.getmtime(target)
    return all(os.path.exists(name) and os.path.getmtime(name) <= built for name in [source, *names])


def core_extension():
    """The Cython file, translated into a folder of its build kind: its checks are part of the translation."""
    kind = build_kind()
    checks = kind != ""
    core = Extension("kipu._core", ["src/kipu/_core.pyx"], depends=sorted(glob("src/kipu/core/*.pxi")))
    directives = {"language_level": "3", "embedsignature": True,
                  "boundscheck": checks, "initializedcheck": checks}
    return cythonize([core], compiler_directives=directives, build_dir=f"build/cython{'-' + kind if kind else ''}")


setup(ext_modules=core_extension(), cmdclass={"build_ext": BuildExt})
