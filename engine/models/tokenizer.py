"""From typed text to the ids that a model reads, and from ids to token texts that any screen can show."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.checkpoints.library_imports import IMPORT_LOCK
from engine.checkpoints.transformers_library import first_line, silence_transformers
from engine.values.attention import Sentence, Spelling
from engine.values.display_text import visible
from engine.values.errors import EngineError

Frame = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids of the special tokens before and after a sentence."""

_PLAIN_BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
"""Bytes that byte-level tokenizers write as the character of the same number (Radford et al. 2019, GPT-2)."""

_BYTES = {chr(byte): byte for byte in _PLAIN_BYTES} | {
    chr(0x100 + place): byte for place, byte in enumerate(sorted(set(range(0x100)) - set(_PLAIN_BYTES)))
}
"""The byte for each character of such tokenizers; the other bytes are numbered on from 256."""

_PLACEHOLDER = re.compile(r"<.+>|\[.+\]")
"""Tokens that stand for no text, such as ``[unused7]`` and ``<extra_id_0>``, or for a byte, such as ``<0x0A>``."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
"""A byte of an unknown character, as SentencePiece writes it."""

VOCABULARY_FILE = re.compile(r"(tokenizer\.|tekken|vocab|merges|spiece|sentencepiece).*|.*\.(model|tiktoken)")
"""Names of vocabulary files, besides those that a tokenizer's class lists."""

_BROKEN = re.compile(r"\\x|<0x")
"""Marks, in token texts, of bytes that are only a part of a character."""

PASSED_ON = (EngineError, KeyboardInterrupt, SystemExit)
"""Exceptions raised within a tokenizer that are not its own."""

EMPTY = "the sentence is empty; type some words"
NO_TOKENS = "the tokenizer finds no tokens in this sentence; type some words"
"""Messages for a sentence without tokens."""


