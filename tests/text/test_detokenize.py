"""Pieces and texts from tokens; cleaning of blanks against a model with regular expressions."""
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_vocab import BYTE, BYTES, CONTROL, LETTERS, NORMAL, UNKNOWN, UNUSED, USER, bpe_fields, load, spell, spm_fields

SETTINGS = settings(max_examples=300, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory):
    return load(tmp_path_factory.mktemp("bpe"), **bpe_fields(bos_token_id=0, eos_token_id=0))


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    return load(tmp_path_factory.mktemp("bpe"), **{**bpe_fields(bos_token_id=0, eos_token_id=0), "pre": "qwen2"})


@pytest.fixture(scope="module")
def spm(tmp_path_factory):
    pieces = [("\u2581", -1), ("a", -2), ("\u2581a", -3), ("\u2581\u2581", -4)]
    extra = [("<|x|>", CONTROL), ("two words", USER), ("unused", UNUSED)]
    return load(tmp_path_factory.mktemp("spm"), **spm_fields(pieces, extra), add_eos_token=True)


def clean(text):
    """The three passes. An apostrophe pair uses up its blanks, so the second pass goes from left to right."""
    text = re.sub(r" (?=[?!.,])", "", text)
    text = re.sub(r" ' ", "'", text)
    return re.sub(r" (?='s|'m|'re|'ve)", "", text)


@SETTINGS
@given(st.text(" '?!.,smrevtdlxe", max_size=40))
def test_cleaning(cleaning, keeping, text):
    ids = list(text.encode())
    assert keeping.detokenize(ids).decode() == text
    assert cleaning.detokenize(ids).decode() == clean(text)


@SETTINGS
@given(st.binary(max_size=60))
def test_bpe_gives_valid_text_back(keeping, data):
    valid = data.decode("utf-8", "ignore")
    assert keeping.detokenize(keeping.tokenize(valid, False)).decode() == valid
    assert keeping.detokenize(list(data)) == data


@SETTINGS
@given(st.binary(max_size=60))
def test_spm_gives_any_bytes_back(spm, data):
    if b"\xe2\x96\x81" in data:   # a real U+2581 comes back as a blank
        return
    assert spm.detokenize(spm.tokenize(data), remove_special=True) in (data, b" " + data)
    assert spm.detokenize(spm.tokenize(data, False)) == data


def test_invalid_bytes_of_bpe(keeping):
    bad = "\ufffd".encode()
    for data, want in ((b"\xff\xfe", bad * 2), (b"\xe2\x82", bad * 2), (b"a\xf5b", b"a" + bad + b"b"), (b"\xc0\xaf", b"/"),
                       (b"\xed\xa0\x80", b"\xed\xa0\x80"), (b"\xf4\x90\x80\x80", bad * 4)):
        assert keeping.detokenize(keeping.tokenize(data, False)) == want


def test_special_tokens_in_texts(spm):
    bos, eos, a = 1, 2, 3 + 256 + 2
    x, two, unused = spm.size - 3, spm.size - 2, spm.size - 1
    ids = [bos, a, x, two, unused, a, eos]
    assert spm.detokenize(ids) == b" a" + b"two words" + b" a"
    assert spm.detokenize(ids, unparse_special=True) == b"<s> a<|x|>two words a</s>"
    assert spm.detokenize(ids, remove_special=True, unparse_special=True) == b" a<|x|>two words a"
    assert spm.detokenize(ids[1:]) == b"atwo words a"   # no bos was dropped: the first piece loses its blank
    assert spm.detokenize([bos], True) == spm.detokenize([bos, eos], True) == spm.detokenize([]) == b""


def test_lstrip(spm):
    blanks = 3 + 256 + 3
    assert [spm.token_to_piece(blanks, n) for n in (0, 1, 2, 9)] == [b"  ", b" ", b"", b""]
    assert spm.token_to_piece(1) == b"" and spm.token_to_piece(1, special=True) == b"<s>"


def test_attributes_decide_what_a_piece_is(tmp_path):
    tokens = [spell(b" hi"), "\u0120raw", "<c>", "\u0120unk", "\u0120unused", "\u0120byte", "\u2581no letter"]
    vocab = load(tmp_path, model="gpt2", pre="qwen2", tokens=tokens, token_type=[NORMAL, USER, CONTROL, UNKNOWN, UNUSED, BYTE, NORMAL],
                 merges=["a b"], bos_token_id=0, eos_token_id=0)
    pieces = [vocab.token_to_piece(i, special=True) for i in range(6)]
    assert pieces == [b" hi", "\u0120raw".encode(), b"<c>", "\u0120unk".encode(), b"", b""]
    assert [vocab.token_to_piece(i) for i in (2, 3)] == [b"", b""]
    assert vocab.token_to_piece(6) == "[UNK_BYTE_0xe29681\u2581no letter]no[UNK_BYTE_0x20\u2581no letter]letter".encode()


def test_arguments(keeping):
    assert keeping.detokenize(np.array([104, 105], np.int64)) == b"hi"
    assert keeping.tokenize(bytearray(b"hi"), False).tolist() == keeping.tokenize(memoryview(b"hi"), False).tolist() == [104, 105]
    assert keeping.tokenize("", False).tolist() == [] and keeping.tokenize("a", False).dtype == np.int32
    assert len(keeping) == 256 and int(keeping) > 0
    with pytest.raises(ValueError, match="which must be one of bos eos"):
        keeping.special("end")


def test_alphabet_is_that_of_gpt2(keeping):
    assert [keeping.token_to_piece(i) for i in range(256)] == [bytes([i]) for i in range(256)]
    assert len(set(LETTERS)) == 256 and len(BYTES) == 256
