"""The rules of the house that a program can check: who knows whom, names, lines."""
import re
import subprocess
from collections import Counter

import pytest
from c_programs import ROOT

# A room knows itself and the rooms named here.
KNOWS = {
    "base": [],
    "quants": ["base"],
    "kernels": ["base", "quants"],
    "ops": ["base", "quants", "kernels"],
    "memory": ["base", "quants", "kernels", "ops"],
    "text": ["base"],
    "sample": ["base"],
    "engine": ["base", "quants", "kernels", "ops", "memory", "text", "sample"],
}
C_FILES = sorted((ROOT / "csrc").rglob("*.[ch]"))
OURS = sorted(p for folder in ("csrc", "src", "tests", "benchmarks") for p in (ROOT / folder).rglob("*")
              if p.suffix in (".c", ".h", ".py", ".pyx", ".pxi", ".pxd")) + [ROOT / "setup.py"]


def findings(files, pattern):
    return [f"{p.relative_to(ROOT)}:{n}: {line.strip()}" for p in files for n, line in enumerate(p.read_text().splitlines(), 1)
            if re.search(pattern, line)]


def strangers(text, room):
    """Rooms that the C text of a room includes without knowing them."""
    return [r for r in re.findall(r'#include "(\w+)/', text) if r != room and r not in KNOWS[room]]


@pytest.mark.parametrize("room", KNOWS)
def test_rooms_know_only_rooms_above(room):
    files = [p for p in C_FILES if p.parts[len(ROOT.parts) + 1] == room]
    assert files
    assert {str(p.relative_to(ROOT)): s for p in files if (s := strangers(p.read_text(), room))} == {}


def test_strangers_are_found():
    assert strangers('#include "memory/memory.h"\n#include "base/error.h"\n#include <math.h>', "ops") == ["memory"]


def test_every_c_file_is_in_a_room():
    assert {p.parts[len(ROOT.parts) + 1] for p in C_FILES} == set(KNOWS)


def test_file_names_are_unique():
    names = Counter(p.stem + p.suffix for p in C_FILES)
    assert [n for n, count in names.items() if count > 1] == []
    assert [n for n in names if not re.fullmatch(r"[a-z0-9_]+\.[ch]", n)] == []


def test_white_space():
    assert findings(OURS, "\t") == [] and findings(OURS, r" $") == []


def test_c_neither_knows_python_nor_prints_nor_ends_the_process():
    assert findings(C_FILES, r"Python\.h|Py[A-Z]\w+_|\b(f|v|vf)?printf\s*\(|(?<![>.])\b(abort|exit|_exit|puts|perror)\s*\(") == []


def test_nothing_is_switched_off_or_left_for_later():
    assert findings(OURS, "#if " + "0|TO" + "DO|FIX" + "ME") == []


def test_exported_names_have_our_prefix():
    """The dynamic symbols of the extension: everything with external linkage that is not hidden."""
    from kipu import _core
    symbols = subprocess.run(["nm", "-D", "--defined-only", _core.__file__], capture_output=True, text=True, check=True).stdout.split("\n")
    names = [line.split()[-1] for line in symbols if line]
    assert "PyInit__core" in names
    assert [n for n in names if not re.match(r"PyInit_|kipu_|_init$|_fini$|__|_edata|_end|_bss", n)] == []