class Words(ABC):
    """Turns text into the ids that a model reads, and ids into texts that a screen can show.

    Attributes
    ----------
    limit : longest sentence, in tokens, that it is made for, or None.
    mask : id of the token that masked models fill in, or None.
    special : ids of tokens that stand for no text.
    """

    limit: int | None = None
    mask: int | None = None
    special: frozenset[int] = frozenset()

    @abstractmethod
    def read(self, text: str, context: int | None) -> Sentence:
        """Turn a sentence into ids, cut to a model's context.

        Raises `EngineError` when it has no tokens, or the tokenizer refuses it.
        """

    @abstractmethod
    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Give the text of each id."""

    def known(self, rows: int) -> Sequence[int]:
        """List the ids of tokens among the rows of an embedding, some of which may be padding."""
        return range(rows)

    def ordinary(self, rows: int) -> Sequence[int]:
        """List the `known` ids that stand for text, without special tokens and placeholders."""
        return self.known(rows)

    def frame(self) -> Frame:
        """Give the special tokens around a sentence."""
        return (), ()

    def _sentence(self, text: str, ids: tuple[int, ...], context: int | None) -> Sentence:
        kept = ids[:context]
        return Sentence(text, kept, self.texts(kept), len(ids), limit=context)


def _is_broken(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


class Tokenizer(Words):
    """A model's own tokenizer, with token texts as people write them (`` the``, not ``Ġthe`` or ``▁the``)."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        state = json.loads(backend.to_str()) if backend is not None else {}
        self._is_byte_level = "ByteLevel" in json.dumps(state.get("decoder"))
        length = int(tokenizer.model_max_length)
        self.limit = length if 0 < length < 1_000_000 else None  # without one, it states a far larger number
        mask = getattr(tokenizer, "mask_token_id", None)
        self.mask = mask if isinstance(mask, int) else None
        added = getattr(tokenizer, "added_tokens_decoder", {})
        self.special = frozenset(
            {*tokenizer.all_special_ids, *(each for each, token in added.items() if token.special)}
        )

    @classmethod
    def of_folder(cls, directory: Path, trust_remote_code: bool = False, **options: Any) -> Tokenizer:
        """Load the tokenizer in a folder; ``options`` go to ``from_pretrained``.

        Raises `EngineError` when there is none that opens.
        """
        silence_transformers()
        with IMPORT_LOCK:
            from transformers import AutoTokenizer
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                directory, local_files_only=True, trust_remote_code=trust_remote_code, **options
            )
            # Without a vocabulary transformers makes up an empty one; classes for bytes and code points list no files.
            own = getattr(tokenizer, "vocab_files_names", None) or {}
            names = {each.name for each in directory.iterdir()}
            has_file = any(name in own.values() or VOCABULARY_FILE.fullmatch(name) for name in names)
            if "gguf_file" not in options and own and not has_file:
                raise EngineError(
                    f"{directory} has no tokenizer, or an empty one; its spectra work, attention needs one"
                )
            found = cls(tokenizer)
            found.frame()  # tries what is needed later
            return found
        except PASSED_ON:
            raise
        except BaseException as error:  # Rust code panics where a search takes too long
            why = first_line(error)
            raise EngineError(
                f"{directory} has a tokenizer that does not open ({why}); its spectra work, attention needs one"
            ) from error

    def read(self, text: str, context: int | None) -> Sentence:
        """Tokenize a sentence, special tokens included."""
        if not text.strip():
            raise EngineError(EMPTY)
        marked = self._ids_and_marks(text)
        full_length = len(marked)
        limit = min((length for length in (context, self.limit) if length is not None), default=None)
        if limit is not None and full_length > limit:
            marked = self._ids_and_marks(text, truncation=True, max_length=limit)[:limit]
        if not marked:
            raise EngineError(NO_TOKENS)
        ids = tuple([each for each, _ in marked])
        texts = self.texts(ids)
        spellings = [
            Spelling("added" if is_added else "special" if each in self.special else "text")
            for each, is_added in marked
        ]
        if _BROKEN.search("".join(texts)):
            self._join_parts(ids, spellings)
        return Sentence(text, ids, texts, full_length, tuple(spellings), limit)

    def _ids_and_marks(self, text: str, **settings: Any) -> list[tuple[int, bool]]:
        """Tokenize without padding, which some tokenizers add; give each id, and whether it stands for no text."""
        try:
            encoded = self._tokenizer(text, return_special_tokens_mask=True, **settings)
        except PASSED_ON:
            raise
        except BaseException as error:  # as in `of_folder`
            why = first_line(error)
            raise EngineError(f"the tokenizer cannot read this sentence ({why}); type another one") from error
        ids: list[int] = list(encoded["input_ids"])
        kept = encoded.get("attention_mask") or [1] * len(ids)
        added = encoded.get("special_tokens_mask") or [0] * len(ids)
        return [(each, bool(mark)) for each, is_kept, mark in zip(ids, kept, added, strict=True) if is_kept]

    def _join_parts(self, ids: Sequence[int], spellings: list[Spelling]) -> None:
        """Give tokens that are parts of one character the text that they make together."""
        raw = [self._bytes(name) for name in self._tokenizer.convert_ids_to_tokens(list(ids))]
        begin = 0
        while begin < len(raw):
            end = begin + 1
            if _is_broken(raw[begin]):
                joined = raw[begin]
                while end < min(begin + 8, len(raw)) and _is_broken(joined) and raw[end]:
                    joined, end = joined + raw[end], end + 1
                if _is_broken(joined):
                    end = begin + 1
                else:
                    whole = visible(joined.decode("utf-8"))
                    for place in range(begin, end):
                        spellings[place] = spellings[place]._replace(whole=whole, part=place - begin + 1)
            begin = end

    def _bytes(self, token: str | None) -> bytes:
        """Give the bytes of a token that is spelled by bytes; empty for others."""
        if token is None:
            return b""
        if self._is_byte_level:  # added tokens are spelled as they are
            return bytes([_BYTES[each] for each in token]) if _BYTES.keys() >= {*token} else b""
        found = _BYTE_TOKEN.fullmatch(token)
        return bytes.fromhex(found[1]) if found else b""

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Give each token's text, without the tokenizer's spelling of spaces and bytes; ``#`` and the id for no token.

        What cannot be shown, and bytes that are no UTF-8 by themselves, are escaped.
        """
        texts = []
        for each, name in zip(ids, self._tokenizer.convert_ids_to_tokens(list(ids)), strict=True):
            text = f"#{each}" if name is None else name
            if name is not None and each not in self.special:
                if not self._is_byte_level:
                    text = name.replace("▁", " ")
                elif raw := self._bytes(name):
                    text = raw.decode(errors="backslashreplace")
            texts.append(visible(text))
        return tuple(texts)

    def known(self, rows: int) -> list[int]:
        """List the ids in the vocabulary, below a number of rows."""
        return sorted({each for each in self._tokenizer.get_vocab().values() if each < rows})

    def ordinary(self, rows: int) -> list[int]:
        """List the ids that stand for text: no special tokens, no placeholders in brackets."""
        return sorted(
            {
                each
                for name, each in self._tokenizer.get_vocab().items()
                if each < rows and each not in self.special and not _PLACEHOLDER.fullmatch(name)
            }
        )

    def frame(self) -> Frame:
        """Give the special tokens that the tokenizer puts before and after a sentence."""
        ids = [each for each, _ in self._ids_and_marks("a")]
        text = [place for place, each in enumerate(ids) if each not in self.special]
        return (tuple(ids[: text[0]]), tuple(ids[text[-1] + 1 :])) if text else ((), ())


class TokenNumbers(Words):
    """Sentences typed as token numbers, for a model without a tokenizer."""

    def read(self, text: str, context: int | None) -> Sentence:
        """Read numbers with spaces or commas between, in brackets or not."""
        parts = text.strip().strip("[]()").replace(",", " ").split()
        if not parts or not all(part.isascii() and part.isdigit() for part in parts):
            raise EngineError("this model came without a tokenizer; type token numbers, such as 5 17 3")
        return self._sentence(text, tuple(map(int, parts)), context)

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Write each number."""
        return tuple(map(str, ids))


