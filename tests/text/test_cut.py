"""Special tokens in texts, against a naive model: one token after the other, longest first, through all stretches of text."""
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_vocab import CONTROL, NORMAL, UNKNOWN, USER, bpe_fields, load, spm_fields

SETTINGS = settings(max_examples=150, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))


def cut(text, tokens, strip_left=(), strip_right=()):
    """tokens: (text, id) in order of rank. Returns stretches of text and ids."""
    parts = [text]
    for word, token in tokens:
        after = []
        for part in parts:
            if isinstance(part, int):
                after.append(part)
                continue
            rest = part
            while (at := rest.find(word)) >= 0:
                left, rest = rest[:at], rest[at + len(word):]
                left = left.rstrip(" \t\n\r\v\f") if token in strip_left else left
                rest = rest.lstrip(" \t\n\r\v\f") if token in strip_right else rest
                after += [left] * bool(left) + [token]
            after += [rest] * bool(rest)
        parts = after
    return parts


def byte_ids(parts):
    """With a vocabulary without merges a stretch is its bytes."""
    return [t for part in parts for t in ([part] if isinstance(part, int) else part.encode())]


WORDS = st.lists(st.tuples(st.text("ab <", min_size=2, max_size=5), st.sampled_from([CONTROL, USER, UNKNOWN])), min_size=1, max_size=8,
                 unique_by=lambda pair: pair[0])


def ranked(words, parse):
    tokens = [(text, 256 + i) for i, (text, kind) in enumerate(words) if parse or kind == USER]
    return sorted(tokens, key=lambda t: -len(t[0]))


@SETTINGS
@given(WORDS, st.text("ab <\n", max_size=40), st.booleans())
def test_like_naive(tmp_path, words, text, parse):
    vocab = load(tmp_path, **bpe_fields(words))
    assert vocab.tokenize(text, False, parse).tolist() == byte_ids(cut(text, ranked(words, parse)))


@SETTINGS
@given(WORDS, st.text("ab <\n", max_size=40))
def test_right_strip_like_naive(tmp_path, words, text):
    vocab = load(tmp_path, general__name="My Phi-3 model", **bpe_fields(words))
    tokens = ranked(words, True)
    assert vocab.tokenize(text, False, True).tolist() == byte_ids(cut(text, tokens, strip_right={t for _, t in tokens}))


def test_phi3_exceptions(tmp_path):
    words = [("</s>", NORMAL), ("<unk>", UNKNOWN), ("<s>", CONTROL), ("<|endoftext|>", CONTROL), ("<|user|>", CONTROL)]
    vocab = load(tmp_path, general__name="PHI3", **bpe_fields(words))
    assert [bool(vocab.attr(256 + i) & 256) for i in range(5)] == [True, False, False, False, True]


@pytest.mark.parametrize("fields", [dict(pre="jina-v2-de"), dict(pre="jina-v2-code"), dict(arch="nomic-bert-moe")])
def test_mask_strips_left(tmp_path, fields):
    vocab = load(tmp_path, **{**bpe_fields([("<mask>", CONTROL), ("<x>", CONTROL)]), **fields})
    assert vocab.tokenize("a \t<mask> b <x>", False, True).tolist() == byte_ids(["a", 256, " b ", 257])


def test_longest_first_even_if_later(tmp_path):
    vocab = load(tmp_path, **bpe_fields([("<aaa", USER), ("aab<bb", USER)]))
    assert vocab.tokenize("<aaab<bb", False).tolist() == byte_ids(["<a", 257])


def test_shorter_token_where_the_longer_is_blocked(tmp_path):
    vocab = load(tmp_path, **bpe_fields([("abab", USER), ("bbbbbb", USER), ("ab", USER)]))
    assert vocab.tokenize("ababbbbbb", False).tolist() == [258, *b"a", 257]


def test_blank_in_front_of_every_stretch_of_spm(tmp_path):
    vocab = load(tmp_path, **spm_fields([("\u2581", -1), ("a", -2), ("\u2581a", -3)], [("<|x|>", CONTROL)]))
    x, a, blank_a = vocab.size - 1, vocab.size - 3, vocab.size - 2
    assert vocab.tokenize("a<|x|>a<|x|><|x|>a", True, True).tolist() == [1, blank_a, x, blank_a, x, x, blank_a]
    assert vocab.tokenize("", True, True).tolist() == [1]
    off = load(tmp_path, **spm_fields([("\u2581", -1), ("a", -2), ("\u2581a", -3)], [("<|x|>", CONTROL)], add_space_prefix=False))
    assert off.tokenize("a<|x|>a", False, True).tolist() == [a, x, a]


def test_many_tokens_and_a_long_text(tmp_path):
    """Neither tokens x text nor recursion: 4000 user-defined tokens, among them runs of blanks, and 200 KB of blanks."""
    words = [(f"<unused{i}>", USER) for i in range(4000)] + [(" " * n, USER) for n in range(2, 32)]
    vocab = load(tmp_path, **bpe_fields(words))
    run = vocab.size - 1
    ids = vocab.tokenize(" " * 200_000 + "<unused17>", False).tolist()
    assert ids[:-2] == [run] * (200_000 // 31) and ids[-1] == 256 + 17
    assert ids[-2] == 256 + 4000 + 200_000 % 31 - 2
