"""A request to export, its query on a model, and the export of its rows or arrays."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from engine.analysis.tables import COLUMNS, columns_of
from engine.service.engine import Engine
from engine.store.export import FORMATS, check_format, format_of, write_npz, write_table
from engine.values.errors import EngineError
from engine.values.filters import Filter, FilterError, parse_filter
from engine.values.heads import Head, join_stacks, parse_head
from engine.values.outline import ModelOutline, heads_named
from engine.values.progress import Progress
from engine.values.table import LargeTable, Row, RowGroup, Table
from engine.values.views import ABLATION, HEADS, LENS, NEEDS, VIEWS, WEIGHTS, Query, parts_of

APPLICABLE = {
    "ranks": {"layer", "head", "stack", "matrix", "energy", "distance"},
    "spectrum": {"layer", "head", "stack", "matrix", "distance", "vs"},
    "attention": {"layer", "head", "stack", "text", "off", "by_mean", "vs"},
    "matrices": {"layer", "head", "stack", "matrix"},
    **{view.name: set(view.options) for view in VIEWS.values()},
}
"""The options that apply to each view; any other is refused, never ignored."""

NEEDED = {"text": "the sentence to read", "vs": "the model to compare with"}
"""The options that some views need, with their meaning."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asks ``export`` for, as typed.

    Attributes
    ----------
    view : the name of a table or of arrays.
    options : the given options by name; ``vs`` is true where a second model is named.
    where : the condition on rows; None for all rows.
    columns : names separated by commas, or ``all``; None for the view's default columns.
    output : a file; None for standard output.
    format : of the file, if not that of its ending.
    """

    view: str
    options: Mapping[str, Any] = field(default_factory=dict)
    where: str | None = None
    columns: str | None = None
    output: Path | None = None
    format: str | None = None

    @property
    def written_as(self) -> str:
        """The format: the requested one, else that of the file's ending, else CSV."""
        if self.format is not None or self.output is None:
            return self.format or "csv"
        return "npz" if self.output.suffix == ".npz" else format_of(self.output) or "csv"

    def check(self) -> None:
        """Refuse options that do not apply to the view, and require those that it needs.

        Raises
        ------
        click.UsageError : when the options contradict each other.
        EngineError : when the file's name contradicts the format.
        """
        given = self.options
        for option in given:
            if option not in APPLICABLE[self.view]:
                raise click.UsageError(f"--{option.replace('_', '-')} does not apply to {self.view}")
        for option, why in NEEDED.items():
            if option in NEEDS.get(self.view, ()) and option not in given:
                raise click.UsageError(f"{self.view} needs --{option}, {why}")
        if {"off", "vs"} <= given.keys():
            raise click.UsageError("--vs and --off each add columns for comparison; give one of them")
        if "off" in given and self.view == ABLATION.name and {"layer", "head", "stack"} & given.keys():
            raise click.UsageError(
                "--off already names the heads, which are off together; leave out --layer, --head and --stack"
            )
        if given.get("position") == "all" and self.view != LENS.name:
            raise click.UsageError(f"--position all works for lens alone; give {self.view} one position")
        is_npz, is_table = self.written_as == "npz", self.view in COLUMNS
        if is_npz and self.view not in ("attention", "matrices"):
            raise click.UsageError(f"{self.view} is a table, not arrays; give -o FILE.csv")
        if self.output is None and (is_npz or not is_table):
            what, name = ("maps", "maps") if is_table else ("matrices", "heads")
            raise click.UsageError(f"{what} are arrays, not text; give -o {name}.npz")
        if self.output is None and self.written_as == "parquet":
            raise click.UsageError("Parquet cannot go to standard output; give -o FILE.parquet")
        matrix = given.get("matrix")
        if self.view == "matrices" and matrix in ("QK", "OV"):
            raise click.UsageError("matrices writes Q, K, V and O; QK and OV are their products")
        if self.view in VIEWS and matrix not in (None, "QK", "OV"):
            raise click.UsageError(f"{self.view} describes circuits; give --matrix QK or OV")
        if self.output is not None and not self.output.name:
            raise click.UsageError("-o needs a file name")
        for option, what in (("where", "rows"), ("columns", "columns")):
            if getattr(self, option) is not None and (is_npz or not is_table):
                raise click.UsageError(f"--{option} chooses {what} of a table, and arrays have none; give -o FILE.csv")
        if is_table:
            self.chosen()
        condition = self.condition()
        if condition and self.view == WEIGHTS.name and "norms" not in given and condition.columns & {"norm", "note"}:
            raise click.UsageError("norms are computed only with --norms; add it to filter by norm or note")
        if not is_table and not is_npz:
            raise click.UsageError(f"matrices are written as NPZ, not {self.format or self.output}; give -o FILE.npz")
        if not is_npz:
            check_format(self.written_as, self.output)

    @property
    def _columns(self) -> tuple[str, ...]:
        return columns_of(self.view, self.options)

    def chosen(self) -> tuple[str, ...]:
        """Name the columns that are asked for; `click.UsageError` where the table has no such column."""
        if self.columns is None:
            return (VIEWS[self.view].default_columns if self.view in VIEWS else ()) or self._columns
        if self.columns.strip() == "all":
            return self._columns
        named = tuple(dict.fromkeys(filter(None, re.split(r"[\s,]+", self.columns))))
        if unknown := [name for name in named if name not in self._columns]:
            alike = difflib.get_close_matches(unknown[0], self._columns, 1)
            hint = f"; did you mean {alike[0]}?" if alike else ""
            raise click.UsageError(f"--columns: {self.view} has no column '{unknown[0]}'{hint}")
        return named or self._columns

    def condition(self) -> Filter | None:
        """Parse the condition on rows, None for all rows; `click.UsageError` where it cannot be read."""
        try:
            return None if self.where is None else parse_filter(self.where, self._columns)
        except FilterError as error:
            raise click.UsageError(f"--where: {error}") from error


