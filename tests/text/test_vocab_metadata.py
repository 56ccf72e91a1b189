"""Loading: defaults, overrides, tokens found by their text, and metadata that are wrong."""
import pytest
from gguf import GGUFValueType as T
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_vocab import BYTE, BYTES, CONTROL, LETTERS, NORMAL, USER, bpe_fields, load, spm_fields


def test_defaults_of_spm(tmp_path):
    vocab = load(tmp_path, **spm_fields([("a", -1)]))
    assert [vocab.special(k) for k in ("bos", "eos", "unk", "sep", "pad", "mask", "nl")] == [1, 2, 0, -1, -1, -1, 3 + 10]
    assert vocab.flags() == dict(add_bos=True, add_eos=False, add_sep=False, add_space_prefix=True)
    assert vocab.is_eog(2) and not vocab.is_eog(1) and vocab.is_control(1) and not vocab.is_control(0)
    assert (vocab.text(3), vocab.attr(3), vocab.score(259)) == (b"<0x00>", 32, -1)
    assert (vocab.text(-1), vocab.attr(-1), vocab.score(10**6), vocab.is_eog(-5)) == (None, 0, 0, False)


def test_overrides(tmp_path):
    ids = dict(bos_token_id=5, eos_token_id=6, eot_token_id=7, eom_token_id=8, unknown_token_id=9, seperator_token_id=10,
               padding_token_id=11, mask_token_id=12, fim_pre_token_id=13, fim_suf_token_id=14, fim_mid_token_id=15, fim_pad_token_id=16,
               fim_rep_token_id=17, fim_sep_token_id=18)
    flags = dict(add_bos_token=False, add_eos_token=True, add_sep_token=True, add_space_prefix=False)
    vocab = load(tmp_path, **spm_fields([("a", -1)]), **ids, **flags)
    names = "bos eos eot eom unk sep pad mask fim_pre fim_suf fim_mid fim_pad fim_rep fim_sep".split()
    assert [vocab.special(n) for n in names] == list(range(5, 19))
    assert [t for t in range(vocab.size) if vocab.is_eog(t)] == [6, 7, 8, 16, 17, 18]
    assert vocab.flags() == dict(add_bos=False, add_eos=True, add_sep=True, add_space_prefix=False)
    assert vocab.tokenize("a", True).tolist() == [259, 6]


def test_old_names_of_fim(tmp_path):
    vocab = load(tmp_path, **spm_fields([]), prefix_token_id=20, suffix_token_id=21, middle_token_id=22)
    assert [vocab.special(k) for k in ("fim_pre", "fim_suf", "fim_mid")] == [20, 21, 22]


def test_ids_out_of_range_are_ignored_with_a_warning(tmp_path):
    warnings = []
    vocab = load(tmp_path, warnings, **spm_fields([]), bos_token_id=10**6, eos_token_id=(T.INT32, -7))
    assert (vocab.special("bos"), vocab.special("eos")) == (1, 2)
    assert len(warnings) == 2 and "tokenizer.ggml.bos_token_id is 1000000" in warnings[0] and "is -7" in warnings[1]


def test_defaults_beyond_the_vocabulary_are_none(tmp_path):
    vocab = load(tmp_path, model="llama", tokens=["a"], scores=[0.0], token_type=[NORMAL])
    assert [vocab.special(k) for k in ("bos", "eos", "unk")] == [-1, -1, 0]


