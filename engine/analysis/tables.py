"""The tables of an open model by name: in groups of rows, in growing states, or whole.

Each view has a module that is imported on demand, with a generator ``rows_of_NAME``, or ``NAME_of_layer`` where a view
is computed layer by layer.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.analysis.layers import compute_layers
from engine.analysis.open_model import OpenModel
from engine.analysis.spectra import with_torch
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.progress import Lane, Progress, Work
from engine.values.table import (
    ATTENTION_COLUMNS,
    DIFFERENCE_COLUMNS,
    PROOF_COLUMNS,
    RANKS_BESIDE_CHANCE_COLUMNS,
    SPECTRA_OF_TWO_COLUMNS,
    SPECTRUM_COLUMNS,
    Cell,
    Groups,
    RowGroup,
    Table,
)
from engine.values.views import VIEWS, Query, added_columns

if TYPE_CHECKING:
    from engine.analysis.attention import Arrays

PAUSE = 0.25
"""The least seconds between two states of a growing table."""

SHARE = 4
"""The least pause after a state, as a multiple of the time it takes to make and deliver."""

COLUMNS: Mapping[str, tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]] = {
    "ranks": (RANKS_BESIDE_CHANCE_COLUMNS, {}),
    "spectrum": (SPECTRUM_COLUMNS, {"vs": SPECTRA_OF_TWO_COLUMNS[len(SPECTRUM_COLUMNS) :]}),
    "attention": (ATTENTION_COLUMNS, {"vs": DIFFERENCE_COLUMNS[len(ATTENTION_COLUMNS) :]}),
    "check": (PROOF_COLUMNS, {}),
    **{name: (view.columns, view.option_columns) for name, view in VIEWS.items()},
}
"""By view, the columns of its table, and those that options add at the end."""

MODULES = {
    "spectrum": "ranks",
    "rollout": "attention",
    "matrices": "weights",
    "check": "weights",
    "lens": "predictions",
    "contributions": "predictions",
    "ablation": "predictions",
}
"""By view, the module that computes it, if it has another name."""

WITHOUT_TORCH = ("ranks", "spectrum", "heads", "weights")
"""Views that import torch only if something has to be computed."""


def columns_of(name: str, options: Collection[str]) -> tuple[str, ...]:
    """Name the columns of a table, in order, with some options; raise `EngineError` if there is no such table."""
    if name not in COLUMNS:
        raise EngineError(f"there is no table '{name}'; choose from {', '.join(COLUMNS)}")
    columns, option_columns = COLUMNS[name]
    return (*columns, *added_columns(option_columns, options))


def row_groups(model: OpenModel, name: str, query: Query) -> Groups:
    """Compute a table: each row comes once, in the order of the table.

    Rows of a table that is ranked, or whose cells come later, come in one group at the end.

    Raises `EngineError` if there is no such table, layer or head, or this model cannot have the table.
    """
    view = VIEWS.get(name)
    if view is not None and (view.grows or (view.ranked_by and not query.off)):
        builder = _TableBuilder(name, query)
        for unit in _rows(model, name, query):
            if isinstance(unit, RowGroup):
                builder.add(unit)
                yield replace(unit, rows=())
            else:
                yield unit
        yield RowGroup(builder.rows)
    else:
        yield from _rows(model, name, query)


def table(model: OpenModel, name: str, query: Query) -> Work[Table]:
    """Compute a whole table; parameters and errors as for `row_groups`."""
    builder = _TableBuilder(name, query)
    for unit in row_groups(model, name, query):
        if isinstance(unit, RowGroup):
            builder.add(unit)
        else:
            yield unit
    return builder.table()


def table_states(model: OpenModel, name: str, query: Query) -> Iterator[tuple[Table, Progress] | Lane | None]:
    """Yield the growing table a few times a second, with its progress, and at last the whole table.

    Between the states come lanes and None; parameters and errors as for `row_groups`.
    """
    builder, due = _TableBuilder(name, query), 0.0
    for unit in _rows(model, name, query):
        if not isinstance(unit, RowGroup):
            yield unit
            continue
        builder.add(unit)
        progress, begun = unit.progress, time.monotonic()
        if progress is not None and (progress.finished or begun >= due):
            yield builder.table(), progress
            delivered = time.monotonic()
            due = delivered + max(PAUSE, SHARE * (delivered - begun))
    yield builder.table(), Progress(name, 1, 1, "")


def arrays(model: OpenModel, name: str, query: Query) -> Arrays:
    """Compute the arrays of ``attention`` or ``matrices``, one at a time."""
    yield from with_torch()
    yield from _computed(name, "arrays", model, query)
    yield from _notice(model, query)


def _rows(model: OpenModel, name: str, query: Query) -> Groups:
    columns_of(name, query.column_options)
    view = VIEWS.get(name)
    if query.head == -1 and view is not None and not view.has_whole_layers:
        raise EngineError(f"{name} has no rows for whole layers; name a head, such as L0H0")
    if view is not None and query.matrix not in (None, "QK", "OV"):
        raise EngineError(f"{name} describes circuits; choose QK or OV")
    if name not in WITHOUT_TORCH:
        yield from with_torch()
        yield Lane.WEIGHTS
    with model.reporter(name, "layers") as report:
        for unit in _computed(name, "rows", model, query):
            if isinstance(unit, RowGroup) and unit.progress is not None and unit.progress.activity == name:
                report(unit.progress.done, unit.progress.total)
            yield unit
    yield from _notice(model, query)


def _notice(model: OpenModel, query: Query) -> Groups:
    """Say if the sentence was longer than the model reads."""
    if not query.text or model.outline.context is None:
        return
    if notice := (yield from model.spell(query.text)).notice:
        yield RowGroup(lacking=(notice,))


def _computed(name: str, what: str, model: OpenModel, query: Query) -> Iterator[Any]:
    module = import_module(f"engine.analysis.{MODULES.get(name, name)}")
    if (of_layer := getattr(module, f"{name}_of_layer", None)) is not None:
        return compute_layers(name, model, query, of_layer)
    units: Iterator[Any] = getattr(module, f"{what}_of_{name}")(model, query)
    return units


class _TableBuilder:
    """Collects the rows of a table, ranked as its view wants; if it grows, a row replaces an earlier of the same place.

    A group with rows for all known places sets their order.
    """

    def __init__(self, name: str, query: Query) -> None:
        self._name, self.columns = name, columns_of(name, query.column_options)
        view = VIEWS.get(name)
        self._ranked = view if view is not None and view.ranked_by and not query.off else None
        self._places = [self.columns.index(each) for each in view.places] if view is not None and view.grows else []
        self._rows: list[tuple[Any, ...]] = []
        self._by_place: dict[tuple[Cell, ...], tuple[Any, ...]] = {}
        self._left_out: dict[Head, str] = {}
        self._lacking: dict[str, None] = {}

    def add(self, group: RowGroup) -> None:
        if self._places:
            new = {tuple(row[each] for each in self._places): tuple(row) for row in group.rows}
            if new.keys() >= self._by_place.keys():
                self._by_place.clear()
            self._by_place.update(new)
        else:
            self._rows += map(tuple, group.rows)
        self._left_out |= group.left_out
        self._lacking |= dict.fromkeys(group.lacking)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        if self._ranked is not None:
            return [tuple(row) for row in self._ranked.sort_rows(self._rows, self.columns)]
        return list(self._by_place.values()) if self._places else self._rows

    def table(self) -> Table:
        return Table.of_rows(self._name, self.columns, self.rows, dict(self._left_out), tuple(self._lacking))
