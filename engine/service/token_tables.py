"""An open model's tables of tokens: where they are, their rows, and what the rows stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

import torch

from engine.architectures.vocabulary import Vocabulary, vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from engine.architectures.tensors import Cut
    from engine.models.telling import Telling
    from engine.models.tokenizer import Words
    from engine.service.session import Breathe, Session


NO_TABLE = "no table of tokens of this width is known by name"


class TokenRows:
    """Rows of a table as stored, of a large one read as they are gone through.

    Parameters
    ----------
    cut : cuts parts out of the table.
    shape : of the table.
    places : which of its rows; all unless given.
    """

    device = torch.device("cpu")

    def __init__(self, cut: Cut, shape: Sequence[int], places: Sequence[int] | None = None) -> None:
        self._cut = cut
        self._places = range(shape[0]) if places is None else places
        self.shape = (len(self._places), shape[1])

    def split(self, split_size: int) -> Iterator[Tensor]:
        """Go through the rows in order, so many at a time."""
        for start in range(0, len(self._places), split_size):
            some = self._places[start : start + split_size]
            first, last = min(some), max(some)
            rows = self._cut(partial(_rows_between, first, last))
            yield rows if len(rows) == len(some) else rows[[place - first for place in some]]


def _rows_between(first: int, last: int, table: Tensor) -> Tensor:
    """Cut the rows from the first to the last out of a table."""
    return table[first : last + 1]


class WatchedRows:
    """Rows of which it is told how many have been gone through; between their blocks the work may be given up.

    Parameters
    ----------
    rows : of a table.
    breathe : called before each block.
    telling : told how many rows are done, of all.
    """

    def __init__(self, rows: TokenRows, breathe: Breathe, telling: Telling) -> None:
        self._rows, self._breathe, self._telling = rows, breathe, telling
        self.shape, self.device = rows.shape, rows.device

    def split(self, split_size: int) -> Iterator[Tensor]:
        """Go through the rows in order, so many at a time."""
        done = 0
        for block in self._rows.split(split_size):
            self._breathe()
            self._telling(done, self.shape[0])
            yield block
            done += len(block)


@dataclass(frozen=True)
class TokenTable:
    """An embedding or unembedding: its rows (tokens, d), and the id that each of them is of."""

    rows: TokenRows
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
            from engine.architectures.finite_numbers import all_finite, not_finite

            tensors = self._session.source.tensors
            self._wrong[name] = ""
            for part in tensors.parts(name):
                if not part.is_floating_point():
                    self._wrong[name] = f"{name} holds packed numbers"
                elif not all_finite(part):
                    self._wrong[name] = not_finite({name: tensors.parts(name)})
                if self._wrong[name]:
                    break
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

    def rows(self, name: str, places: Sequence[int] | None = None) -> TokenRows:
        """Give some rows of a table, or all of them, rows for padding included."""
        return TokenRows(self._session.source.tensors.cutting(name), self.shape(name), places)

    def tokens(self, name: str | None, d: int) -> TokenTable | None:
        """Give the rows of a table that are tokens, if it is as wide as what they are to meet and nothing is wrong.

        Raises
        ------
        EngineError : when there is no tokenizer to say which they are.
        """
        if name is None or self.shape(name)[1] != d or self.wrong(name):
            return None
        count = self.shape(name)[0]
        ids = self._opened().known(count)
        return TokenTable(self.rows(name, None if len(ids) == count else ids), ids)

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Give the text of each id."""
        return self._opened().texts(ids)

    def _opened(self) -> Words:
        """Open the tokenizer, once."""
        if self._words is None:
            from engine.models.loading import words_of

            self._words = words_of(self._session.source)
        return self._words