def test_tokens_known_by_text(tmp_path):
    warnings = []
    texts = ["<|endoftext|>", "<|im_end|>", "<|eom_id|>", "<fim_prefix>", "<SUF>", "<fim-middle>", "<PAD>", "<reponame>", "<|file_sep|>",
             "<|end_of_text|>"]
    vocab = load(tmp_path, warnings, **bpe_fields([(t, USER) for t in texts], bos_token_id=0, eos_token_id=0))
    found = [vocab.special(k) - 256 for k in ("eot", "eom", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")]
    assert found == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [t - 256 for t in range(256, vocab.size) if vocab.is_eog(t)] == [0, 1, 2, 6, 7, 8, 9]
    assert all(vocab.is_control(256 + i) for i in range(len(texts)))
    assert sum("looks like a control token" in w for w in warnings) == len(texts)


def test_empty_texts(tmp_path):
    warnings = []
    fields = bpe_fields([("", NORMAL), ("x", USER)][:1])
    vocab = load(tmp_path, warnings, **fields, bos_token_id=0, eos_token_id=0)
    assert vocab.text(256) == b"[EMPTY_256]" and any("1 texts are empty" in w for w in warnings)


def test_no_vocabulary(tmp_path):
    warnings = []
    vocab = load(tmp_path, warnings, model="none", llama__vocab_size=320)
    assert (vocab.type, vocab.size, vocab.special("bos"), vocab.attr(5), vocab.text(5), vocab.text(320)) == (0, 320, -1, 0, b"", None)
    assert len(warnings) == 1
    with pytest.raises(RuntimeError, match="no vocabulary"):
        vocab.tokenize("a")
    assert vocab.token_to_piece(5) == b"" and vocab.detokenize([1, 2, 3]) == b""
    assert load(tmp_path, model="no_vocab").size == 0


@pytest.mark.parametrize("model,type_", [("bert", 3), ("t5", 4), ("rwkv", 5)])
def test_tables_without_tokenizer(tmp_path, model, type_):
    vocab = load(tmp_path, model=model, tokens=["a", "\u2581b", "\\n", "\\x41\\\\"], token_type=[NORMAL] * 4)
    assert (vocab.type, vocab.size) == (type_, 4)
    with pytest.raises(NotImplementedError, match="not supported"):
        vocab.tokenize("a")
    pieces = [vocab.token_to_piece(i) for i in range(4)]
    assert pieces == ([b"a", "\u2581b".encode(), b"\n", b"A\\"] if model == "rwkv" else [b"a", b" b", b"\\n", b"\\x41\\\\"])


def test_missing_pre_tokenizer_warns(tmp_path):
    warnings = []
    fields = bpe_fields(bos_token_id=0, eos_token_id=0)
    del fields["pre"]
    load(tmp_path, warnings, **fields)
    assert "tokenizer.ggml.pre is missing" in warnings[0]


GOOD = bpe_fields([("<x>", CONTROL)])
BROKEN = {
    "no model": ({**GOOD, "model": 5}, "tokenizer.ggml.model is missing"),
    "unknown model": ({**GOOD, "model": "gpt9"}, "'gpt9', expected llama"),
    "unknown pre": ({**GOOD, "pre": "gpt-99"}, "'gpt-99', which is no known"),
    "no tokens": ({k: v for k, v in GOOD.items() if k != "tokens"}, "tokenizer.ggml.tokens is missing"),
    "tokens are numbers": ({**GOOD, "tokens": [1, 2]}, "tokenizer.ggml.tokens is missing"),
    "no merges": ({k: v for k, v in GOOD.items() if k != "merges"}, "tokenizer.ggml.merges is missing"),
    "merges are numbers": ({**GOOD, "merges": [1, 2]}, "tokenizer.ggml.merges is missing"),
    "too few scores": ({**GOOD, "scores": [0.5] * 256}, "tokenizer.ggml.scores has 256 values"),
    "too many types": ({**GOOD, "token_type": [1] * 258}, "tokenizer.ggml.token_type has 258 values"),
    "duplicate": ({**GOOD, "tokens": LETTERS + ["A"]}, "tokens 65 and 256 are both 'A'"),
    "negative size": (dict(model="none", llama__vocab_size=(T.INT32, -1)), "llama.vocab_size is -1"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken(tmp_path, case):
    fields, message = BROKEN[case]
    with pytest.raises(ValueError, match=message):
        load(tmp_path, **fields)


def test_empty_but_consistent(tmp_path):
    """No merges that apply, byte letters missing: bytes without a token vanish, as in the reference."""
    vocab = load(tmp_path, model="gpt2", pre="gpt-2", tokens=["a", "b"], merges=["a b", "x", " ", "", "a a", "\u0120 \u0120"])
    assert vocab.tokenize("a b\u00e9b", False).tolist() == [0, 1, 1]
    assert vocab.special("nl") == -1
    assert vocab.tokenize("ab", False).tolist() == [0, 1]   # "ab" merges to what is no token, and is spelled


def test_spm_without_byte_tokens(tmp_path):
    vocab = load(tmp_path, model="llama", tokens=["<unk>", "<s>", "</s>", "\u2581", "a"], scores=[0.0] * 5, token_type=[2, 3, 3, 1, 1])
    assert vocab.tokenize("a").tolist() == [1, 3, 4]
    with pytest.raises(ValueError, match="no token for byte 0x62"):
        vocab.tokenize("ab")


ODD_TEXTS = ["<0x0A>", "<0x", "<0xZZ>", "\u2581", "[EMPTY_1]", "<|eot_id|>"]
TOKEN_TEXTS = st.lists(st.one_of(st.text(max_size=6), st.sampled_from(ODD_TEXTS)), max_size=20)


@settings(max_examples=80, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["llama", "gpt2", "bert", "t5", "rwkv"]), TOKEN_TEXTS, st.lists(st.integers(-2**31, 2**31 - 1), max_size=20),
       st.lists(st.floats(width=32), max_size=20), st.lists(st.text(max_size=4), max_size=8), st.binary(max_size=20))
def test_any_metadata(tmp_path, model, tokens, types, scores, merges, text):
    """Whatever the file says: an exception or a vocabulary all of whose functions work."""
    fields = dict(model=model, pre="default", tokens=tokens or None, token_type=types or None, scores=scores or None, merges=merges or None)
    try:
        vocab = load(tmp_path, **{k: v for k, v in fields.items() if v is not None})
    except ValueError:
        return
    try:
        ids = vocab.tokenize(text, True, True)
        assert ((0 <= ids) & (ids < vocab.size)).all()
        vocab.detokenize(ids, True, True)
    except (ValueError, NotImplementedError):
        pass
    for token in range(vocab.size):
        piece = vocab.token_to_piece(token, 1, True)
        assert vocab.detokenize([token], False, True) is not None and isinstance(piece, bytes)


@pytest.mark.parametrize("bad", [-1, 257, 2**31 - 1])
def test_token_out_of_range(tmp_path, bad):
    vocab = load(tmp_path, **GOOD)
    with pytest.raises(ValueError, match=f"token is {bad}, expected 0 to 256"):
        vocab.token_to_piece(bad)
    with pytest.raises(ValueError, match=f"token is {bad}"):
        vocab.detokenize([0, bad])


def test_byte_tokens_of_an_odd_form(tmp_path):
    vocab = load(tmp_path, model="llama", tokens=["<0x41>", "<0xZZ>", "<0x"] + BYTES[3:5], scores=[0.0] * 5, token_type=[BYTE] * 5)
    assert [vocab.token_to_piece(i) for i in range(5)] == [b"A", b"<0xZZ>", b"<0x", b"\x03", b"\x04"]
