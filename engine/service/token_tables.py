"""An open model's tables of tokens: where they are, their rows, and what the rows stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from engine.models.vocabulary import Vocabulary, vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.source import Words
    from engine.service.session import Session


NO_TABLE = "no table of tokens of this width is known by name"


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
        self._wrong: dict[str, str] = {}
        self._words: Words | None = None

    def of_stack(self, stack: str) -> Vocabulary:
        """Name the tables that a stack's heads meet tokens through."""
        if stack not in self._vocabularies:
            source = self._session.source
            found = vocabulary(self._session.outline, stack, source.tensors.entries, source.settings())
            self._vocabularies[stack] = found
        return self._vocabularies[stack]

    def sound(self, stack: str) -> Vocabulary:
        """Name the tables that can lead from tokens to tokens; without one that holds what is no number, none."""
        found = self.of_stack(stack)
        names = (found.source, found.unembedding)
        if found.source != found.queries or None in names:
            return found
        return Vocabulary(None, None, None) if any(self.wrong(name) for name in names if name is not None) else found

    def wrong(self, name: str) -> str:
        """Say why nothing can be computed with a table, or nothing where all is well; it is read for that, once."""
        if name not in self._wrong:
            from engine.models.heads import all_finite, not_finite

            table = self.read(name)
            if not table.is_floating_point():
                self._wrong[name] = f"{name} holds packed numbers"
            else:
                self._wrong[name] = "" if all_finite(table) else not_finite({name: table})
        return self._wrong[name]

    def lacking(self, stack: str) -> tuple[str, ...]:
        """Say of a stack's tables what has been found wrong with them so far."""
        found = self.of_stack(stack)
        names = dict.fromkeys(getattr(found, each.name) for each in fields(found))
        return tuple(said for name in names if name is not None and (said := self._wrong.get(name, "")))

    def why_none(self, name: str | None) -> str:
        """Say why there are no tokens of a table."""
        return (self._wrong.get(name, "") if name else "") or NO_TABLE

    def shape(self, name: str) -> tuple[int, ...]:
        """Give a table's shape without reading it."""
        return self._session.source.tensors.entries[name].shape

    def read(self, name: str) -> Tensor:
        """Read a whole table, rows for padding included."""
        return self._session.source.tensors.read(name)

    def tokens(self, name: str | None, d: int) -> TokenTable | None:
        """Read the rows of a table that are tokens, if it is as wide as what they are to meet and nothing is wrong.

        Raises
        ------
        EngineError : when there is no tokenizer to say which they are.
        """
        if name is None or self.shape(name)[1] != d or self.wrong(name):
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
