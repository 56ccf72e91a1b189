"""What GgufFile reads is what was written and what the gguf package reads."""
import os
import struct

import gguf
import numpy as np
import pytest
from gguf_files import ARRAY, BOOL, CODES, F32, F64, I32, I64, STRING, TYPE_F16, U8, U16, U32, array, every_kind, scalar, tensor, whole

from kipu._core import GgufFile

BIG = {U8: 255, 1: -128, U16: 65535, 3: -32768, U32: 2**32 - 1, I32: -2**31, F32: -0.15625, BOOL: False,
       10: 2**64 - 1, I64: -2**63, 12: 1e300}


def write(path, data):
    path.write_bytes(data)
    return path


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("version", [2, 3])
def test_every_type(tmp_path, version):
    with GgufFile(write(tmp_path / "a.gguf", every_kind(version))) as f:
        assert f.version == version and f.size == os.path.getsize(f.path)
        for kind in (*CODES, STRING):
            one = {BOOL: True, STRING: "zwölf"}.get(kind, 12)
            assert f.metadata[f"one.{kind}"] == one and type(f.metadata[f"one.{kind}"]) is type(one if kind not in (F32, 12) else 0.5)
            assert list(f.metadata[f"some.{kind}"]) == [one] * 3
            assert len(f.metadata[f"empty.{kind}"]) == 0
        assert [(t.name, t.type, t.shape, t.bytes, t.elements) for t in f.tensors] == [
            ("a", "F32", (4, 2), 32, 8), ("b", "Q4_0", (32, 1, 2), 36, 64), ("c", "F16", (1, 1, 1, 3), 6, 3)]
        start = f.size - 102
        assert [(t.part, t.offset - start) for t in f.tensors] == [(0, 0), (0, 32), (0, 96)]
        assert f.read(1) == bytes(range(32, 68)) and f.read(2, 4, 2) == bytes([100, 101]) and f.read(0, 32) == b""


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("shift", range(8))
def test_arrays_at_every_address(tmp_path, kind, shift):
    """The longest numbers of a type, behind a key that moves them byte by byte."""
    values = [scalar("k" * (shift + 1), kind, BIG[kind]), array("a", kind, [BIG[kind], 1, 0]), array("z", U8, [9])]
    meta = GgufFile(write(tmp_path / "a.gguf", whole(values))).metadata
    assert meta["k" * (shift + 1)] == BIG[kind] and plain(meta["a"]) == [BIG[kind], 1, 0] and plain(meta["z"]) == [9]
    assert meta["a"].dtype == np.dtype("=" + CODES[kind].replace("Q", "u8").replace("q", "i8"))


def test_text_that_is_no_utf8(tmp_path):
    meta = GgufFile(write(tmp_path / "a.gguf", whole([scalar(b"\xff", STRING, b"a\0\xfe"), array("s", STRING, ["", b"\xc3"])]))).metadata
    assert [k.encode("utf-8", "surrogateescape") for k in meta] == [b"\xff", b"s"]
    assert meta["\udcff"].encode("utf-8", "surrogateescape") == b"a\0\xfe" and meta["s"] == ["", "\udcc3"]


def written_by_the_package(path, **more):
    w = gguf.GGUFWriter(path, "none", **more)
    w.add_uint8("u8", 1), w.add_int8("i8", -1), w.add_uint16("u16", 2), w.add_int16("i16", -2), w.add_uint32("u32", 3)
    w.add_int32("i32", -3)
    w.add_uint64("u64", 4), w.add_int64("i64", -4), w.add_float32("f32", 0.25), w.add_float64("f64", 0.1), w.add_bool("yes", True)
    w.add_string("text", "ä"), w.add_array("ints", [1, -2]), w.add_array("floats", [0.5]), w.add_array("texts", ["", "b"])
    rng = np.random.default_rng(0)
    for i, kind in enumerate((gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.BF16, gguf.GGMLQuantizationType.Q8_0)):
        w.add_tensor(f"t{i}", gguf.quantize(rng.standard_normal((3, 64)).astype(np.float32), kind), raw_dtype=kind)
    w.add_tensor("ids", np.arange(5, dtype=np.int32))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    return path


