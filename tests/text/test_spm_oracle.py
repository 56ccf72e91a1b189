"""SPM against `sentencepiece`, with a model that is trained here."""
import io

import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_vocab import BYTE, CONTROL, NORMAL, UNKNOWN, load

WORDS = ("the quick brown fox jumps over the lazy dog while other foxes sleep under warm brown blankets and dream of quicker dogs "
         "na\u00efve caf\u00e9 \u00fcber stra\u00dfe \u4f60\u597d\u4e16\u754c \u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 "
         "12 345 6789 (a) [b] {c} x=y+z; foo_bar").split()


def lines():
    return [" ".join(WORDS[(i * k + k) % len(WORDS)] for i in range(20)) + ("  " if k % 3 else "   deep  ") + "end" for k in range(1, 60)]


@pytest.fixture(scope="module", params=["words", "across words"])
def pair(request, tmp_path_factory):
    """Both sides of one model; one whose pieces stay inside of words and one whose pieces cross them."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()), model_writer=out, vocab_size=600, model_type="bpe", byte_fallback=True, hard_vocab_limit=False,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_by_whitespace=request.param == "words",
        allow_whitespace_only_pieces=True, minloglevel=2)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    n = theirs.get_piece_size()
    types = [UNKNOWN if theirs.is_unknown(i) else CONTROL if theirs.is_control(i) else BYTE if theirs.is_byte(i) else NORMAL
             for i in range(n)]
    ours = load(tmp_path_factory.mktemp("spm"), model="llama", tokens=[theirs.id_to_piece(i) for i in range(n)],
                scores=[theirs.get_score(i) for i in range(n)], token_type=types)
    crossing = any("\u2581" in theirs.id_to_piece(i).lstrip("\u2581") for i in range(n))
    assert crossing == (request.param != "words")
    return ours, theirs


PARTS = [*WORDS, " ", "  ", "   ", "a", "e", "\n", "\t", "\u00a0", "\U0001f600", "\u0301", "."]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=20).map("".join)


def test_like_sentencepiece(pair):
    ours, theirs = pair

    @settings(max_examples=300, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(TEXTS)
    def same(text):
        ids = ours.tokenize(text, add_special=False)
        assert ids.tolist() == theirs.encode(text)
        assert ours.detokenize(ids).decode() == text

    same()


def test_long_texts(pair):
    ours, theirs = pair
    for text in ("e" * 2000, " " * 777, "the" * 500, "\u4f60\u597d" * 300, "foo_bar=" * 200, " ".join(WORDS * 20)):
        assert ours.tokenize(text, False).tolist() == theirs.encode(text)
