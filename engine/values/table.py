"""Tables: Polars data frames with a name and notes, and the names and kinds of their columns."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.progress import Lane, Progress

if TYPE_CHECKING:
    import polars

Cell = str | int | float | None
Row = Sequence[Cell]

CHANCE = "_chance"
"""The end of the names of columns that hold chance."""

RANK_COLUMNS = (
    "stack", "layer", "head", "matrix", "rows", "cols",
    "energy_rank", "numerical_rank", "effective_rank", "stable_rank", "participation_ratio",
    "spectral_norm", "frobenius_norm", "nuclear_norm", "condition_number",
)  # fmt: skip
RANKS_BESIDE_CHANCE_COLUMNS = (*RANK_COLUMNS, *(f"{measure}{CHANCE}" for measure in RANK_COLUMNS[6:]))
SPECTRUM_COLUMNS = (
    "stack", "layer", "head", "matrix", "index", "singular_value", "energy", "cumulative_energy", "chance",
)  # fmt: skip
SPECTRA_OF_TWO_COLUMNS = (*SPECTRUM_COLUMNS, "singular_value_other")
ATTENTION_COLUMNS = ("stack", "layer", "head", "query", "key", "query_token", "key_token", "weight", "weight_chance")
ROLLOUT_COLUMNS = ("stack", "query", "key", "query_token", "key_token", "weight", "weight_chance")
DIFFERENCE_COLUMNS = (*ATTENTION_COLUMNS, "weight_other", "difference")
DIFFERENCE_OF_HEADS_COLUMNS = (*DIFFERENCE_COLUMNS, "other_stack", "other_layer", "other_head")
PROOF_COLUMNS = ("stack", "layer", "identity", "verdict", "residual", "note")


class Kind(Enum):
    """What the cells of a column hold."""

    WHOLE = "whole numbers"
    NUMBER = "numbers"
    TEXT = "text"
    TOKEN = "text of tokens"
    """Here an empty text is an empty token, not an empty cell."""


TEXTS = (Kind.TEXT, Kind.TOKEN)

_WHOLE = re.compile(
    r"layer|from_layer|other_layer|rows|cols|index|last_index|query|key|parameters|bytes"
    r"|place|position|step|rank|rank_other|rank_after|token_id|(\w+_)?(energy|numerical)_rank(_change)?|rank_(q|k|v|o|qk|ov)"
    r"|(qk|ov)_(image_in_kernel|factors_lost)"
)
_TEXT = {
    "stack", "head", "from_head", "matrix", "kind", "side", "extreme", "note", "name", "shape", "dtype", "tied_to",
    "term", "label", "part", "off", "identity", "verdict", "query_tokens", "key_tokens", "other_stack", "other_head",
    "model", "revision",
}  # fmt: skip
_TOKENS = {"token", "at", "query_token", "key_token", "chosen", "against"}


def kind_of(column: str) -> Kind:
    """Return the kind of a column by its name.

    Examples
    --------
    >>> [kind_of(name).value for name in ("layer", "head", "k_energy_rank_change", "ov_energy_rank", "weight")]
    ['whole numbers', 'text', 'whole numbers', 'whole numbers', 'numbers']
    """
    if column in _TEXT:
        return Kind.TEXT
    if column in _TOKENS:
        return Kind.TOKEN
    return Kind.WHOLE if _WHOLE.fullmatch(column) else Kind.NUMBER


LeftOut = Mapping[Head, str]
"""By layer, why it has no rows."""


@dataclass(frozen=True, eq=False)
class Table:
    """A data frame with a name; compared by identity.

    Attributes
    ----------
    name : ``ranks``, ``spectrum``, ``attention``, ``check``, or the name of a `View`.
    frame : columns of int64, float64 or text by `kind_of`; undefined cells are null, never NaN.
    left_out : layers without rows, and why, such as NaN in their weights.
    lacking : what is empty or missing in the rows, and why.
    """

    name: str
    frame: polars.DataFrame
    left_out: LeftOut = field(default_factory=dict)
    lacking: tuple[str, ...] = ()

    @classmethod
    def of_rows(
        cls,
        name: str,
        columns: Sequence[str],
        rows: Iterable[Row],
        left_out: LeftOut | None = None,
        lacking: tuple[str, ...] = (),
    ) -> Table:
        """Make a table of rows. NaN, None and empty texts (except tokens) become null.

        A column of whole numbers becomes text if it also holds words, such as ``mean`` as a layer.
        """
        import polars

        cells = list(zip(*rows, strict=True)) or [()] * len(columns)
        frame = polars.DataFrame([_series(*column) for column in zip(columns, cells, strict=True)])
        return cls(name, frame, left_out or {}, lacking)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self.frame.columns)

    @cached_property
    def rows(self) -> list[tuple[Cell, ...]]:
        """Its rows, None for null."""
        return self.frame.rows()

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows."""
        return iter(self.rows)

    def with_frame(self, frame: polars.DataFrame) -> Table:
        """Return it with other rows or columns."""
        return replace(self, frame=frame)

    def pieces(self) -> Iterator[Table]:
        """Yield itself; a `LargeTable` yields several pieces."""
        yield self


