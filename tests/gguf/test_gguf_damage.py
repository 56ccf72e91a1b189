"""Damaged files: every truncation, every byte changed, giant counts. An answer or an exception, never a crash, in bounded memory."""
import os
import struct
import subprocess
import sys

import pytest
from gguf_files import ARRAY, STRING, U8, U64, every_kind, item, scalar, small, tensor, text, whole

from kipu._core import GgufFile

REFUSALS = (ValueError, OSError, NotImplementedError)
GIANT = [0, 1, 2, 3, 0xFF, 0x100, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53,
         2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1]


@pytest.fixture
def walk(tmp_path):
    """Opens these bytes and looks at everything: what there is, or the exception."""
    path = tmp_path / "a.gguf"
    file = open(path, "wb", buffering=0)     # written in place: a file made anew each time waits for the disk

    def look(data):
        os.pwrite(file.fileno(), data, 0)
        file.truncate(len(data))
        try:
            with GgufFile(path) as f:
                return f.metadata, [(t.name, t.type, t.shape, f.read(i)) for i, t in enumerate(f.tensors)]
        except REFUSALS as e:
            assert str(e)
            return e
    yield look
    file.close()


@pytest.mark.parametrize("make", [small, every_kind])
def test_every_truncation(walk, make):
    """Each is refused: the last tensor ends with the file."""
    data = make()
    assert isinstance(walk(data), tuple)
    passed = [n for n in range(len(data)) if not isinstance(walk(data[:n]), REFUSALS)]
    assert passed == []


def test_every_bit(walk):
    data = small()
    for i in range(len(data)):
        for bit in range(8):
            walk(data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1:])


def test_every_byte_value_where_counts_stand(walk):
    """The header's bytes with all 256 values, the others with each fifth."""
    data = small()
    for i in range(len(data) - 40):
        for value in range(0, 256, 1 if i < 24 else 5):
            walk(data[:i] + bytes([value]) + data[i + 1:])


def test_giant_numbers_at_every_place(walk):
    data = small()
    for i in range(4, len(data) - 40):
        for n in GIANT:
            walk(data[:i] + struct.pack("<Q", n) + data[i + 8:])


# ------------------------------------------------------------------------------------------------ memory

def many_keys_and_tensors():
    """As many as are allowed, as small as can be: a valid file."""
    tensors = [tensor(f"{i:x}", (1,), 24, 8 * i) for i in range(65536)]     # I8
    values = [scalar("general.alignment", 4, 8)] + [scalar(f"{i:x}", U8, 0) for i in range(65535)]
    return whole(values, tensors, bytes(8 * 65535 + 1), alignment=8)


def many_arrays():
    strings = [text(f"{i:x}") + struct.pack("<IIQ", ARRAY, STRING, 1) + item(STRING, "") for i in range(65536)]
    return whole(strings)


def one_array(kind, raw, count):
    return whole([text("k") + struct.pack("<IIQ", ARRAY, kind, count) + raw])


MIB = 1 << 20
EXPENSIVE = {
    "keys and tensors": (many_keys_and_tensors, True),
    "arrays": (many_arrays, True),
    "empty strings": (lambda: one_array(STRING, bytes(16 * MIB), 2 * MIB), True),
    "strings that end early": (lambda: one_array(STRING, b"\xff" * (16 * MIB), 2 * MIB), False),
    "numbers": (lambda: one_array(U64, bytes(16 * MIB), 2 * MIB), True),
    "bytes": (lambda: one_array(U8, bytes(16 * MIB), 16 * MIB), True),
    "keys promised": (lambda: whole([bytes(16 * MIB)], n_values=65536), False),
    "data alone": (lambda: whole([], [tensor("a", (16 * MIB,), 24)], bytes(16 * MIB)), True),
}
# Growth of the process itself: VmHWM starts anew with a program, what getrusage says does not.
CHILD = """
import sys
from kipu._core import GgufFile

def status(field):
    with open("/proc/self/status") as f:
        return 1024 * next(int(line.split()[1]) for line in f if line.startswith(field))

with open("/proc/self/clear_refs", "w") as f:
    f.write("5")        # the peak so far is forgotten
before = status("VmRSS")
try:
    GgufFile(sys.argv[1])
    good = True
except (ValueError, NotImplementedError):
    good = False
print(int(good), status("VmHWM") - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the peak of memory is measured through /proc")
@pytest.mark.skipif(os.environ.get("KIPU_BUILD") == "asan", reason="a sanitizer's memory is not ours")
@pytest.mark.parametrize("name", EXPENSIVE)
def test_memory(tmp_path, name):
    make, good = EXPENSIVE[name]
    path = tmp_path / "a.gguf"
    path.write_bytes(make())
    done = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, text=True, timeout=300, check=True)
    opened, growth = map(int, done.stdout.split())
    assert opened == good
    assert growth <= 4 * os.path.getsize(path) + 16 * MIB
    print(f"{name}: {growth / MIB:.1f} MiB for {os.path.getsize(path) / MIB:.1f} MiB")
