"""BPE against `tokenizers`, which gets the same vocabulary and the patterns of the pre-tokenizers as regular expressions."""
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_vocab import load
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

CONTRACTION = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
G = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
# "~" is no symbol in the reference's list of the ASCII ones
SIGN = r"(?:(?!~)[\p{P}\p{S}])"
UNSTOPPED = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
ASIAN = "(?:(?!\\s)[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff])+"


def h3(numbers, others=r" ?[^\s\p{L}\p{N}]+[\r\n]*"):
    return rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{numbers}|{others}|{SPACES}"


def cased(numbers, tail=""):
    lead = r"[^\r\n\p{L}\p{N}]?"
    return rf"{lead}{UPPER}*{LOWER}+{tail}|{lead}{UPPER}+{LOWER}*{tail}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}"


PATTERNS = {
    "gpt-2": [G],
    "smollm": [r"\p{N}", G],
    "dbrx": [h3(r"\p{N}{1,3}")],
    "qwen2": [h3(r"\p{N}")],
    "seed-coder": [h3(r"\p{N}", r" ?[^\s\p{L}\p{N}\r\n]+")],
    "bailingmoe": [rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "falcon": [r"[\p{P}$+<=>^~|`]+", G, "[0-9][0-9][0-9]"],
    "default": [r"[\p{P}$+<=>^~|]+", G, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-4o": [cased(r"\p{N}{1,3}", CONTRACTION + "?")],
    "tekken": [cased(r"\p{N}")],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|(?:[^\r\n\p{L}\p{P}\p{S}]|~)?[\p{L}\p{M}]+"
                    rf"| ?{SIGN}+[\r\n]*|{SPACES}"],
    # of the letters of the cased scripts, those that are among CHARACTERS and WORDS
    "deepseek-llm": [r"[\r\n]", "\\s?[A-Za-z\u00e9\u00c9\u00df\u0130\u01c5\u0436\u0416\u03c3\uff21]+",
                     "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3001\u3002]+", r"\s+\z", ASIAN, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", ASIAN, r"\p{N}"],
    "bloom": [UNSTOPPED],
    "viking": [UNSTOPPED, r"\p{N}"],
    "superbpe": [r"\p{N}+", "(?=([0-9]{3})+(?![0-9]))"],
    "chameleon": ["<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", r"[\t\n]|    |  ", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", G],
}
FLAGGED = {"tekken"}   # pre-tokenizers that take a piece whole if it is a token

# Characters on both sides of every distinction that a pattern makes.
CHARACTERS = [*"aAzZsStTlLdDeErR'\u2019019 \t\n\r.,!?()|<>=+^~`$/#-_:;{}[]\"*&%@\\",
              "\u00e9", "\u00c9", "\u00df", "\u0130", "\u01c5", "\u02b0",
              "\u0301", "\u00a0", "\u0085", "\u3000", "\u2003", "\u200b", "\u2026", "\u3002", "\uff0c", "\u3001", "\u0964", "\u0663",
              "\u00b2",
              "\u2167", "\u4f60", "\u597d", "\u3042", "\u30ab", "\ud55c", "\u0e01", "\u0436", "\u0416", "\u03c3", "\u20ac", "\u00a9",
              "\u2192",
              "\U0001f600", "\U00020000", "\U0001d573", "\x00", "\x7f", "\ufffd", "\u00ad", "\uff21", "\uff11", "\uff1a"]
WORDS = ["don't", "I'LL", "we've", " IMGIMGABZ", "<sentinel:12>", "12345678", "HTTPServer", "caf\u00e9\u00c9cole",
         "  \n \r\n", "    ", "...\n\n", "//\n/"]
TEXTS = st.lists(st.sampled_from(CHARACTERS + WORDS), max_size=25).map("".join)


@pytest.fixture(scope="module")
def trained():
    """A vocabulary that was trained across all limits, so that a piece that is split elsewhere gives other tokens."""
    lines = ["".join(a + b for b in CHARACTERS + WORDS) for a in CHARACTERS + WORDS]
    lines += [w * 6 for w in CHARACTERS] + ["The quick brown fox don't JUMP over 1234567 lazy dogs.\n\n  Ever!  " * 4] * 4
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    tok.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=2500, initial_alphabet=letters, show_progress=False))
    model = json.loads(tok.to_str())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return model["vocab"], merges


def oracle(trained, name):
    vocab, merges = trained
    tok = Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in merges], ignore_merges=name in FLAGGED))
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in PATTERNS[name]]
    tok.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tok


@pytest.mark.parametrize("name", PATTERNS)
def test_like_tokenizers(trained, tmp_path_factory, name):
    vocab, merges = trained
    tokens = sorted(vocab, key=vocab.get)
    ours = load(tmp_path_factory.mktemp(name), model="gpt2", pre=name, tokens=tokens, merges=merges, bos_token_id=0, eos_token_id=0)
    theirs = oracle(trained, name)

    @settings(max_examples=150, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(TEXTS)
    def same(text):
        ids = ours.tokenize(text, add_special=False)
        assert ids.tolist() == theirs.encode(text, add_special_tokens=False).ids
        assert ours.detokenize(ids).decode() == text or ours_cleans(name)

    same()


def ours_cleans(name):
    """Pre-tokenizers that come with cleaning up of blanks do not give texts back exactly."""
    return name in ("gpt-2", "dbrx", "falcon", "default", "bloom")


def test_long_pieces_use_the_queue(trained, tmp_path):
    vocab, merges = trained
    ours = load(tmp_path, model="gpt2", pre="gpt-2", tokens=sorted(vocab, key=vocab.get), merges=merges, bos_token_id=0, eos_token_id=0)
    theirs = oracle(trained, "gpt-2")
    for text in ("a" * 1000, "aAzZ" * 300, "stlder" * 100, "\u00e9\u0436" * 200, "=+" * 333, "0" * 257):
        assert ours.tokenize(text, False).tolist() == theirs.encode(text).ids
