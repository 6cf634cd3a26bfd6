"""Tables as Parquet files, through pyarrow, which is not everywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from engine.values.errors import EngineError
from engine.values.kinds import Kind, kind_of, value_of
from engine.values.tables import Cell, Table

if TYPE_CHECKING:
    import pyarrow

ROW_GROUP = 65_536
"""Rows that are held until they are written."""

AT_ONCE = 2048
"""Rows that are packed at a time: while it packs, pyarrow lets no other thread run, and a screen may be waiting."""


def require_pyarrow() -> None:
    """See to it that Parquet files can be written.

    Raises
    ------
    EngineError : where pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise EngineError("Parquet files need pyarrow: pip install 'attn-tui[parquet]'; or write CSV or JSON lines")


def write_parquet(table: Table, path: Path, facts: Mapping[str, str]) -> None:
    """Write a table, a row group after the other, with what it is of in the file's metadata.

    Columns are int64, double or string by what they hold, whatever the rows are; empty cells are null. A column of
    numbers whose first cell is a text, such as ``mean`` for the layer, is of strings.

    Raises
    ------
    EngineError : where pyarrow is not installed.
    OSError : when the file cannot be written.
    """
    require_pyarrow()
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    rows = iter(table)
    first = list(itertools.islice(rows, 1))
    schema = _schema(table, first).with_metadata(dict(facts))
    packed = _packed(itertools.chain(first, rows), table.columns, schema)
    with path.open("wb") as stream, ParquetWriter(stream, schema) as writer:
        while group := list(itertools.islice(packed, ROW_GROUP // AT_ONCE)):
            writer.write_table(pyarrow.Table.from_batches(group, schema))


def _schema(table: Table, first: Sequence[Sequence[Cell]]) -> pyarrow.Schema:
    """Say what type each column has."""
    import pyarrow

    types = {Kind.WHOLE: pyarrow.int64(), Kind.NUMBER: pyarrow.float64()}
    found = {name: types.get(kind_of(name), pyarrow.string()) for name in table.columns}
    for row in first:
        for name, cell in zip(table.columns, row, strict=True):
            if isinstance(value_of(cell, kind_of(name)), str):
                found[name] = pyarrow.string()
    return pyarrow.schema(list(found.items()))


def _packed(
    rows: Iterator[Sequence[Cell]], columns: Sequence[str], schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """Put rows beside each other as columns, some at a time."""
    while some := list(itertools.islice(rows, AT_ONCE)):
        yield _batch(some, columns, schema)


def _batch(rows: Sequence[Sequence[Cell]], columns: Sequence[str], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Put rows beside each other as columns."""
    import pyarrow

    arrays = []
    for name, cells, field in zip(columns, zip(*rows, strict=True), schema, strict=True):
        kind = kind_of(name)
        values = [value_of(cell, kind) for cell in cells]
        if pyarrow.types.is_string(field.type):
            values = [None if value is None else str(value) for value in values]
        arrays.append(pyarrow.array(values, field.type))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