class Codec(Words):
    """A tokenizer with ``encode(text)`` and ``decode(ids)`` alone."""

    def __init__(self, codec: Any) -> None:
        self._codec = codec

    def read(self, text: str, context: int | None) -> Sentence:
        """Encode a sentence."""
        if not text.strip():
            raise EngineError(EMPTY)
        try:
            encoded = self._codec.encode(text)
            ids = tuple(int(each) for each in getattr(encoded, "ids", encoded))
        except Exception as error:  # whatever a person's own code raises
            raise EngineError(f"the tokenizer does not read this sentence: {error!r}") from error
        if not ids:
            raise EngineError(NO_TOKENS)
        return self._sentence(text, ids, context)

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Decode each id by itself."""
        return tuple(visible(str(self._codec.decode([each]))) for each in ids)

    def known(self, rows: int) -> range:
        """List all ids below the codec's own number of tokens, if it has one."""
        tokens = getattr(self._codec, "n_vocab", rows)
        return range(min(rows, tokens) if isinstance(tokens, int) else rows)


def words_from(tokenizer: Any) -> Words:
    """Wrap a tokenizer of transformers, anything with ``encode`` and ``decode``, or None; `EngineError` for others."""
    if tokenizer is None:
        return TokenNumbers()
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return Tokenizer(tokenizer)
    if callable(getattr(tokenizer, "encode", None)) and callable(getattr(tokenizer, "decode", None)):
        return Codec(tokenizer)
    raise EngineError(f"{type(tokenizer).__name__} is not a tokenizer: it has no encode and decode; give one with both")


def words_of_folder(directory: Path, trust_remote_code: bool = False) -> Words:
    """Load the tokenizer in a folder, or read token numbers where it has no file of one.

    Raises `EngineError` when a tokenizer does not open.
    """
    try:
        return Tokenizer.of_folder(directory, trust_remote_code)
    except EngineError:
        names = [each.name for each in directory.iterdir()]
        if "tokenizer_config.json" in names or any(map(VOCABULARY_FILE.fullmatch, names)):
            raise
    return TokenNumbers()
