"""The formats of tables in files: CSV, JSON lines and Parquet, all from the same rows."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from engine.service.files import requested_file, write_rows
from engine.values.errors import EngineError
from engine.values.kinds import kind_of, value_of
from engine.values.tables import Table

FORMATS = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}
"""By what it is called on the command line and what its files end with, how a person calls it."""

_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_COMPRESSED = ".gz"


def format_of(path: Path) -> str | None:
    """Tell the format from a file's ending, ``.csv`` or ``.csv.gz``; None where it says nothing.

    Examples
    --------
    >>> [format_of(Path(name)) for name in ("a.csv.gz", "a.ndjson", "a.parquet", "a.txt")]
    ['csv', 'jsonl', 'parquet', None]
    """
    ending = path.with_suffix("").suffix if path.suffix.lower() == _COMPRESSED else path.suffix
    return _ENDINGS.get(ending.lower())


def check_format(format: str, path: Path | None = None) -> None:
    """See to it that a table can be written in a format before anything is computed for it.

    Raises
    ------
    EngineError : where a library is missing, or the file's ending asks for what the format has already.
    """
    if format == "parquet":
        from engine.service.parquet import require_pyarrow

        require_pyarrow()
        if path is not None and path.suffix.lower() == _COMPRESSED:
            raise EngineError(f"Parquet is compressed already; call the file {path.with_suffix('').name}")


def write_json_lines(table: Table, stream: TextIO) -> None:
    """Write a table as one JSON object a row, numbers so that they read back exactly.

    What JSON has no number for, that is NaN and infinities, is null, and so are empty cells.
    """
    columns = [(name, kind_of(name)) for name in table.columns]
    for row in table:
        found = {name: value_of(cell, kind) for (name, kind), cell in zip(columns, row, strict=True)}
        for name, value in found.items():
            if isinstance(value, float) and not math.isfinite(value):
                found[name] = None
        stream.write(json.dumps(found, ensure_ascii=False, separators=(",", ":")))
        stream.write("\n")


TEXT_WRITERS: Mapping[str, Callable[[Table, TextIO], None]] = {"csv": write_rows, "jsonl": write_json_lines}
"""What writes a table as text, by format."""


def write_table(table: Table, path: Path, format: str, facts: Mapping[str, str] | None = None) -> Path:
    """Write a table to a file, row after row, and give its path.

    Parameters
    ----------
    table : what is written.
    path : text is compressed where it ends with ``.gz``.
    format : one of `FORMATS`.
    facts : what the table is of, for a format that has a place for it.

    Raises
    ------
    EngineError : when the file cannot be written.
    """
    check_format(format, path)
    with requested_file(path) as partial:
        if format == "parquet":
            from engine.service.parquet import write_parquet

            write_parquet(table, partial, facts or {})
        else:
            with _text_file(partial, is_compressed=path.suffix.lower() == _COMPRESSED) as stream:
                TEXT_WRITERS[format](table, stream)
    return path


@contextmanager
def _text_file(path: Path, *, is_compressed: bool) -> Iterator[TextIO]:
    """Open a file to write text to; the same rows give the same bytes, whenever they are compressed."""
    if not is_compressed:
        with path.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        return
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as stream,
    ):
        yield stream
