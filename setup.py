"""Builds kipu._core: one Cython file and all C below csrc/, each kernel tier with flags of its own.

KIPU_BUILD=debug|asan|tsan in the environment chooses another build; the default is optimised.
"""
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOMS = ("base", "quants", "kernels", "ops", "memory", "text", "sample", "engine")
BASE_FLAGS = ["-std=c11", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra", "-pthread", "-Icsrc"]
BUILDS = {
    "": ["-O3"],
    "debug": ["-O1", "-g"],
    "asan": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer"],
    "tsan": ["-O1", "-g", "-fsanitize=thread", "-fno-omit-frame-pointer"],
}
X86, ARM = ("x86_64", "AMD64"), ("aarch64", "arm64")
# tier: (machines, flags). `ref` is built with the base flags like everything else.
TIERS = {
    "avx2": (X86, ["-mavx2", "-mfma", "-mf16c"]),
    "avx512": (X86, ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vbmi", "-mavx512vnni",
                     "-mprefer-vector-width=512"]),
    "neon": (ARM, ["-march=armv8.2-a+dotprod+fp16"]),
}


def build_kind():
    kind = os.environ.get("KIPU_BUILD", "")
    if kind not in BUILDS:
        sys.exit(f"KIPU_BUILD is '{kind}', expected one of: {', '.join(k or '(empty)' for k in BUILDS)}")
    return kind


def linker_flags():
    return ["-pthread"] + [f for f in BUILDS[build_kind()] if f.startswith("-fsanitize")]


class BuildExt(build_ext):
    """Compiles csrc/ itself, file by file, and hands the objects to the extension."""

    def build_extension(self, ext):
        tiers = self.find_tiers()
        defines = [f"-DKIPU_HAVE_{tier.upper()}" for tier in tiers]
        jobs = [(path, BUILDS[build_kind()] + BASE_FLAGS + defines + self.tier_flags(path, tiers)) for path in c_files(tiers)]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            ext.extra_objects = list(pool.map(lambda job: self.compile_one(*job), jobs))
        super().build_extension(ext)

    def tier_flags(self, path, tiers):
        folder = os.path.basename(os.path.dirname(path))
        return TIERS[folder][1] if folder in tiers else []

    def find_tiers(self):
        """Tiers with files that this machine's compiler can build."""
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
        """Object of one C file; compiled again only if it, a header or the flags changed."""
        key = hashlib.sha256(repr((self.compiler.compiler_so, flags)).encode()).hexdigest()[:12]
        target = os.path.join(self.build_temp, key, path[:-2] + ".o")
        if not self.force and is_fresh(target, path):
            return target
        os.makedirs(os.path.dirname(target), exist_ok=True)
        call = [*self.compiler.compiler_so, *flags, "-fPIC", "-MMD", "-c", path, "-o", target]
        if self.verbose:
            print(" ".join(call))
        done = subprocess.run(call)
        if done.returncode:
            raise SystemExit(f"kipu: cannot compile {path}")
        return target


def c_files(tiers):
    """Everything below csrc/, without the tiers that are left out."""
    left_out = set(TIERS) - set(tiers)
    paths = [p for room in ROOMS for p in sorted(glob(f"csrc/{room}/**/*.c", recursive=True))]
    return [p for p in paths if os.path.basename(os.path.dirname(p)) not in left_out]


def is_fresh(target, source):
    """Is the object younger than everything its dependency file names?"""
    deps = target[:-2] + ".d"
    if not (os.path.exists(target) and os.path.exists(deps)):
        return False
    names = open(deps).read().replace("\\\n", " ").split(":", 1)[-1].split()
    built = os.path.getmtime(target)
    return all(os.path.exists(n) and os.path.getmtime(n) <= built for n in [source, *names])


def directives():
    checks = build_kind() != ""
    return {"language_level": "3", "embedsignature": True, "boundscheck": checks, "initializedcheck": checks, "freethreading_compatible": True}


core = Extension(
    "kipu._core",
    ["src/kipu/_core.pyx"],
    depends=sorted(glob("src/kipu/core/*.pxi")) + sorted(glob("csrc/**/*.h", recursive=True)) + sorted(glob("src/kipu/include/**/*.h", recursive=True)),
    include_dirs=["csrc", "src/kipu/include"],
    extra_compile_args=BUILDS[build_kind()] + ["-pthread", "-Wno-unused-function"],
    extra_link_args=linker_flags(),
)

setup(ext_modules=cythonize([core], compiler_directives=directives()), cmdclass={"build_ext": BuildExt})
