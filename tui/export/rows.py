"""What an export gives: the rows or the arrays of one request on one open model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click
from numpy.typing import NDArray

from engine.analysis.tables import columns_of
from engine.service.engine import Engine
from engine.values.comparison import Comparison
from engine.values.errors import EngineError
from engine.values.heads import Head, Off
from engine.values.outline import ModelOutline, heads_named
from engine.values.progress import Progress
from engine.values.table import LargeTable, Row, RowGroup, Table
from engine.values.views import HEADS, VIEWS, Query, parts_of
from tui.export.request import Request
from tui.export.selection import Selection, select


class Export:
    """One request on one open model; layers are computed as the rows are read, never all at once.

    Attributes
    ----------
    left_out : layers that have no rows, and why, as far as has been read.
    lacking : what is empty or left out, in a sentence each, as far as has been read.
    notices : what else is to be known.
    """

    def __init__(
        self,
        engine: Engine,
        outline: ModelOutline,
        request: Request,
        selection: Selection,
        report: Callable[[Progress], None],
        comparison: Comparison | None = None,
    ) -> None:
        self._engine = engine
        self._request = request
        self._report = report
        self._query = _query_of(request, selection, outline)
        self.left_out: dict[Head, str] = {}
        self.lacking: dict[str, None] = {}
        distance = request.asked.get("distance")
        outlines = (outline,) if comparison is None else (outline, comparison.other)
        self.notices: list[str] = list(outline.notes)
        self.notices += [
            f"{each.name}: Δ = {distance} is {past}, in which no sentence has it"
            for each in outlines
            if (past := each.past_context(distance))
        ]
        if comparison is not None:
            self.notices += [*comparison.other.notes, *([comparison.note] if comparison.note else [])]

    @classmethod
    def begin(
        cls, engine: Engine, outline: ModelOutline, request: Request, report: Callable[[Progress], None]
    ) -> Export:
        """Find what a request names in a model, and open the second model where it is of two."""
        selection = select(outline, request)
        comparison = engine.compare(report).result() if request.vs else None
        return cls(engine, outline, request, selection, report, comparison)

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Give the arrays that are asked for: the heads' matrices, or a sentence's maps."""
        if self._request.view == "matrices" and self._query.head == -1:
            raise click.UsageError("matrices are of heads; --head all has none")
        for part in self._engine.named_arrays(self._request.view, self._query):
            if isinstance(part, RowGroup):
                self._note(part)
            else:
                yield part
            del part  # before there is the next one

    def pieces(self) -> Iterator[Table]:
        """Yield the rows and columns that are asked for of the view's table, some at a time; no row is a notice."""
        kept, columns, has_any = self._request.kept(), self._request.chosen(), False
        name = self._request.view
        for piece in LargeTable(name, columns_of(name, self._query), self._rows()).pieces():
            frame = piece.frame if kept is None else kept.rows_of(piece.frame)
            has_any = has_any or not frame.is_empty()
            yield piece.with_frame(frame.select(columns))
            del piece, frame
        if kept is not None and not has_any:
            self.notices.append(f"no row fits {kept.text}")

    def _rows(self) -> Iterator[Row]:
        """Yield rows as they are worked out."""
        for group in self._engine.rows(self._request.view, self._query):
            self._note(group)
            rows: Any = group.rows
            yield from rows
            del group, rows

    def _note(self, group: RowGroup) -> None:
        """Take note of what a group says beside its rows, and tell how far it is."""
        self.left_out |= group.left_out
        self.lacking |= dict.fromkeys(group.lacking)
        if group.progress is not None:
            self._report(group.progress)


def _query_of(request: Request, selection: Selection, outline: ModelOutline) -> Query:
    """Say what a request asks of the engine."""
    view = VIEWS.get(request.view)
    asked = {name: value for name, value in request.asked.items() if value is not None}
    off = _off(asked.pop("off", ()), bool(asked.pop("by_mean", False)), outline)
    names = tuple(layer.name for layer in selection.layers)
    is_one = selection.is_one_layer and len(names) == 1
    if view is HEADS:
        kept = request.kept()
        asked["parts"] = parts_of({*request.chosen(), *(kept.input_columns if kept is not None else ())})
    return Query(
        layer=names[0] if is_one else None,
        layers=() if is_one or len(names) == len(outline.layers) else names,
        head=selection.head, layer_mean=selection.layer_mean, head_mean=selection.head_mean, matrix=request.matrix,
        text=request.text, off=off.heads, by_mean=off.by_mean, epsilon=request.energy,
        of_two=request.vs and (view is None or bool(view.beside)), **asked,
    )  # fmt: skip


def _off(named: tuple[str, ...], by_mean: bool, outline: ModelOutline) -> Off:
    """Find the heads that are switched off."""
    heads = heads_named(" ".join(named), outline)
    if named and not heads:
        raise EngineError("--off names no head; write it as L5H1, 'L5H1 L5H2', or L5 for a whole layer")
    return Off(heads, by_mean)