def query_of(request: Request, outline: ModelOutline) -> Query:
    """Make the engine's query for a request on a model; `EngineError` when the model has no such stack, layer or head.

    click.UsageError : when the options name two different layers, or a layer by no number.
    """
    given, view, is_of_maps = dict(request.options), VIEWS.get(request.view), request.view == "attention"
    layer, head, stack = (given.pop(name, None) for name in ("layer", "head", "stack"))
    if stack is not None and stack not in outline.stacks:
        raise EngineError(f"there is no stack '{stack}'; choose from {', '.join(outline.stacks)}")
    if layer is not None and layer not in ("all", "mean") and not layer.isdigit():
        name = parse_head(layer, (stack,) if stack else outline.stacks) if "." in join_stacks(layer) else None
        if name is None or not name.is_layer:
            raise click.UsageError(f"--layer {layer}: give a number from 0{', or mean' if is_of_maps else ''}")
        layer, stack = str(name.layer), name.stack
    number = -1 if head == "all" and not is_of_maps else None
    if head is not None and head.isdigit():
        number = int(head)
    elif head not in (None, "all", "mean"):
        name = parse_head(head, (stack,) if stack else outline.stacks)
        if layer is not None and layer != str(name.layer):
            raise click.UsageError(f"--layer {layer} and --head {head} name different layers")
        layer, number, stack = str(name.layer), None if name.is_layer else name.head, name.stack
    if not is_of_maps and "mean" in (layer, head):
        raise click.UsageError(f"only attention has means; give {request.view} a layer or head")
    only = int(layer) if layer is not None and layer.isdigit() else None
    stacks = (stack,) if stack is not None else outline.stacks
    names = [each.name for each in outline.layers if each.stack in stacks and only in (None, each.layer)]
    for name in names or [Head(stacks[0], only or 0)]:
        outline.layer(Head(name.stack, name.layer, -1 if number is None else number))
    off = given.pop("off", ())
    heads_off = heads_named(" ".join(off), outline)
    if off and not heads_off:
        raise EngineError("--off names no head; write it as L5H1, 'L5H1 L5H2', or L5 for a whole layer")
    if view is HEADS:
        condition = request.condition()
        given["parts"] = parts_of({*request.chosen(), *(condition.input_columns if condition is not None else ())})
    if given.get("position") == "all":
        given["position"], given["all_positions"] = None, True
    is_one = only is not None and len(names) == 1
    of_two = given.pop("vs", False) and (view is None or "vs" in view.option_columns)
    return Query(
        layer=names[0] if is_one else None,
        layers=() if is_one or len(names) == len(outline.layers) else tuple(names),
        head=number, layer_mean=layer == "mean", head_mean=head == "mean", off=heads_off,
        epsilon=given.pop("energy", None), with_other=of_two, **given,
    )  # fmt: skip


