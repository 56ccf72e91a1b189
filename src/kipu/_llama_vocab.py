"""llama.h, vocabularies: tokens, special tokens, tokenizing. Getters take a vocabulary, or a model in the older functions' place of one."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._buffers import capacity, int32_array, text_bytes, writable_bytes
from ._core import Vocab
from ._handles import model_of

if TYPE_CHECKING:
    from ._typing import Buffer, ModelLike, Numbers, VocabLike

_MIN = -(2**31)


def _vocab(vocab):
    if isinstance(vocab, Vocab):
        return vocab
    if hasattr(vocab, "vocab") or hasattr(vocab, "handle"):
        return model_of(vocab).vocab
    raise TypeError(f"vocab must be a vocabulary, got {type(vocab).__name__}")


def llama_model_get_vocab(model: ModelLike) -> Vocab:
    """The vocabulary of a model; it stays usable when the model was freed."""
    return model_of(model).vocab


def llama_vocab_type(vocab: VocabLike) -> int:
    """LLAMA_VOCAB_TYPE_*."""
    return _vocab(vocab).type


def llama_vocab_n_tokens(vocab: VocabLike) -> int:
    """int: tokens of the vocabulary."""
    return _vocab(vocab).size


def llama_vocab_get_text(vocab: VocabLike, token: int) -> bytes:
    """bytes of the token as the file has it. ValueError: no such token."""
    text = _vocab(vocab).text(_in_range(vocab, token))
    return b"" if text is None else text


def llama_vocab_get_score(vocab: VocabLike, token: int) -> float:
    """float: score of a token (log probability in SPM vocabularies)."""
    return _vocab(vocab).score(_in_range(vocab, token))


def llama_vocab_get_attr(vocab: VocabLike, token: int) -> int:
    """Sum of LLAMA_TOKEN_ATTR_* bits."""
    return _vocab(vocab).attr(_in_range(vocab, token))


def _in_range(vocab, token):
    size = _vocab(vocab).size
    if not 0 <= token < size:
        raise ValueError(f"token must be in 0..{size - 1}, got {token}")
    return token


def llama_vocab_is_eog(vocab: VocabLike, token: int) -> bool:
    """Whether the token ends a generation; False out of range."""
    return _vocab(vocab).is_eog(token)


def llama_vocab_is_control(vocab: VocabLike, token: int) -> bool:
    """Whether the token is a control token; False out of range."""
    return _vocab(vocab).is_control(token)


def llama_vocab_get_add_bos(vocab: VocabLike) -> bool:
    """bool: whether add_special puts the bos token in front."""
    return _vocab(vocab).flags()["add_bos"]


def llama_vocab_get_add_eos(vocab: VocabLike) -> bool:
    """bool: whether add_special puts the eos token behind."""
    return _vocab(vocab).flags()["add_eos"]


def llama_vocab_get_add_sep(vocab: VocabLike) -> bool:
    """bool: whether add_special puts the sep token behind."""
    return _vocab(vocab).flags()["add_sep"]


def llama_vocab_bos(vocab: VocabLike) -> int:
    """Id of the token that begins a text, -1: none."""
    return _vocab(vocab).special("bos")


def llama_vocab_eos(vocab: VocabLike) -> int:
    """Id of the token that ends a text, -1: none."""
    return _vocab(vocab).special("eos")


def llama_vocab_eot(vocab: VocabLike) -> int:
    """Id of the token that ends a turn, -1: none."""
    return _vocab(vocab).special("eot")


def llama_vocab_sep(vocab: VocabLike) -> int:
    """Id of the separator of sentences, -1: none."""
    return _vocab(vocab).special("sep")


def llama_vocab_nl(vocab: VocabLike) -> int:
    """Id of the line end, -1: none."""
    return _vocab(vocab).special("nl")


def llama_vocab_pad(vocab: VocabLike) -> int:
    """Id of the padding token, -1: none."""
    return _vocab(vocab).special("pad")


def llama_vocab_mask(vocab: VocabLike) -> int:
    """Id of the mask token, -1: none."""
    return _vocab(vocab).special("mask")


def llama_vocab_fim_pre(vocab: VocabLike) -> int:
    """Id of the token before a prefix to fill in after, -1: none."""
    return _vocab(vocab).special("fim_pre")


def llama_vocab_fim_suf(vocab: VocabLike) -> int:
    """Id of the token before a suffix to fill in before, -1: none."""
    return _vocab(vocab).special("fim_suf")


def llama_vocab_fim_mid(vocab: VocabLike) -> int:
    """Id of the token before the text to fill in, -1: none."""
    return _vocab(vocab).special("fim_mid")


def llama_vocab_fim_pad(vocab: VocabLike) -> int:
    """int: padding token of fill-in-the-middle, -1 without one."""
    return _vocab(vocab).special("fim_pad")


def llama_vocab_fim_rep(vocab: VocabLike) -> int:
    """int: repository token of fill-in-the-middle, -1 without one."""
    return _vocab(vocab).special("fim_rep")


def llama_vocab_fim_sep(vocab: VocabLike) -> int:
    """int: file separator token of fill-in-the-middle, -1 without one."""
    return _vocab(vocab).special("fim_sep")


# ------------------------------------------------------------------------------------------------ text and tokens

def _text_part(text, text_len):
    data = text_bytes(text, "text")
    return data[: capacity(text_len, len(data), "text_len")]


def llama_tokenize(vocab: VocabLike, text: bytes | str, text_len: int | None = None, tokens: Buffer | None = None,
                   n_tokens_max: int | None = None, add_special: bool = True, parse_special: bool = False) -> int:
    """Writes the tokens of a text and returns their number, or minus the number if there is no room (nothing is written then).

    Parameters
    ----------
    text : bytes or str (as UTF-8); text_len bytes of it, all if None.
    tokens : writable int32 buffer, or None to ask for the number.
    n_tokens_max : capacity in tokens, that of the buffer if None.
    add_special, parse_special : add BOS and EOS where the vocabulary wants them; recognise the texts of control tokens.

    Raises
    ------
    RuntimeError
        The model has no vocabulary.
    """
    ids = _vocab(vocab).tokenize(_text_part(text, text_len), bool(add_special), bool(parse_special))
    if len(ids) >= 2**31:
        return _MIN
    out = np.empty(0, np.int32) if tokens is None else writable_bytes(tokens, "tokens")
    if len(out) % 4:
        raise ValueError(f"tokens must be a buffer of int32, got {len(out)} bytes")
    n_max = capacity(n_tokens_max, len(out) // 4, "n_tokens_max")
    if len(ids) > n_max:
        return -len(ids)
    out[: 4 * len(ids)].view(np.int32)[:] = ids
    return len(ids)


def _put_bytes(data, buf, size, name):
    """Writes data and returns its length, or minus the length if there is no room (nothing is written then)."""
    out = np.empty(0, np.uint8) if buf is None else writable_bytes(buf, name)
    if len(data) > capacity(size, len(out), "length"):
        return -len(data)
    out[: len(data)] = np.frombuffer(data, np.uint8)
    return len(data)


def llama_token_to_piece(vocab: VocabLike, token: int, buf: Buffer | None = None, length: int | None = None, lstrip: int = 0,
                         special: bool = False) -> int:
    """Writes the bytes of a token and returns their number, or minus the number if there is no room.

    Parameters
    ----------
    lstrip : leading blanks to drop at most.
    special : whether control tokens have a text.

    Raises
    ------
    ValueError
        No such token.
    """
    return _put_bytes(_vocab(vocab).token_to_piece(token, lstrip, bool(special)), buf, length, "buf")


def llama_detokenize(vocab: VocabLike, tokens: Numbers, n_tokens: int | None = None, text: Buffer | None = None,
                     text_len_max: int | None = None, remove_special: bool = False, unparse_special: bool = False) -> int:
    """Writes the text of tokens and returns its number of bytes, or minus the number if there is no room.

    Parameters
    ----------
    tokens : int32 buffer or sequence; n_tokens of it, all if None.
    text : writable buffer, or None to ask for the number.
    remove_special : drop a leading BOS and a trailing EOS that tokenizing would add.
    unparse_special : whether control tokens have a text.
    """
    ids = int32_array(tokens, "tokens").reshape(-1)
    ids = ids[: capacity(n_tokens, len(ids), "n_tokens")]
    return _put_bytes(_vocab(vocab).detokenize(ids, bool(remove_special), bool(unparse_special)), text, text_len_max, "text")


# ------------------------------------------------------------------------------------------------ older names

llama_vocab_cls = llama_vocab_bos
llama_n_vocab = llama_vocab_n_tokens
llama_token_get_text = llama_vocab_get_text
llama_token_get_score = llama_vocab_get_score
llama_token_get_attr = llama_vocab_get_attr
llama_token_is_eog = llama_vocab_is_eog
llama_token_is_control = llama_vocab_is_control
llama_token_bos = llama_vocab_bos
llama_token_eos = llama_vocab_eos
llama_token_eot = llama_vocab_eot
llama_token_cls = llama_vocab_bos
llama_token_sep = llama_vocab_sep
llama_token_nl = llama_vocab_nl
llama_token_pad = llama_vocab_pad
llama_token_fim_pre = llama_vocab_fim_pre
llama_token_fim_suf = llama_vocab_fim_suf
llama_token_fim_mid = llama_vocab_fim_mid
llama_token_fim_pad = llama_vocab_fim_pad
llama_token_fim_rep = llama_vocab_fim_rep
llama_token_fim_sep = llama_vocab_fim_sep
llama_add_bos_token = llama_vocab_get_add_bos
llama_add_eos_token = llama_vocab_get_add_eos
