"""An open model's tables of tokens: where they are, their rows, and what the rows stand for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import torch

from engine.analysis.open_model import OpenModel
from engine.architectures.tensors import TensorsReadOnce, View, all_finite, not_finite
from engine.architectures.vocabulary import Vocabulary, vocabulary
from engine.mathematics.tokens import Rows, projections
from engine.values.progress import Work

if TYPE_CHECKING:
    from torch import Tensor

    from engine.values.progress import ProgressReporter


NO_TABLE = "attn-tui knows no token table of this width by name"

ROWS_AT_ONCE = 2**12
"""Tokens whose embeddings are gone through in a unit."""

COLUMN_BLOCKS = 4
"""Into how many blocks the columns of a table are cut that is multiplied with itself."""


class TokenRows:
    """Rows of a table as stored, all or those at some places; of a large one they are read as they are gone through."""

    device = torch.device("cpu")

    def __init__(
        self, read: Callable[[View], Tensor], shape: Sequence[int], places: Sequence[int] | None = None
    ) -> None:
        self._read = read
        self._places = range(shape[0]) if places is None else places
        self.shape = (len(self._places), shape[1])

    def split(self, split_size: int) -> Iterator[Tensor]:
        """Go through the rows in order, so many at a time."""
        for start in range(0, len(self._places), split_size):
            some = self._places[start : start + split_size]
            first, last = min(some), max(some)
            rows = self._read(itemgetter(slice(first, last + 1)))
            yield rows if len(rows) == len(some) else rows[[place - first for place in some]]


@dataclass(frozen=True)
class TokenTable:
    """An embedding or unembedding: its rows (tokens, d), and the id that each of them is of."""

    rows: TokenRows
    ids: Sequence[int]

    def along(self, vectors: Tensor, telling: ProgressReporter, gain: Tensor | None = None) -> Work[Tensor]:
        """Project every row on directions (d, n), as `engine.mathematics.tokens.projections`, some rows a unit.

        The gain, (d,), is of a norm between the rows and the directions, if it is folded. The result is (n, tokens)
        float64.
        """
        parts, total = [torch.empty(vectors.shape[1], 0, dtype=torch.float64)], self.rows.shape[0]
        for done, rows in zip(itertools.count(0, ROWS_AT_ONCE), self.rows.split(ROWS_AT_ONCE), strict=False):
            telling(done, total)
            parts.append(projections(rows, vectors, gain))
            yield None
        return torch.cat(parts, 1)


def token_tables(model: OpenModel) -> TokenTables:
    """Give a model's tables of tokens."""
    return model.cached("token tables", lambda: TokenTables(model))


class TokenTables:
    """Reads tables of tokens; the model is not loaded, and the tokenizer only when tokens are to be named."""

    def __init__(self, model: OpenModel) -> None:
        self._model, self._tensors = model, model.source.tensors
        self._wrong: dict[str, str] = {}

    def of_stack(self, stack: str) -> Vocabulary:
        """Name the tables that a stack's heads meet tokens through."""
        source = self._model.source
        return self._model.cached(
            ("vocabulary", stack),
            lambda: vocabulary(source.anatomy.outline, stack, self._tensors.entries, source.settings()),
        )

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
            wrong = ""
            for part in self._tensors.parts(name):
                if not part.is_floating_point():
                    wrong = f"{name} holds packed numbers"
                elif not all_finite(part):
                    wrong = not_finite({name: self._tensors.parts(name)})
                if wrong:
                    break
            self._wrong[name] = wrong
        return self._wrong[name]

    def lacking(self, stack: str, what: str, where: str = "") -> tuple[str, ...]:
        """Say what rows are without, for what has been found wrong so far with a stack's tables."""
        names = dict.fromkeys(astuple(self.of_stack(stack)))
        return tuple(f"without {what}: {where}{said}" for name in names if (said := self._wrong.get(name, "")))

    def why_none(self, name: str | None) -> str:
        """Say why there are no tokens of a table."""
        return (self._wrong.get(name, "") if name else "") or NO_TABLE

    def shape(self, name: str) -> tuple[int, ...]:
        """Give a table's shape without reading it."""
        return self._tensors.entries[name].shape

    def rows(self, name: str, places: Sequence[int] | None = None) -> TokenRows:
        """Give some rows of a table, or all of them, rows for padding included."""
        return TokenRows(partial(TensorsReadOnce(self._tensors).read, name), self.shape(name), places)

    def tokens(self, name: str | None, d: int) -> TokenTable | None:
        """Give the rows of a table that are tokens, if it is as wide as what they are to meet and nothing is wrong.

        Raises
        ------
        EngineError : when there is no tokenizer to say which they are.
        """
        if name is None or self.shape(name)[1] != d or self.wrong(name):
            return None
        count = self.shape(name)[0]
        ids = self._model.words().known(count)
        return TokenTable(self.rows(name, None if len(ids) == count else ids), ids)


def token_map(source: Rows, target: Rows | None, telling: ProgressReporter) -> Work[Tensor]:
    """Multiply two tables of tokens, ``targetᵀ source``: (d_target, d_source) float64.

    Where there is no second table the first is multiplied with itself, at half the work.
    """
    d = source.shape[1]
    total = torch.zeros(d if target is None else target.shape[1], d, dtype=torch.float64)
    edges = [place * d // COLUMN_BLOCKS for place in range(COLUMN_BLOCKS + 1)]
    others = itertools.repeat(None) if target is None else target.split(ROWS_AT_ONCE)
    for done, (rows, other) in enumerate(zip(source.split(ROWS_AT_ONCE), others, strict=False)):
        telling(done * ROWS_AT_ONCE, source.shape[0])
        wide = rows.double()
        if other is not None:
            total += other.double().mT @ wide
        else:  # of c² products of blocks of columns c (c + 1) / 2 are done
            for start, stop in itertools.pairwise(edges):
                total[start:stop, start:] += wide[:, start:stop].mT @ wide[:, start:]
        yield None
    if target is None:
        for start, stop in itertools.pairwise(edges):  # in place: of a wide model the whole is gigabytes
            square = total[start:stop, start:stop]
            square.copy_(square.triu() + square.triu(1).mT)
            total[stop:, start:stop] = total[start:stop, stop:].mT
    return total


def mean_row(table: Rows) -> Tensor:
    """Average the rows of a table (tokens, d): (d,) float64."""
    total = torch.zeros(table.shape[1], dtype=torch.float64)
    for rows in table.split(ROWS_AT_ONCE):
        total += rows.double().sum(0)
    return total / table.shape[0]