def same_as_package(path):
    ours, theirs = GgufFile(path), gguf.GGUFReader(path)
    fields = {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert {k: plain(v) for k, v in ours.metadata.items()} == fields and list(ours.metadata) == list(fields)
    for i, (a, b) in enumerate(zip(ours.tensors, theirs.tensors, strict=True)):
        assert (a.name, a.type, a.shape) == (b.name, b.tensor_type.name, tuple(map(int, b.shape)))
        assert (a.bytes, a.elements, a.offset) == (b.n_bytes, b.n_elements, b.data_offset)
        assert ours.read(i) == b.data.tobytes()


def test_against_the_package(tmp_path):
    same_as_package(written_by_the_package(tmp_path / "a.gguf"))


def test_ours_against_the_package(tmp_path):
    same_as_package(write(tmp_path / "a.gguf", every_kind().replace(array("empty.8", STRING, []), array("empty.8", STRING, ["x"]))))


def test_alignment(tmp_path):
    tensors = [tensor("a", (1,)), tensor("b", (1,), offset=64)]
    data = whole([scalar("general.alignment", U32, 64)], tensors, bytes(64) + b"abcd", alignment=64)
    f = GgufFile(write(tmp_path / "a.gguf", data))
    assert f.read(1) == b"abcd" and f.tensors[0].offset % 64 == 0


@pytest.fixture
def split_set(tmp_path):
    path = tmp_path / "m.gguf"
    written_by_the_package(path, split_max_tensors=2)
    parts = sorted(tmp_path.glob("m-*.gguf"))
    assert [p.name for p in parts] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    return parts


def test_split_set(split_set, tmp_path):
    alone = GgufFile(written_by_the_package(tmp_path / "alone.gguf"))
    moved = [p.rename(tmp_path / f"part{i}") for i, p in enumerate(split_set)]
    by_list = GgufFile(*moved)
    for old, new in zip(split_set, moved):
        new.rename(old)
    for f in (by_list, GgufFile(split_set[0])):
        assert [t.name for t in f.tensors] == ["t0", "t1", "t2", "ids"] and [t.part for t in f.tensors] == [0, 0, 1, 1]
        assert [f.read(i) for i in range(4)] == [alone.read(i) for i in range(4)]
        assert f.metadata["split.count"] == 2 and f.metadata["text"] == "ä"
        assert f.size == sum(os.path.getsize(p) for p in split_set)


def test_closed(tmp_path):
    f = GgufFile(os.fsencode(write(tmp_path / "a.gguf", every_kind())))
    with f:
        pass
    f.close()
    for use in (lambda: f.version, lambda: f.size, lambda: f.metadata, lambda: f.tensors, lambda: f.read(0), f.__enter__):
        with pytest.raises(ValueError, match="the file was closed"):
            use()


def test_what_was_read_outlives_the_file(tmp_path):
    f = GgufFile(write(tmp_path / "a.gguf", every_kind()))
    meta, tensors = f.metadata, f.tensors
    f.close()
    del f
    assert meta["some.4"].tolist() == [12] * 3 and tensors[1].name == "b"


def test_arguments(tmp_path):
    path = write(tmp_path / "a.gguf", whole([], [tensor("c", (3,), TYPE_F16)], bytes(6)))
    f = GgufFile(path)
    for call, kind in ((lambda: f.read(1), IndexError), (lambda: f.read(-1), IndexError), (lambda: f.read(0, 7), ValueError),
                       (lambda: f.read(0, 2, 5), ValueError), (lambda: GgufFile("a\0b"), ValueError), (lambda: GgufFile(5), TypeError),
                       (GgufFile, TypeError)):
        with pytest.raises(kind):
            call()


def test_bits_of_floats(tmp_path):
    """A NaN keeps its bits."""
    bits = 0x7FF0000000000F01
    value = struct.pack("<Q", 1) + b"a" + struct.pack("<IIQQ", ARRAY, F64, 1, bits)
    assert GgufFile(write(tmp_path / "a.gguf", whole([value]))).metadata["a"].view("<u8").tolist() == [bits]
