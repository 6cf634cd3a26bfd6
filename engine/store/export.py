"""Tables in files, CSV, JSON lines and Parquet, written by Polars, a large one in pieces; and arrays in NumPy's."""

from __future__ import annotations

import contextvars
import gzip
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.store.files import requested_file
from engine.values.errors import EngineError
from engine.values.table import LargeTable, Table

if TYPE_CHECKING:
    import polars
    from numpy.typing import NDArray

FORMATS = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}
"""By what it is called on the command line and what its files end with, how a person calls it."""

_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_COMPRESSED = ".gz"


def format_of(path: Path) -> str | None:
    """Tell the format from a file's ending, ``.csv`` or ``.csv.gz``; None where it says nothing."""
    ending = path.with_suffix("").suffix if path.suffix.lower() == _COMPRESSED else path.suffix
    return _ENDINGS.get(ending.lower())


def check_format(format: str, path: Path | None = None) -> None:
    """See to it that a table can be written in a format before anything is computed for it.

    Raises
    ------
    EngineError : where the file's ending asks for what the format has already.
    """
    if format == "parquet" and path is not None and path.suffix.lower() == _COMPRESSED:
        raise EngineError(f"Parquet is compressed already; call the file {path.with_suffix('').name}")


def text_of(pieces: Iterable[Table], format: str) -> Iterator[str]:
    """Write the pieces of a table as CSV or JSON lines, each as a text; numbers so that they read back exactly.

    Empty cells of CSV are null; an empty text, as of a token that is written as nothing, is ``""``. In JSON null also
    stands for numbers that are not finite. Nothing is written before there is the first piece.
    """
    for number, piece in enumerate(pieces):
        yield piece.frame.write_csv(include_header=number == 0) if format == "csv" else piece.frame.write_ndjson()
        del piece


def write_table(
    table: Table | LargeTable | Iterable[Table], path: Path, format: str, facts: Mapping[str, str] | None = None
) -> Path:
    """Write a table, or the pieces of one, to a file, a piece after the other, and give its path.

    Text is compressed where the path ends with ``.gz``; the facts go into Parquet's metadata.

    Raises
    ------
    EngineError : when the file cannot be written.
    """
    import polars  # noqa: F401  # which takes a while: before there is a file, of which nothing may be left

    check_format(format, path)
    pieces = iter(table.pieces() if isinstance(table, Table | LargeTable) else table)
    with requested_file(path) as partial:
        if format == "parquet":
            _frame_of(pieces).sink_parquet(partial, metadata=dict(facts or {}), row_group_size=1 << 16)
        elif path.suffix.lower() == _COMPRESSED:  # the same rows give the same bytes, whenever they are compressed
            with partial.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                packed.writelines(text.encode() for text in text_of(pieces, format))
        else:
            with partial.open("w", encoding="utf-8", newline="") as stream:
                stream.writelines(text_of(pieces, format))
    return path


def _frame_of(pieces: Iterator[Table]) -> polars.LazyFrame:
    """Give pieces as a frame that Polars streams; it asks for the next on a thread of its own."""
    from polars.io.plugins import register_io_source

    first, context = next(pieces), contextvars.copy_context()

    def source(*_: object) -> Iterator[polars.DataFrame]:
        yield first.frame
        while (piece := context.run(next, pieces, None)) is not None:
            yield piece.frame

    return register_io_source(source, schema=first.frame.schema)


def write_npz(arrays: Iterable[tuple[str, NDArray[Any]]], path: Path) -> Path:
    """Write named arrays to an uncompressed ``.npz``, one at a time, so that none has to wait for the others.

    Raises
    ------
    EngineError : when the file cannot be written.
    """
    import numpy as np

    with requested_file(path) as partial, zipfile.ZipFile(partial, "w", allowZip64=True) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            del array  # before there is the next one
    return path
