"""Every recorded text, piece and special id of the reference's vocabularies."""
import json
import os
from pathlib import Path

import pytest

from kipu._core import Vocab

ROOT = os.environ.get("KIPU_REFERENCE")
pytestmark = pytest.mark.skipif(not ROOT, reason="KIPU_REFERENCE does not name the folder of the reference data")
NAMES = sorted(p.stem for p in Path(ROOT or ".", "tokenize").glob("*.json"))


@pytest.fixture(scope="module", params=NAMES)
def pair(request):
    path = Path(ROOT, "vocab", f"ggml-vocab-{request.param}.gguf")
    if not path.exists():
        pytest.skip(f"{path.name} is not among the reference data")
    return Vocab.from_file(path), json.loads(Path(ROOT, "tokenize", request.param + ".json").read_text())


def test_special_ids_and_flags(pair):
    vocab, record = pair
    info = record["info"]
    assert (vocab.type, vocab.size) == (info["type"], info["n_tokens"])
    flags = vocab.flags()
    assert {k: flags[k] for k in ("add_bos", "add_eos", "add_sep")} == {k: info[k] for k in ("add_bos", "add_eos", "add_sep")}
    assert {k: vocab.special(k) for k in info["special"]} == info["special"]
    assert [t for t in range(vocab.size) if vocab.is_eog(t)] == info["eog"]
    assert [t for t in range(vocab.size) if vocab.is_control(t)][:300] == info["control"]


def test_texts(pair):
    vocab, record = pair
    if vocab.type not in (1, 2):
        with pytest.raises(NotImplementedError, match="not supported"):
            vocab.tokenize("a")
        return
    for text in record["texts"]:
        data = bytes.fromhex(text["hex"])
        for add in (0, 1):
            for parse in (0, 1):
                want = text.get(f"ids_add{add}_parse{parse}", text["ids"])
                assert vocab.tokenize(data, bool(add), bool(parse)).tolist() == want, (data, add, parse)


def test_detokenize(pair):
    vocab, record = pair
    for text in record["texts"]:
        assert vocab.detokenize(text["ids"], False, True).hex() == text["detok"]["remove0_unparse1"], text["hex"]
        assert vocab.detokenize(text["ids"], True, False).hex() == text["detok"]["remove1_unparse0"], text["hex"]


def test_pieces(pair):
    vocab, record = pair
    for row in record["pieces"]:
        token = row["id"]
        assert vocab.text(token).hex() == row["text"]
        assert vocab.attr(token) == row["attr"]
        assert vocab.score(token) == pytest.approx(row["score"], rel=1e-6)
        assert vocab.token_to_piece(token, 0, True).hex() == row["special"]
        assert vocab.token_to_piece(token, 0, False).hex() == row.get("plain", row["special"])
        assert vocab.token_to_piece(token, 1, True).hex() == row.get("lstrip1", row["special"])
