"""What an export is asked for, what that names in a model, and the rows or arrays that it gives."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from engine.analysis.tables import columns_of
from engine.service.engine import Engine
from engine.store.export import format_of
from engine.values.comparison import Comparison
from engine.values.errors import EngineError
from engine.values.filters import Filter, FilterError, parse_filter
from engine.values.heads import Head, Off, parse_head
from engine.values.outline import LayerOutline, ModelOutline, heads_named
from engine.values.progress import Progress
from engine.values.table import (
    ATTENTION_COLUMNS,
    DIFFERENCE_COLUMNS,
    RANKS_BESIDE_CHANCE_COLUMNS,
    SPECTRA_OF_TWO_COLUMNS,
    SPECTRUM_COLUMNS,
    LargeTable,
    Row,
    RowGroup,
    Table,
)
from engine.values.views import ABLATION, HEADS, NEEDS, VIEWS, WEIGHTS, Query, parts_of

APPLICABLE = {
    "ranks": {"layer", "head", "stack", "matrix", "energy", "distance"},
    "spectrum": {"layer", "head", "stack", "matrix", "distance", "vs"},
    "attention": {"layer", "head", "stack", "text", "off", "by_mean", "vs"},
    "matrices": {"layer", "head", "stack", "matrix"},
    **{view.name: set(view.options) for view in VIEWS.values()},
}
"""Which options narrow or shape which view; any other is refused, never ignored."""

TABLES = {
    "ranks": RANKS_BESIDE_CHANCE_COLUMNS,
    "spectrum": SPECTRUM_COLUMNS,
    "attention": ATTENTION_COLUMNS,
    **{view.name: view.columns for view in VIEWS.values()},
}
"""The columns of each table."""

OF_TWO = {"spectrum": SPECTRA_OF_TWO_COLUMNS, "attention": DIFFERENCE_COLUMNS}
"""The columns of those that hold two models' numbers where a second model is named."""

NEEDED = {"text": "the sentence to read", "vs": "the model to compare with"}
"""What such an option is."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asks ``export`` for, as typed."""

    view: str
    layer: str | None
    head: str | None
    stack: str | None
    matrix: str | None
    text: str | None
    energy: float | None
    where: str | None
    output: Path | None
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Further options of tables that are worked out, fields of a `Query`; None where one was not given."""
    vs: bool = False
    """Whether a second model is named."""
    format: str | None = None
    """How it is to be written, if not as the file's ending says."""
    columns: str | None = None
    """Names with commas between them, or ``all``; None for those that the view opens with."""

    def to_standard_output(self) -> Request:
        """Read ``-o -`` and ``-o /dev/stdout`` as standard output; the file that this may be is not to be replaced."""
        return replace(self, output=None) if str(self.output) in ("-", "/dev/stdout") else self

    @property
    def written_as(self) -> str:
        """The format: what was asked for, else what the file's ending says, else CSV."""
        if self.format is not None or self.output is None:
            return self.format or "csv"
        return "npz" if self.output.suffix == ".npz" else format_of(self.output) or "csv"

    def given(self) -> dict[str, Any]:
        """Give the options that were given, by name, but for the file."""
        named = {name: getattr(self, name) for name in ("layer", "head", "stack", "matrix", "text", "energy")}
        named |= {"vs": self.vs or None}
        return {name: value for name, value in (named | dict(self.asked)).items() if value not in (None, ())}

    def check(self) -> None:
        """Refuse options that say nothing about this view, and ask for those it needs."""
        given = self.given()
        for option in given:
            if option not in APPLICABLE[self.view]:
                raise click.UsageError(f"--{option.replace('_', '-')} says nothing about {self.view}")
        for option, why in NEEDED.items():
            if option in NEEDS.get(self.view, ()) and option not in given:
                raise click.UsageError(f"{self.view} needs --{option.replace('_', '-')}, {why}")
        if "off" in given and self.view == ABLATION.name and {"layer", "head", "stack"} & given.keys():
            raise click.UsageError("heads that --off names are off together; leave --layer, --head and --stack out")
        is_npz = self.written_as == "npz"
        if is_npz and self.view not in ("attention", "matrices"):
            raise click.UsageError(f"{self.view} is a table; give -o FILE.csv, and leave NPZ to arrays")
        if self.output is None and (self.view == "matrices" or is_npz):
            what, name = ("matrices", "heads") if self.view == "matrices" else ("maps", "maps")
            raise click.UsageError(f"{what} are arrays, not text: give -o {name}.npz")
        if self.output is None and self.written_as == "parquet":
            raise click.UsageError("Parquet is no text: give -o FILE.parquet")
        if self.view == "matrices" and self.matrix in ("QK", "OV"):
            raise click.UsageError("the matrices of a head are Q, K, V and O; QK and OV are products of them")
        if self.view in VIEWS and self.matrix not in (None, "QK", "OV"):
            raise click.UsageError(f"{self.view} is of the circuits, --matrix QK or OV")
        if self.output is not None and not self.output.name:
            raise click.UsageError("-o needs the name of a file")
        if self.where is not None and (is_npz or self.view not in TABLES):
            raise click.UsageError("--where takes rows of tables, and arrays have none; give -o FILE.csv")
        if self.columns is not None and (is_npz or self.view not in TABLES):
            raise click.UsageError("--columns takes columns of tables, and arrays have none; give -o FILE.csv")
        if self.view in TABLES:
            self.chosen()
        kept = self.kept()
        if kept is not None and self.view == WEIGHTS.name and "norms" not in given and kept.columns & {"norm", "note"}:
            raise click.UsageError("tensors are read only with --norms; add it to filter by what that finds")
        if self.view == "matrices" and not is_npz:
            raise click.UsageError(f"matrices are written as .npz, not as {self.format or self.output}")

    @property
    def _columns(self) -> tuple[str, ...]:
        """The columns of the table that is asked for."""
        if self.view in VIEWS:
            return VIEWS[self.view].columns_of(of_two=self.vs)
        return OF_TWO.get(self.view, TABLES[self.view]) if self.vs else TABLES[self.view]

    def chosen(self) -> tuple[str, ...]:
        """Name the columns that are asked for.

        Raises
        ------
        click.UsageError : where the table has no such column.
        """
        if self.columns is None:
            return (VIEWS[self.view].opens_with if self.view in VIEWS else ()) or self._columns
        if self.columns.strip() == "all":
            return self._columns
        named = tuple(dict.fromkeys(filter(None, re.split(r"[\s,]+", self.columns))))
        if unknown := [name for name in named if name not in self._columns]:
            alike = difflib.get_close_matches(unknown[0], self._columns, 1)
            hint = f"; did you mean {alike[0]}?" if alike else ""
            raise click.UsageError(f"--columns: {self.view} has no column '{unknown[0]}'{hint}")
        return named or self._columns

    def kept(self) -> Filter | None:
        """Read which rows are asked for; None for all.

        Raises
        ------
        click.UsageError : where the filter cannot be read.
        """
        try:
            return None if self.where is None else parse_filter(self.where, self._columns)
        except FilterError as error:
            raise click.UsageError(f"--where: {error}") from error


