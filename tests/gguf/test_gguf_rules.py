"""One broken file for each rule of the reader: the exception, and a message with name, found and expected."""
import os
import struct

import pytest
from gguf_files import (ARRAY, BOOL, F32, I64, STRING, TYPE_F16, TYPE_Q4_0, TYPE_Q8_0, U8, U32, U64, array, every_kind, scalar, tensor,
                        text, whole)

from kipu._core import GgufFile

HUGE = 2**63
ALIGN = "general.alignment"
ONE = scalar("n", U32, 7)
DATA = bytes(64)


def swapped():
    """A big-endian file: only the magic is the same."""
    return b"GGUF" + struct.pack(">IQQ", 3, 0, 0)


# name: (bytes, what the message says), all ValueError
REFUSED = {
    "empty": (b"", "the file is empty"),
    "two bytes": (b"GG", "the magic at byte 0 needs 4 bytes, the file ends at byte 2"),
    "magic": (whole(magic=b"GGML"), "magic is 47 47 4d 4c, expected 'GGUF'"),
    "no version": (b"GGUF\3\0", "the version at byte 4 needs 4 bytes, the file ends at byte 6"),
    "version 0": (whole(version=0), "GGUF version is 0, expected 2 or 3"),
    "version 1": (whole(version=1), "GGUF version is 1, expected 2 or 3"),
    "version 4": (whole(version=4), "GGUF version is 4, expected 2 or 3"),
    "big-endian": (swapped(), "version is 0x03000000: a big-endian file, expected little-endian"),
    "tensors promised": (whole(n_tensors=5), "the file says it has 5 tensors, 16 bytes are left"),
    "tensors without end": (whole(n_tensors=2**64 - 1), "the file says it has 18446744073709551615 tensors"),
    "values promised": (whole([ONE], n_values=9), r"the file says it has 9 metadata values, \d+ bytes are left"),
    "one value too many": (whole([ONE], n_values=2), "a metadata key has 0 bytes"),
    # keys
    "empty key": (whole([scalar("", U8, 1), ONE]), "a metadata key has 0 bytes, expected 1..65535"),
    "long key": (whole([scalar("k" * 65536, U8, 1)]), "a metadata key has 65536 bytes, expected 1..65535"),
    "NUL in key": (whole([scalar("a\0b", U8, 1)]), "metadata key 'a' holds a NUL byte"),
    "key twice": (whole([ONE, scalar("m", U8, 1), scalar("n", U8, 1)]), "metadata key 'n' appears twice"),
    "key beyond the file": (whole([struct.pack("<Q", 2**40) + b"abcdef"]), "a metadata key at byte 32 needs 1099511627776 bytes"),
    # values
    "type": (whole([text("k") + struct.pack("<II", 13, 0)]), "metadata key 'k': unknown type 13, expected 0..12"),
    "negative type": (whole([text("k") + struct.pack("<II", 2**32 - 1, 0)]), "metadata key 'k': unknown type 4294967295"),
    "bool": (whole([text("flag") + struct.pack("<IB", BOOL, 2)]), "metadata key 'flag': bool 2 at index 0, expected 0 or 1"),
    "bool in array": (whole([array("flags", U8, [1, 0, 255]).replace(struct.pack("<II", ARRAY, U8), struct.pack("<II", ARRAY, BOOL))]),
                      "metadata key 'flags': bool 255 at index 2, expected 0 or 1"),
    "array of unknown": (whole([text("k") + struct.pack("<IIQ", ARRAY, 99, 0)]), "metadata key 'k': an array of the unknown type 99"),
    "array count": (whole([array("k", U64, [1], count=10)]), r"metadata key 'k': 10 items of type u64, but only \d+ bytes are left"),
    "array without end": (whole([array("k", U64, [1], count=HUGE)]), "metadata key 'k': 9223372036854775808 items"),
    "array whose bytes overflow": (whole([array("k", U64, [1], count=2**61)]), "metadata key 'k': 2305843009213693952 items of type u64"),
    "strings count": (whole([array("k", STRING, ["a"], count=50)]), r"metadata key 'k': 50 strings, but only \d+ bytes are left"),
    "strings without end": (whole([array("k", STRING, [], count=2**62)]), "metadata key 'k': 4611686018427387904 strings"),
    "string beyond the file": (whole([text("k") + struct.pack("<IQ", STRING, 2**64 - 1)]),
                               "metadata key 'k': a string at byte 45 needs 184467"),
    # alignment
    "alignment 0": (whole([scalar(ALIGN, U32, 0)]), "'general.alignment' is 0, expected a power of two from 8 to 1048576"),
    "alignment 24": (whole([scalar(ALIGN, U32, 24)]), "'general.alignment' is 24, expected a power of two"),
    "alignment 4": (whole([scalar(ALIGN, U32, 4)]), "'general.alignment' is 4, expected a power of two"),
    "alignment 2^31": (whole([scalar(ALIGN, U32, 2**31)]), "'general.alignment' is 2147483648, expected a power of two"),
    "alignment of another type": (whole([scalar(ALIGN, I64, 32)]), "'general.alignment' has type i64, expected u32"),
    "alignment as text": (whole([scalar(ALIGN, STRING, "32")]), "'general.alignment' has type string, expected u32"),
    # tensors
    "no tensor name": (whole([], [tensor("")], DATA), "a tensor name has 0 bytes, expected 1..63"),
    "long tensor name": (whole([], [tensor("x" * 64)], DATA), "a tensor name has 64 bytes, expected 1..63: 'x"),
    "NUL in tensor name": (whole([], [tensor("a\0b")], DATA), "tensor name 'a' holds a NUL byte"),
    "tensor twice": (whole([], [tensor("a"), tensor("b", offset=32), tensor("a", offset=64)], bytes(96)), "tensor 'a' appears twice"),
    "no dimension": (whole([], [tensor("a", ())], DATA), "tensor 'a': 0 dimensions, expected 1..4"),
    "five dimensions": (whole([], [tensor("a", (1,) * 5)], DATA), "tensor 'a': 5 dimensions, expected 1..4"),
    "dimension 0": (whole([], [tensor("a", (4, 0))], DATA), r"tensor 'a': dimension 1 is 0, expected 1 to 2\^63 - 1"),
    "negative dimension": (whole([], [tensor("a", (HUGE,))], DATA), "tensor 'a': dimension 0 is 9223372036854775808"),
    "elements overflow": (whole([], [tensor("a", (2**32, 2**32))], DATA), r"tensor 'a': more than 2\^63 - 1 elements"),
    "elements overflow to little": (whole([], [tensor("a", (2**33, 2**31, 2**32))], DATA), r"tensor 'a': more than 2\^63 - 1 elements"),
    "bytes overflow": (whole([], [tensor("a", (2**62,))], DATA), r"tensor 'a': more than 2\^64 bytes"),
    "unknown tensor type": (whole([], [tensor("a", kind=77)], DATA), "tensor 'a': unknown type 77"),
    "negative tensor type": (whole([], [tensor("a", kind=2**32 - 1)], DATA), "tensor 'a': unknown type 4294967295"),
    "type that was given up": (whole([], [tensor("a", kind=31)], DATA), "tensor 'a': type 31 is Q4_0_4_4, which GGUF gave up"),
    "block": (whole([], [tensor("a", (48,), TYPE_Q4_0)], DATA), "tensor 'a': rows of 48 values, Q4_0 needs a multiple of 32"),
    "block of a matrix": (whole([], [tensor("a", (16, 2), TYPE_Q8_0)], DATA), "tensor 'a': rows of 16 values, Q8_0 needs a multiple of 32"),
    "offset": (whole([], [tensor("a", offset=16)], DATA), "tensor 'a': offset 16, expected a multiple of 32"),
    "offset beyond": (whole([], [tensor("a", offset=64)], DATA), "tensor 'a': 16 bytes at offset 64 of the data, the file has 64 bytes"),
    "offset that overflows": (whole([], [tensor("a", offset=2**64 - 32)], DATA), "tensor 'a': 16 bytes at offset 18446744073709551584"),
    "data cut": (whole([], [tensor("a", (17,))], DATA), "tensor 'a': 68 bytes at offset 0 of the data, the file has 64 bytes"),
    "no data": (whole([], [tensor("a")]), "tensor 'a': 16 bytes at offset 0 of the data, the file has 0 bytes of data"),
    "overlap": (whole([], [tensor("a", offset=32), tensor("b", (9,))], DATA), "tensors 'b' and 'a' overlap"),
    "same place": (whole([], [tensor("a", (1,)), tensor("b", (1,))], DATA), "overlap"),
    "directory cut": (whole([ONE], [tensor("a", (1,) * 4)], alignment=1)[:-5],
                      "tensor 'a': a tensor's offset at byte 90 needs 8 bytes, the file ends at byte 93"),
    "split.count as text": (whole([scalar("split.count", STRING, "2")]), "'split.count' has type string, expected an integer"),
    "split.count": (whole([scalar("split.count", U32, 10000)]), r"split.count is 10000, expected 1..9999"),
    "split.count without end": (whole([scalar("split.count", U64, HUGE)]), "'split.count' has type u64, expected an integer"),
}


