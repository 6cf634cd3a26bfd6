"""Measures of heads over the checkpoints of a survey, as arrays; read a few files at a time, so that they grow."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.mathematics.attention import finite_mean
from engine.surveys.checkpoint_names import CheckpointName
from engine.surveys.survey_folder import IDENTITY, SurveyFolder, read_made_with, scan_files
from engine.values.heads import Head
from engine.values.table import CHANCE, Kind, Table, kind_of

if TYPE_CHECKING:
    import polars

READ_FROM = ("ranks", "circuits", "patterns", "heads")
"""The tables that have a row for each head, in the order in which their measures are listed."""

OPENING = ("induction", "qk_stable_rank")
"""The measures that are shown first, where a survey has them."""

FILES = 64
"""Files that are read at a time."""

_PLACES = ("stack", "layer", "head")
_NO_MEASURES = ("rows", "cols", *_PLACES, *IDENTITY)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that a survey has of each head.

    Attributes
    ----------
    table, column : where it stands.
    matrix : whose it is; empty where a table has no matrices.
    has_chance : whether the table has what chance gives beside it.
    energy : ε of energy ranks, as of the first checkpoint; None where the table has none.
    """

    table: str
    column: str
    matrix: str = ""
    has_chance: bool = False
    energy: float | None = None

    @property
    def name(self) -> str:
        """What it is called: ``qk_stable_rank``."""
        return f"{self.matrix.lower()}_{self.column}" if self.matrix else self.column


@dataclass(frozen=True, eq=False)
class MeasureOverSteps:
    """A measure of all heads of one model.

    Attributes
    ----------
    measure : which.
    checkpoints : those that have it, by step.
    heads : in order.
    values : (checkpoints, heads) not a number where it is undefined or not known.
    chance : of the same shape, what chance gives; None where the table does not say.
    """

    measure: Measure
    checkpoints: tuple[CheckpointName, ...]
    heads: tuple[Head, ...]
    values: NDArray[np.float64]
    chance: NDArray[np.float64] | None = None

    @cached_property
    def layers(self) -> tuple[Head, ...]:
        """The layers of the heads."""
        return tuple(dict.fromkeys(head.whole_layer for head in self.heads))

    @cached_property
    def stacks(self) -> tuple[str, ...]:
        """The stacks that the heads are in."""
        return tuple(dict.fromkeys(head.stack for head in self.heads))

    def heads_of(self, layer: Head) -> list[int]:
        """Give the numbers of a layer's heads."""
        return [number for number, head in enumerate(self.heads) if head.whole_layer == layer]

    @cached_property
    def layer_means(self) -> NDArray[np.float64]:
        """(checkpoints, layers) the mean over a layer's heads, of those that have a value."""
        means = [finite_mean(self.values[:, self.heads_of(layer)], 1) for layer in self.layers]
        return np.stack(means, axis=1) if means else np.zeros((len(self.checkpoints), 0))

    def table(self) -> Table:
        """Give it as a table: a row for each checkpoint and head."""
        names, arrays = [self.measure.name], [self.values]
        if self.chance is not None:
            names, arrays = [*names, f"{self.measure.name}{CHANCE}"], [*arrays, self.chance]
        rows = (
            (*checkpoint.identity, head.stack, head.layer, head.label, *(array[line, column] for array in arrays))
            for line, checkpoint in enumerate(self.checkpoints)
            for column, head in enumerate(self.heads)
        )
        return Table.of_rows(self.measure.name, (*IDENTITY, *_PLACES, *names), rows)


def measures_of(folder: SurveyFolder) -> list[Measure]:
    """List the measures that a survey's tables have, each name once."""
    import polars as pl

    found: dict[str, Measure] = {}
    for table in (each for each in READ_FROM if each in folder.tables):
        place = next(iter(folder.files[table].values()))
        frame, energy = pl.read_parquet(place), (read_made_with(place) or {}).get("energy")
        matrices = tuple(frame["matrix"].unique(maintain_order=True)) if "matrix" in frame.columns else ("",)
        for column in frame.columns:
            is_number = kind_of(column) in (Kind.NUMBER, Kind.WHOLE) and frame[column].null_count() < frame.height
            if is_number and column not in _NO_MEASURES and not column.endswith(CHANCE):
                for matrix in matrices:
                    measure = Measure(table, column, matrix, f"{column}{CHANCE}" in frame.columns, energy)
                    found.setdefault(measure.name, measure)
    return list(found.values())


def opening_measure(measures: Sequence[Measure]) -> Measure:
    """Choose the measure to begin with."""
    by_name = {each.name: each for each in measures}
    return next((by_name[name] for name in OPENING if name in by_name), measures[0])


