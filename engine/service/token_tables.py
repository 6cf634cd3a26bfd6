"""An open model's tables of tokens: where they are, their rows, and what the rows stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.models.vocabulary import Vocabulary, vocabulary
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.source import Words
    from engine.service.session import Session


@dataclass(frozen=True)
class TokenTable:
    """An embedding or unembedding: (tokens, d) as stored, and the id that each row is of."""

    rows: Tensor
    ids: Sequence[int]


class TokenTables:
    """Reads tables of tokens; the model is not loaded, and the tokenizer only when tokens are to be named."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._vocabularies: dict[str, Vocabulary] = {}
        self._sound: set[str] = set()
        self._words: Words | None = None

    def of_stack(self, stack: str) -> Vocabulary:
        """Name the tables that a stack's heads meet tokens through."""
        if stack not in self._vocabularies:
            source = self._session.source
            found = vocabulary(self._session.outline, stack, source.tensors.entries, source.settings())
            self._vocabularies[stack] = found
        return self._vocabularies[stack]

    def shape(self, name: str) -> tuple[int, ...]:
        """Give a table's shape without reading it."""
        return self._session.source.tensors.entries[name].shape

    def read(self, name: str) -> Tensor:
        """Read a whole table, rows for padding included.

        Raises
        ------
        EngineError : when it holds something that cannot be computed with.
        """
        from engine.models.heads import all_finite

        table = self._session.source.tensors.read(name)
        if name not in self._sound:
            if not table.is_floating_point() or not all_finite(table):
                raise EngineError(f"{name} holds NaN, infinite or packed numbers; tokens cannot be compared with heads")
            self._sound.add(name)
        return table

    def tokens(self, name: str | None, d: int) -> TokenTable | None:
        """Read the rows of a table that are tokens, if it is as wide as what they are to meet.

        Raises
        ------
        EngineError : when there is no tokenizer to say which they are.
        """
        if name is None or self.shape(name)[1] != d:
            return None
        table = self.read(name)
        ids = self._opened().known(len(table))
        return TokenTable(table if len(ids) == len(table) else table[list(ids)], ids)

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Give the text of each id."""
        return self._opened().texts(ids)

    def _opened(self) -> Words:
        """Open the tokenizer, once."""
        if self._words is None:
            self._words = self._session.source.words()
        return self._words