class Export:
    """The export of one request on an open model; it computes a layer when its rows are read.

    A request of two models opens the second one.

    Attributes
    ----------
    left_out : the layers without rows, and why, as far as rows have been read.
    lacking : what is empty or left out, a sentence each, as far as rows have been read.
    notices : what else the person should know.
    """

    def __init__(
        self, engine: Engine, outline: ModelOutline, request: Request, report: Callable[[Progress], None]
    ) -> None:
        self._engine, self._outline, self._request, self._report = engine, outline, request, report
        self._query = query_of(request, outline)
        self.left_out: dict[Head, str] = {}
        self.lacking: dict[str, None] = {}
        comparison = engine.compare(report).result() if "vs" in request.options else None
        distance = request.options.get("distance")
        self.notices: list[str] = list(outline.notes)
        for each in (outline,) if comparison is None else (outline, comparison.other):
            if past := each.past_context(distance):
                self.notices.append(f"{each.name}: Δ = {distance} is {past}; give a smaller distance")
        if comparison is not None:
            self.notices += filter(None, [*comparison.other.notes, comparison.note])

    def write(self, path: Path, format: str, check: Callable[[int], None] = lambda count: None) -> int:
        """Write everything to a file, and return the number of rows or arrays."""
        request = self._request
        asked = {"where": request.where, "columns": request.columns}
        given = {**request.options, **{name: value for name, value in asked.items() if value}}
        facts = facts_of(self._engine, self._outline, request.view, given)
        return write_parts(self.arrays() if format == "npz" else self.pieces(), path, format, facts, check)

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the requested arrays: the heads' matrices, or a sentence's maps."""
        if self._request.view == "matrices" and self._query.head == -1:
            raise click.UsageError("matrices are those of single heads; leave out --head all")
        for part in self._engine.named_arrays(self._request.view, self._query):
            if isinstance(part, RowGroup):
                self._note(part)
            else:
                yield part
            del part  # free it before the next one is made

    def pieces(self) -> Iterator[Table]:
        """Yield the requested rows and columns of the view's table, a piece at a time; no row at all is a notice."""
        condition, columns, has_any = self._request.condition(), self._request.chosen(), False
        name = self._request.view
        for piece in LargeTable(name, columns_of(name, self._query.column_options), self._rows()).pieces():
            frame = piece.frame if condition is None else condition.rows_of(piece.frame)
            has_any = has_any or not frame.is_empty()
            yield piece.with_frame(frame.select(columns))
            del piece, frame
        if condition is not None and not has_any:
            self.notices.append(f"no row matches {condition.text}")

    def _rows(self) -> Iterator[Row]:
        for group in self._engine.rows(self._request.view, self._query):
            self._note(group)
            rows: Any = group.rows
            yield from rows
            del group, rows

    def _note(self, group: RowGroup) -> None:
        self.left_out |= group.left_out
        self.lacking |= dict.fromkeys(group.lacking)
        if group.progress is not None:
            self._report(group.progress)


def write_parts(
    parts: Iterable[Any], path: Path, format: str, facts: Mapping[str, str], check: Callable[[int], None]
) -> int:
    """Write the pieces of a table, or named arrays, to a file, and return the number of rows or arrays."""
    count = 0

    def passed_on() -> Iterator[Any]:
        nonlocal count
        for part in parts:
            check(count)
            count += part.frame.height if isinstance(part, Table) else 1
            yield part
            del part  # free it before the next one is made

    if format in FORMATS:
        write_table(passed_on(), path, format, facts)
    else:
        write_npz(passed_on(), path)
    return count


def facts_of(engine: Engine, outline: ModelOutline, view: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Give a table's metadata: the model, its revision, the view, and the options that shaped it.

    The revision of a model from the Hub's cache is the commit, which names its folder.
    """
    folder = Path(outline.directory)
    commit = folder.name if folder.parent.name == "snapshots" else engine.options.revision
    facts = {"attn-tui": version("attn-tui"), "model": outline.name, "revision": commit or "", "view": view}
    return facts | {"options": json.dumps(dict(options), ensure_ascii=False)}
