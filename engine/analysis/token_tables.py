"""Token tables of an open model: embedding and unembedding, read a few rows at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import torch

from engine.analysis.open_model import OpenModel
from engine.architectures.tensors import TensorsReadOnce, View, all_finite, describe_not_finite
from engine.architectures.vocabulary import Vocabulary, vocabulary
from engine.mathematics.tokens import Rows, projections
from engine.values.progress import Work

if TYPE_CHECKING:
    from torch import Tensor

    from engine.values.progress import ProgressReporter


ROWS_AT_ONCE = 2**12
"""Tokens in a unit of work."""

COLUMN_BLOCKS = 4
"""Blocks of columns in the product of a table with itself."""


class TokenRows:
    """All rows of a table, or some, as stored; those of a large table are read while they are iterated."""

    def __init__(
        self, read: Callable[[View], Tensor], shape: Sequence[int], places: Sequence[int] | None = None
    ) -> None:
        self._read = read
        self._places = range(shape[0]) if places is None else places
        self.shape = (len(self._places), shape[1])

    def split(self, split_size: int) -> Iterator[Tensor]:
        """Yield the rows in order, so many at a time."""
        for start in range(0, len(self._places), split_size):
            some = self._places[start : start + split_size]
            first, last = min(some), max(some)
            rows = self._read(itemgetter(slice(first, last + 1)))
            yield rows if len(rows) == len(some) else rows[[place - first for place in some]]


@dataclass(frozen=True)
class TokenTable:
    """An embedding or unembedding: its rows (tokens, d), and the token id of each."""

    rows: TokenRows
    ids: Sequence[int]

    def project(self, model: OpenModel, vectors: Tensor, gain: Tensor | None = None) -> Work[Tensor]:
        """Project every row on directions (d, n) with `engine.mathematics.tokens.projections`: (n, tokens) float64.

        The gain, (d,), is that of a norm between the rows and the directions, if it is folded.
        """
        parts, total = [torch.empty(vectors.shape[1], 0, dtype=torch.float64)], self.rows.shape[0]
        with model.reporter("projecting tokens", "tokens") as report:
            for done, rows in zip(itertools.count(0, ROWS_AT_ONCE), self.rows.split(ROWS_AT_ONCE), strict=False):
                report(done, total)
                parts.append(projections(rows, vectors, gain))
                yield None
        return torch.cat(parts, 1)


def token_tables(model: OpenModel) -> TokenTables:
    """Return a model's token tables."""
    return model.cached("token tables", lambda: TokenTables(model))


class TokenTables:
    """Reads token tables, without loading the model; the tokenizer is loaded to name tokens."""

    def __init__(self, model: OpenModel) -> None:
        self._model, self._tensors = model, model.source.tensors
        self._faults: dict[str, str] = {}

    def of_stack(self, stack: str) -> Vocabulary:
        """Name the token tables that a stack's heads read from and write to."""
        source = self._model.source
        return self._model.cached(
            ("vocabulary", stack),
            lambda: vocabulary(source.anatomy.outline, stack, self._tensors.entries, source.setting),
        )

    def sound(self, stack: str) -> Vocabulary:
        """Name the tables that lead from tokens to tokens, or none of them if one has a fault."""
        found = self.of_stack(stack)
        names = (found.source, found.unembedding)
        if found.source != found.queries or None in names:
            return found
        return Vocabulary(None, None, None) if any(self.fault(name) for name in names if name is not None) else found

    def fault(self, name: str) -> str:
        """Say why a table cannot be used, empty if it can; this reads the table once."""
        if name not in self._faults:
            fault = ""
            for part in self._tensors.parts(name):
                if not part.is_floating_point():
                    fault = f"{name} holds packed numbers"
                elif not all_finite(part):
                    fault = describe_not_finite({name: self._tensors.parts(name)})
                if fault:
                    break
            self._faults[name] = fault
        return self._faults[name]

    def lacking(self, stack: str, what: str, where: str = "") -> tuple[str, ...]:
        """Say what rows lack because of the faults found so far in a stack's tables."""
        names = dict.fromkeys(astuple(self.of_stack(stack)))
        return tuple(f"without {what}: {where}{fault}" for name in names if (fault := self._faults.get(name, "")))

    def why_none(self, name: str | None) -> str:
        """Say why a table has no tokens."""
        return (self._faults.get(name, "") if name else "") or "attn-tui knows no token table of this width by name"

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a table's shape without reading it."""
        return self._tensors.entries[name].shape

    def rows(self, name: str, places: Sequence[int] | None = None) -> TokenRows:
        """Return some rows of a table, or all of them, padding included."""
        return TokenRows(partial(TensorsReadOnce(self._tensors).read, name), self.shape(name), places)

    def tokens(self, name: str | None, d: int) -> TokenTable | None:
        """Return the tokens of a table, or None if it is not d wide or has a fault.

        Raises `EngineError` if no tokenizer says which rows are tokens.
        """
        if name is None or self.shape(name)[1] != d or self.fault(name):
            return None
        count = self.shape(name)[0]
        ids = self._model.words().known(count)
        return TokenTable(self.rows(name, None if len(ids) == count else ids), ids)


def token_map(source: Rows, target: Rows | None, report: ProgressReporter) -> Work[Tensor]:
    """Multiply two token tables, ``targetᵀ source``: (d_target, d_source) float64.

    Without a second table the first is multiplied with itself, at half the work.
    """
    d = source.shape[1]
    total = torch.zeros(d if target is None else target.shape[1], d, dtype=torch.float64)
    edges = [place * d // COLUMN_BLOCKS for place in range(COLUMN_BLOCKS + 1)]
    others = itertools.repeat(None) if target is None else target.split(ROWS_AT_ONCE)
    for done, (rows, other) in enumerate(zip(source.split(ROWS_AT_ONCE), others, strict=False)):
        report(done * ROWS_AT_ONCE, source.shape[0])
        wide = rows.double()
        if other is not None:
            total += other.double().mT @ wide
        else:  # the blocks on and above the diagonal
            for start, stop in itertools.pairwise(edges):
                total[start:stop, start:] += wide[:, start:stop].mT @ wide[:, start:]
        yield None
    if target is None:
        for start, stop in itertools.pairwise(edges):  # in place, as it may take gigabytes
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
