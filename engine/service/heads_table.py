"""The rows of the ``heads`` table: every head of the model, with what three other tables say of it side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.mathematics.measures import DEFAULT_EPSILON
from engine.mathematics.tabulate import rank_cells_beside_chance
from engine.service.pace import Pace
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.model import LayerOutline
from engine.values.progress import Progress
from engine.values.tables import Cell
from engine.values.view import Query
from engine.values.views import HEAD_PARTS

if TYPE_CHECKING:
    from engine.service.session import Breathe, Session

Rows = tuple[tuple[Cell, ...], ...]
OfLayer = Callable[[LayerOutline, Query, "Breathe"], Iterator[tuple[Cell, ...]]]


OF_CHANGES = "of a change of weights there are ranks alone"
"""Why its heads have nothing else."""


@dataclass(frozen=True)
class Part:
    """What one table says of a layer's heads.

    Attributes
    ----------
    cells : by head number, in the order of the part's columns.
    labels : by head number, where the table labels heads.
    notes : by head number, what else is to be known.
    """

    cells: Mapping[int, tuple[Cell, ...]] = field(default_factory=dict)
    labels: Mapping[int, str] = field(default_factory=dict)
    notes: Mapping[int, str] = field(default_factory=dict)


Key = tuple[str, Head, str | float | None]
"""A part, a layer, and what else the part is of: the ε of its ranks, or the sentence of its patterns."""


class HeadsTable:
    """Puts a model's heads in one table, part by part and layer by layer, each once; belongs to the engine thread.

    Parameters
    ----------
    session : the open model.
    patterns, circuits : give the rows of those tables for the heads of a layer.
    lacking : says what the circuits of a stack are without, and why.
    """

    def __init__(
        self, session: Session, patterns: OfLayer, circuits: OfLayer, lacking: Callable[[str], tuple[str, ...]]
    ) -> None:
        self._session = session
        self._patterns, self._circuits, self._lacking = patterns, circuits, lacking
        self._known: dict[Key, Part] = {}

    def _make(self, part: str, layer: LayerOutline, query: Query, breathe: Breathe) -> Part:
        """Work out a part of the table for a layer."""
        if part == "patterns":
            return _patterns(self._patterns(layer, query, breathe))
        if part == "circuits":
            return _circuits(self._circuits(layer, query, breathe), lambda: self._lacking(layer.stack))
        return self._ranks(layer, query, breathe)

    def growing(self, query: Query, breathe: Breathe) -> Iterator[tuple[Rows, Progress]]:
        """Yield the rows as more of their cells become known; the last ones are complete.

        The cheap part comes first. Where a part cannot be had of a layer its cells stay empty, and the note says why.

        Raises
        ------
        EngineError : at the end, when the sentence that the query names cannot be read.
        """
        outline = self._session.outline
        layers = outline.layers if query.layer is None else (outline.layer(query.layer),)
        asked = [part for part in HEAD_PARTS if query.parts is None or part in query.parts]
        missing: dict[Key, Part] = {}
        self._known = {key: part for key, part in self._known.items() if key[2] == _of(key[0], query)}
        yield self._rows(layers, query, missing), Progress("heads", 0, 0, "")
        pace, unread = Pace(), None
        for part in asked:
            for done, layer in enumerate(layers, start=1):
                key = _key(part, layer, query)
                if key in self._known:
                    continue
                if layer.is_change and part != "ranks":
                    missing[key] = Part(notes=dict.fromkeys(range(layer.heads), OF_CHANGES))
                    continue
                breathe()
                try:
                    found = self._make(part, layer, Query(text=query.text, epsilon=query.epsilon), breathe)
                except Superseded:
                    raise
                except EngineError as error:
                    missing[key] = Part(notes=dict.fromkeys(range(layer.heads), str(error)))
                    unread = error if part == "patterns" and query.text is not None else unread
                else:
                    self._known[key] = found
                if pace.is_due():
                    yield self._rows(layers, query, missing), Progress(part, done, len(layers), "layers")
                    pace.delivered()
        yield self._rows(layers, query, missing), Progress("heads", 1, 1, "")
        if unread is not None:
            raise unread

    def _ranks(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Part:
        """Measure the spectra of a layer's heads, beside what chance gives."""
        group = self._session.spectra(layer.name, False, breathe)
        return Part(
            rank_cells_beside_chance(group.listed(), DEFAULT_EPSILON if query.epsilon is None else query.epsilon)
        )

    def _rows(self, layers: tuple[LayerOutline, ...], query: Query, missing: Mapping[Key, Part]) -> Rows:
        """Write what is known of the heads that are asked for."""
        rows: list[tuple[Cell, ...]] = []
        for layer in layers:
            keys = {part: _key(part, layer, query) for part in HEAD_PARTS}
            parts = {part: self._known.get(key) or missing.get(key) or Part() for part, key in keys.items()}
            for head in layer.head_names():
                if query.wants(head.head):
                    rows.append(_row(head, parts))
        return tuple(rows)


def _key(part: str, layer: LayerOutline, query: Query) -> Key:
    """Name what is known of a part."""
    return part, layer.name, _of(part, query)


def _of(part: str, query: Query) -> str | float | None:
    """Say what a part is of beside its layer."""
    return query.epsilon if part == "ranks" else query.text if part == "patterns" else None


def _row(head: Head, parts: Mapping[str, Part]) -> tuple[Cell, ...]:
    """Put what is known of a head side by side; a cell is empty where nothing is."""
    number = head.head
    label = next((part.labels[number] for part in parts.values() if number in part.labels), "")
    each = (parts[name].cells.get(number, ("",) * len(columns)) for name, columns in HEAD_PARTS.items())
    cells = (cell for part in each for cell in part)
    notes = dict.fromkeys(part.notes[number] for part in parts.values() if part.notes.get(number))
    return (head.stack, head.layer, head.label, label, *cells, "; ".join(notes))


def _patterns(rows: Iterator[tuple[Cell, ...]]) -> Part:
    """Take rows of ``patterns`` apart."""
    kept = {int(row[2]): row for row in rows}
    return Part(
        {head: row[4:-1] for head, row in kept.items()},
        {head: str(row[3]) for head, row in kept.items()},
        {head: str(row[-1]) for head, row in kept.items()},
    )


def _circuits(rows: Iterator[tuple[Cell, ...]], lacking: Callable[[], tuple[str, ...]]) -> Part:
    """Take rows of ``circuits`` apart, and once they are there say what they are without."""
    cells = {int(row[2]): row[3:] for row in rows}
    return Part(cells, notes=dict.fromkeys(cells, "; ".join(lacking())))
