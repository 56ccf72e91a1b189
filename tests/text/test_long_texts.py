"""Long and evil texts on a thread with a stack of 256 KiB: no recursion, no large frames, and at most n log n work."""
import threading

import pytest
from made_vocab import USER, bpe_fields, load, spm_fields

N = 1_000_000


def on_small_stack(call):
    """Runs call() on a thread with 256 KiB of stack and returns its result."""
    before, box = threading.stack_size(256 * 1024), []

    def run():
        try:
            box.append(call())
        except BaseException as e:   # noqa: BLE001 - handed to the caller
            box.append(e)

    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    merges = ["a a", "aa aa", "aaaa aaaa", "a b", "\u0120 \u0120", "\u0120\u0120 \u0120\u0120", "1 2"]
    return load(tmp_path_factory.mktemp("bpe"), **{**bpe_fields([("<<<", USER)], merges, bos_token_id=0, eos_token_id=0), "pre": "qwen2"})


@pytest.fixture(scope="module")
def spm(tmp_path_factory):
    pieces = [("a", -9), ("aa", -1), ("aaaa", -2), ("a" * 8, -3), ("\u2581", -4), ("\u2581\u2581", -5),
              ("ab", -6), ("b\u2581", -7), ("b", -9)]
    return load(tmp_path_factory.mktemp("spm"), **spm_fields(pieces, [("<<<", USER)]), add_space_prefix=False)


TEXTS = {"equal letters": b"a" * N, "pairs": b"ab" * (N // 2), "blanks": b" " * N, "newlines": b"\n" * N, "continuation bytes": b"\x80" * N,
         "specials": b"<" * N, "words": b"aab aa " * (N // 7), "digits": b"12" * (N // 2), "astral": "\U0001f600".encode() * (N // 4)}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("which", ["bpe", "spm"])
def test_round_trip(request, which, kind):
    vocab, text = request.getfixturevalue(which), TEXTS[kind]
    ids = on_small_stack(lambda: vocab.tokenize(text, False, True))
    back = on_small_stack(lambda: vocab.detokenize(ids, False, True))
    assert back == (b"\xef\xbf\xbd" * N if which == "bpe" and kind == "continuation bytes" else text)


def test_equal_letters_merge_from_the_left(bpe, spm):
    aaaa = {v: on_small_stack(lambda v=v: v.tokenize(b"a" * (N + 7), False)).tolist() for v in (bpe, spm)}
    for vocab, ids in aaaa.items():
        sizes = [len(vocab.token_to_piece(t)) for t in ids[-4:]]
        assert len(ids) == N // 8 + 3 and sizes == [8, 4, 2, 1]


@pytest.mark.parametrize("pre", ["default", "falcon", "gpt-4o", "tekken", "deepseek-llm", "deepseek-coder", "deepseek-v3", "superbpe",
                                 "chameleon", "viking", "bloom", "seed-coder", "smollm", "gpt-2", "llama3"])
def test_all_pre_tokenizers(tmp_path, pre):
    """Texts that would make a matcher go back again and again."""
    vocab = load(tmp_path, **{**bpe_fields(bos_token_id=0, eos_token_id=0), "pre": pre})
    for text in (b" " * 300_000 + b"1" + b" " * 300_000 + b"x", b"1" * 500_000, b"\xc3\x80" + b"B" * 400_000, b"~" * 400_000,
                 b"\t \n" * 150_000 + b"x"):
        ids = on_small_stack(lambda t=text: vocab.tokenize(t, False))
        assert ids.size == len(text)