def _series(name: str, cells: Sequence[Cell]) -> polars.Series:
    import polars

    kind = kind_of(name)
    if kind is Kind.TOKEN:
        return polars.Series(name, cells, polars.String)
    present = [None if cell is None or cell == "" or cell != cell else cell for cell in cells]
    if kind is Kind.WHOLE:
        present = [int(cell) if isinstance(cell, str) and cell.isdecimal() else cell for cell in present]
    if kind is Kind.TEXT or (kind is Kind.WHOLE and any(isinstance(cell, str) for cell in present)):
        return polars.Series(name, [None if cell is None else str(cell) for cell in present], polars.String)
    return polars.Series(name, present, polars.Int64 if kind is Kind.WHOLE else polars.Float64, strict=False)


PIECE = 4096
"""Rows of a large table that are in memory at once."""


@dataclass(frozen=True, eq=False)
class LargeTable:
    """A table that may be too large for memory: its rows can be read once.

    Attributes
    ----------
    name, columns : as in `Table`.
    rows : each as long as ``columns``.
    """

    name: str
    columns: tuple[str, ...]
    rows: Iterable[Row]

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows."""
        return iter(self.rows)

    def pieces(self) -> Iterator[Table]:
        """Yield it in tables of at most `PIECE` rows, of the same types; at least one."""
        rows, schema = iter(self.rows), None
        while (some := list(itertools.islice(rows, PIECE))) or schema is None:
            frame = Table.of_rows(self.name, self.columns, some).frame
            schema = schema or frame.schema
            yield Table(self.name, frame.cast(schema))
            del frame


AnyTable = Table | LargeTable


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows of one unit of work on a view.

    Attributes
    ----------
    rows : each with a cell for every column.
    left_out, lacking : as in `Table`.
    progress : of the work, if known.
    """

    rows: Sequence[Row] = ()
    left_out: LeftOut = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    progress: Progress | None = None


Groups: TypeAlias = Iterator[RowGroup | Lane | None]
"""What a view yields: groups of rows, and between them what `Work` yields, a lane or None.

So a view may contain ``values = yield from model.spectra.layer(…)``.
"""

NAMED_LAYERS = 3
"""The most left-out layers that a title names."""

UNREAD = "it did not run on this sentence"
"""Why a layer that the model does not run is left out."""


def left_out_title(left_out: LeftOut) -> str:
    """Name the layers that are left out for a title; empty if none is.

    Examples
    --------
    >>> left_out_title({Head("decoder", 2): "w holds 1 NaN or infinite numbers of 16"}), left_out_title({})
    ('without L2 (NaN or infinite)', '')
    >>> left_out_title({Head("decoder", number): "w holds numbers up to 1e+100, of which …" for number in range(5)})
    'without L0, L1, L2 and 2 more (beyond float64)'
    """
    if not left_out:
        return ""
    several = len({layer.stack for layer in left_out}) > 1
    names = [f"{layer.stack} {layer}" if several else str(layer) for layer in left_out]
    more = f" and {len(names) - NAMED_LAYERS} more" if len(names) > NAMED_LAYERS else ""
    said = " ".join(left_out.values())
    why = "NaN or infinite" if "NaN" in said else "unread" if UNREAD in said else "beyond float64"
    return f"without {', '.join(names[:NAMED_LAYERS])}{more} ({why})"


def no_rows_error(left_out: LeftOut) -> EngineError:
    """Make an error that says why a table has no rows at all.

    Examples
    --------
    >>> print(no_rows_error({Head("decoder", number): "w holds 1 NaN or infinite numbers of 16" for number in (0, 1)}))
    nothing can be computed: decoder L0: w holds 1 NaN or infinite numbers of 16, and so on in L1; open a sound copy
    """
    (first, what), *others = left_out.items()
    more = f", and so on in {', '.join(str(layer) for layer, _ in others[:NAMED_LAYERS])}" if others else ""
    return EngineError(f"nothing can be computed: {first.stack} {first}: {what}{more}; open a sound copy")