@dataclass
class MeasureReader:
    """Reads one measure of all checkpoints of a survey; several threads may use it at the same time.

    Attributes
    ----------
    measure : what is read.
    """

    measure: Measure
    _known: dict[CheckpointName, tuple[int, polars.DataFrame]] = field(default_factory=dict)  # when written, and rows
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, folder: SurveyFolder) -> Iterator[tuple[int, int]]:
        """Read the files that are new or written anew, some at a time, in an order that shows all of a training early.

        Yields
        ------
        read, all : numbers of files.
        """
        places = folder.files.get(self.measure.table, {})
        written: dict[CheckpointName, int] = {}
        for checkpoint, place in places.items():
            with suppress(FileNotFoundError):  # a person may remove it after it was listed
                written[checkpoint] = place.stat().st_mtime_ns
        with self._lock:
            self._known = {each: known for each, known in self._known.items() if written.get(each) == known[0]}
            spread = _spread([each for each in written if each not in self._known])
        for start in range(0, len(spread), FILES):
            some = spread[start : start + FILES]
            with self._lock:
                rows = self._frame([places[each] for each in some])
                by_name = rows.partition_by(IDENTITY[:2], as_dict=True)
                self._known |= {each: (written[each], by_name.get(each.identity[:2], rows.clear())) for each in some}
            yield len(self._known), len(places)

    def _frame(self, places: Sequence[Path]) -> polars.DataFrame:
        import polars as pl

        measure = self.measure
        rows = scan_files(places).filter(pl.col("head") != "all")
        if measure.matrix:
            rows = rows.filter(pl.col("matrix") == measure.matrix)
        chance = pl.col(f"{measure.column}{CHANCE}") if measure.has_chance else pl.lit(None)
        numbers = pl.col(measure.column).cast(pl.Float64).alias("value"), chance.cast(pl.Float64).alias("chance")
        return rows.select(*IDENTITY[:2], "stack", "layer", pl.col("head").cast(pl.Int64), *numbers).collect()

    def models(self) -> dict[str, MeasureOverSteps]:
        """Give what has been read, by model."""
        import polars as pl

        found = dict[str, MeasureOverSteps]()
        with self._lock:  # waits for files that are being read
            known = self._known.copy()
        if not known:
            return found
        whole = pl.concat([rows for _, rows in known.values()])
        for (model,), rows in sorted(whole.partition_by("model", as_dict=True).items()):
            of_model = (each for each in known if each.model == model)
            checkpoints = tuple(sorted(of_model, key=lambda each: (each.step is None, each.step, each.revision)))
            found[str(model)] = _over_steps(self.measure, checkpoints, rows)
        return found


def labels_over_steps(
    folder: SurveyFolder, checkpoints: Sequence[CheckpointName], heads: Sequence[Head]
) -> list[list[str]]:
    """Read the heads' labels, a list for each checkpoint, empty where there is none; empty where no table has them."""
    import polars as pl

    table = next((name for name in ("patterns", "heads") if name in folder.tables), None)
    if table is None:
        return []
    files = folder.files[table]
    rows = scan_files([files[each] for each in checkpoints if each in files])
    if "label" not in rows.collect_schema():
        return []
    labels = {
        (revision, stack, layer, int(head)): label or ""
        for revision, stack, layer, head, label in rows.filter(pl.col("head") != "all")
        .select("revision", *_PLACES, "label")
        .collect()
        .iter_rows()
    }
    return [
        [labels.get((each.revision, head.stack, head.layer, head.head), "") for head in heads] for each in checkpoints
    ]


def holds_since(labels: Iterable[str]) -> int | None:
    """Give the first place from which on a label stays the last one; None where the last one is none.

    Examples
    --------
    >>> holds_since(["", "induction", "", "induction", "induction"]), holds_since(["previous", ""])
    (3, None)
    """
    every = list(labels)
    if not every or not every[-1]:
        return None
    since = len(every)
    while since and every[since - 1] == every[-1]:
        since -= 1
    return since


def _over_steps(measure: Measure, checkpoints: tuple[CheckpointName, ...], rows: polars.DataFrame) -> MeasureOverSteps:
    import polars as pl

    names = rows.select(_PLACES).unique(maintain_order=True)
    stacks = {stack: number for number, stack in enumerate(names["stack"].unique(maintain_order=True))}
    heads = tuple(sorted((Head(*row) for row in names.iter_rows()), key=lambda each: (stacks[each.stack], each)))
    columns = pl.DataFrame(heads).with_row_index("column")
    lines = pl.DataFrame({"revision": [each.revision for each in checkpoints]}).with_row_index("line")
    placed = rows.join(columns, on=_PLACES).join(lines, on="revision")
    at = placed["line"].to_numpy(), placed["column"].to_numpy()
    arrays = []
    for name in ("value", "chance"):
        array = np.full((len(checkpoints), len(heads)), np.nan)
        array[at] = placed[name].fill_null(np.nan).to_numpy()
        arrays.append(array)
    return MeasureOverSteps(measure, checkpoints, heads, arrays[0], arrays[1] if measure.has_chance else None)


def _spread(checkpoints: list[CheckpointName]) -> list[CheckpointName]:
    """Put checkpoints into an order whose beginning is spread over all of them, each part of it twice as dense."""
    found: dict[CheckpointName, None] = {}
    step = 1 << max(len(checkpoints) // FILES, 1).bit_length()
    while step:
        found |= dict.fromkeys(checkpoints[::step])
        step //= 2
    return list(found)
