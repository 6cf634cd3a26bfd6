"""Turning text into ids for a model whose tokenizer may be of any make, or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.checkpoints.names import CACHED, cached_id
from engine.models.library_config import tokenizer_options
from engine.models.source import Frame, Words
from engine.models.tokens import VOCABULARY_FILE, Tokenizer
from engine.values.attention import Sentence
from engine.values.errors import EngineError
from engine.values.escapes import visible


class TokenNumbers:
    """Sentences written as token numbers, for a model that came without a tokenizer.

    Parameters
    ----------
    missing : says that there is none, where something else is typed.
    """

    limit: int | None = None
    mask: int | None = None
    special: frozenset[int] = frozenset()

    def __init__(self, missing: str = "this model came without a tokenizer") -> None:
        self._missing = missing

    def read(self, text: str, context: int | None) -> Sentence:
        """Read numbers between spaces or commas, in brackets or not.

        Raises
        ------
        EngineError : when there are none, or something else is among them.
        """
        parts = text.strip().strip("[]()").replace(",", " ").split()
        if not parts or not all(part.isascii() and part.isdigit() for part in parts):
            raise EngineError(f"{self._missing}; type token numbers, such as 5 17 3")
        ids = tuple(int(part) for part in parts)
        kept = ids[:context]
        return Sentence(text, kept, self.texts(kept), len(ids), limit=context)

    def refuse_beyond(self, ids: Sequence[int], count: int, name: str) -> None:
        """Refuse numbers of which a model has no token, before it fails on them.

        Raises
        ------
        EngineError : when there are any.
        """
        for each in ids:
            if each >= count:
                raise EngineError(f"{name} has no token {each}; type numbers from 0 to {count - 1}")

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Write each number."""
        return tuple(str(each) for each in ids)

    def known(self, rows: int) -> range:
        """List all ids: nothing says which are tokens."""
        return range(rows)

    def ordinary(self, rows: int) -> range:
        """List all ids: nothing says which are special."""
        return self.known(rows)

    def frame(self) -> Frame:
        """Put nothing around a sentence."""
        return (), ()


class Codec:
    """A tokenizer that knows no more than ``encode(text)`` and ``decode(ids)``."""

    limit: int | None = None
    mask: int | None = None
    special: frozenset[int] = frozenset()

    def __init__(self, codec: Any) -> None:
        self._codec = codec

    def read(self, text: str, context: int | None) -> Sentence:
        """Encode a sentence, shortened to the model's context where it must be.

        Raises
        ------
        EngineError : when nothing comes of it, or the codec refuses it.
        """
        if not text.strip():
            raise EngineError("the sentence is empty; type some words")
        try:
            encoded = self._codec.encode(text)
            ids = tuple(int(each) for each in getattr(encoded, "ids", encoded))
        except Exception as error:  # whatever a person's own code raises
            raise EngineError(f"the tokenizer does not read this sentence: {error!r}") from error
        if not ids:
            raise EngineError("the tokenizer makes no tokens of this sentence; type some words")
        kept = ids[:context]
        return Sentence(text, kept, self.texts(kept), len(ids), limit=context)

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Decode each id by itself."""
        return tuple(visible(str(self._codec.decode([each]))) for each in ids)

    def known(self, rows: int) -> range:
        """List all ids below the codec's own number of tokens, where it says one."""
        tokens = getattr(self._codec, "n_vocab", rows)
        return range(min(rows, tokens) if isinstance(tokens, int) else rows)

    def ordinary(self, rows: int) -> range:
        """List all ids: nothing says which are special."""
        return self.known(rows)

    def frame(self) -> Frame:
        """Put nothing around a sentence that the codec does not put there itself."""
        return (), ()


def words_of(tokenizer: Any) -> Words:
    """Take a tokenizer of transformers, anything with ``encode`` and ``decode``, or None.

    Raises
    ------
    EngineError : when it is none of these.
    """
    if tokenizer is None:
        return TokenNumbers()
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return Tokenizer(tokenizer)
    if callable(getattr(tokenizer, "encode", None)) and callable(getattr(tokenizer, "decode", None)):
        return Codec(tokenizer)
    raise EngineError(f"{type(tokenizer).__name__} is no tokenizer: it has no encode and decode")


def words_of_folder(directory: Path, trust_remote_code: bool = False) -> Words:
    """Load the tokenizer in a folder; where no file of one is there, sentences are token numbers.

    Raises
    ------
    EngineError : when there is one that does not open.
    """
    try:
        return Tokenizer.of_folder(directory, trust_remote_code, **tokenizer_options(directory, trust_remote_code))
    except EngineError:
        names = [each.name for each in directory.iterdir()]
        if "tokenizer_config.json" in names or any(map(VOCABULARY_FILE.fullmatch, names)):
            raise
    of_repository = directory.parent.parent.name
    if not of_repository.startswith(CACHED):
        return TokenNumbers()
    name = cached_id(of_repository)
    return TokenNumbers(
        f"{name} is in the local cache without a tokenizer; hf download {name} brings it if there is one"
    )