@pytest.fixture
def refused(tmp_path):
    def check(data, message, kind=ValueError):
        (tmp_path / "a.gguf").write_bytes(data)
        with pytest.raises(kind, match=message):
            GgufFile(tmp_path / "a.gguf")
    return check


@pytest.mark.parametrize("name", REFUSED)
def test_refused(refused, name):
    refused(*REFUSED[name])


def test_array_of_arrays(refused):
    refused(whole([text("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1) + struct.pack("<IQ", U8, 0)]), "metadata key 'k': an array of arrays",
            (ValueError, NotImplementedError))


@pytest.mark.parametrize("what", ["values", "tensors"])
def test_too_many(refused, what):
    """More than any model has; what the most cost is measured in test_gguf_damage."""
    data = whole([scalar(f"{i:05}", U8, 0) for i in range(65537)]) if what == "values" else whole([], [tensor("t")] * 65537)
    refused(data, f"the file has 65537 .*{what}, expected at most 65536", (ValueError, NotImplementedError))


def test_what_is_allowed(tmp_path):
    """Close to the rules above, but within them."""
    tensors = [tensor("b" * 63, (15,), offset=64), tensor("a", (1, 1, 1, 1), TYPE_F16)]
    values = [scalar("k" * 65535, U8, 1), scalar(ALIGN, U32, 8), scalar("split.count", U8, 0)]
    (tmp_path / "a.gguf").write_bytes(whole(values, tensors, bytes(124), alignment=8))
    f = GgufFile(tmp_path / "a.gguf")
    assert [t.name for t in f.tensors] == ["b" * 63, "a"] and f.tensors[1].bytes == 2
    (tmp_path / "b.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 2, 0, 0))
    assert GgufFile(tmp_path / "b.gguf").metadata == {}


# ------------------------------------------------------------------------------------------------ what is no file

def test_no_file(tmp_path):
    with pytest.raises(OSError, match="cannot open .*none.gguf': No such file"):
        GgufFile(tmp_path / "none.gguf")
    with pytest.raises(OSError, match="is a directory, expected a regular file"):
        GgufFile(tmp_path)
    with pytest.raises(OSError, match="'/dev/null' is a device, expected a regular file"):
        GgufFile("/dev/null")


def test_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a pipe, expected a regular file"):
        GgufFile(tmp_path / "pipe")


def test_shrinks_after_opening(tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(every_kind())
    f = GgufFile(path)
    with open(path, "r+b") as other:
        other.truncate(f.size - 2)
    assert len(f.read(0)) == 32
    with pytest.raises(OSError, match=rf"a.gguf' ends at byte {f.size - 2}, 2 more were expected"):
        f.read(2)


# ------------------------------------------------------------------------------------------------ split sets

def part(path, no, count=3, total=3, name=None, kind=U32):
    values = [scalar("split.no", kind, no), scalar("split.count", kind, count), scalar("split.tensors.count", I64, total)]
    path.write_bytes(whole(values, [tensor(name or f"t{no}")], bytes(16)))
    return path


@pytest.fixture
def parts(tmp_path):
    return [part(tmp_path / f"m-{i + 1:05}-of-00003.gguf", i) for i in range(3)]


def test_good_set(parts):
    assert [t.name for t in GgufFile(parts[0]).tensors] == ["t0", "t1", "t2"]
    assert [t.part for t in GgufFile(*parts).tensors] == [0, 1, 2]



@pytest.mark.parametrize("i, fields, message", [
    (1, {"no": 2}, "00002-of-00003.gguf': split.no is 2, expected 1"),
    (2, {"count": 4}, "00003-of-00003.gguf': split.count is 4, expected 3"),
    (0, {"total": 4}, "split.tensors.count is 4, the parts have 3 tensors"),
    (2, {"name": "t0"}, "tensor 't0' appears twice"),
    (1, {"kind": F32}, "'split.no' has type f32, expected an integer"),
])
def test_broken_set(parts, i, fields, message):
    part(parts[i], **({"no": i} | fields))
    with pytest.raises(ValueError, match=message):
        GgufFile(parts[0])


def test_part_is_missing(parts):
    parts[2].unlink()
    with pytest.raises(OSError, match="cannot open .*m-00003-of-00003.gguf"):
        GgufFile(parts[0])


def test_part_is_damaged(parts):
    parts[1].write_bytes(parts[1].read_bytes()[:-1])
    with pytest.raises(ValueError, match="tensor 't1': 16 bytes at offset 0"):
        GgufFile(parts[0])


def test_not_the_first_part(parts):
    with pytest.raises(ValueError, match="split.no is 1, expected 0: the first part must be opened"):
        GgufFile(parts[1])


def test_name_of_another_form(parts):
    with pytest.raises(ValueError, match="is a part of 3, expected a name that ends in -00001-of-00003.gguf"):
        GgufFile(parts[0].rename(parts[0].with_name("m.gguf")))


def test_paths_in_another_order_or_number(parts):
    with pytest.raises(ValueError, match="split.no is 2, expected 1"):
        GgufFile(parts[0], parts[2], parts[1])
    with pytest.raises(ValueError, match="2 paths were given, split.count is 3"):
        GgufFile(*parts[:2])
    with pytest.raises(ValueError, match="split.no is 0, expected 1"):
        GgufFile(parts[0], parts[0], parts[2])
