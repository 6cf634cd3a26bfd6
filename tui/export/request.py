"""What a person asks ``attn-tui export`` for, and whether its options go together."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from engine.store.export import format_of
from engine.values.filters import Filter, FilterError, parse_filter
from engine.values.table import (
    ATTENTION_COLUMNS,
    DIFFERENCE_COLUMNS,
    RANKS_BESIDE_CHANCE_COLUMNS,
    SPECTRA_OF_TWO_COLUMNS,
    SPECTRUM_COLUMNS,
)
from engine.values.views import ABLATION, NEEDS, VIEWS, WEIGHTS

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