@dataclass(frozen=True, slots=True)
class Selection:
    """The layers and heads that a request names in one model.

    Attributes
    ----------
    layers : those to go through; empty with ``layer_mean``.
    layer_mean : the mean over the layers is asked for.
    head : a head's number, -1 for whole layers alone, None for everything.
    head_mean : the mean over the heads is asked for.
    stacks : the stacks to go through.
    is_one_layer : whether a layer is named, so that nothing else is wanted where it has no rows.
    """

    layers: tuple[LayerOutline, ...]
    layer_mean: bool
    head: int | None
    head_mean: bool
    stacks: tuple[str, ...]
    is_one_layer: bool


def select(outline: ModelOutline, request: Request) -> Selection:
    """Find what ``--stack``, ``--layer`` and ``--head`` name in a model.

    Raises
    ------
    EngineError : when the model has no such stack, layer or head.
    """
    attention = request.view == "attention"
    if request.stack is not None and request.stack not in outline.stacks:
        raise EngineError(f"{outline.name} has no stack '{request.stack}'; it has {', '.join(outline.stacks)}")
    layer, head, stack = request.layer, request.head, request.stack
    number: int | None = None
    if head is not None and head not in ("all", "mean") and not head.isdigit():
        name = parse_head(head, (stack,) if stack else outline.stacks)
        if layer is not None and layer != str(name.layer):
            raise click.UsageError(f"--layer {layer} and --head {head} name different layers")
        layer, number, stack = str(name.layer), None if name.is_layer else name.head, name.stack
    elif head is not None and head.isdigit():
        number = int(head)
    if not attention and "mean" in (layer, head):
        raise click.UsageError(f"means are of attention; {request.view} has none")
    if layer is not None and layer not in ("all", "mean") and not layer.isdigit():
        raise click.UsageError(f"--layer {layer}: give a number from 0{', or mean' if attention else ''}")
    stacks = (stack,) if stack is not None else outline.stacks
    layers = [each for each in outline.layers if each.stack in stacks]
    only = int(layer) if layer is not None and layer.isdigit() else None
    if only is not None:
        layers = [each for each in layers if each.layer == only]
        if not layers:
            outline.layer(Head(stacks[0], only))
    if number is not None:
        for each in layers:
            outline.layer(Head(each.stack, each.layer, number))
    if head == "all" and not attention:
        number = -1
    return Selection(tuple(layers), layer == "mean", number, head == "mean", stacks, only is not None)


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


def facts_of(outline: ModelOutline, revision: str | None, view: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Say what a table is of: the model, its revision where that is known, the view, and the options that shaped it.

    Of a model from the Hub's cache the revision is the commit, by which the cache names its folders.
    """
    folder = Path(outline.directory)
    commit = folder.name if folder.parent.name == "snapshots" else revision
    facts = {"attn-tui": version("attn-tui"), "model": outline.name, "revision": commit or "", "view": view}
    return facts | {"options": json.dumps(dict(options), ensure_ascii=False)}
