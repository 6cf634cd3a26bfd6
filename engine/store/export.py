"""Tables written as CSV, JSON lines and Parquet by Polars, in pieces if they are large; and arrays as NPZ."""

from __future__ import annotations

import errno
import gzip
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any

from engine.store.files import requested_file
from engine.values.errors import EngineError
from engine.values.table import LargeTable, Table

if TYPE_CHECKING:
    import polars
    from numpy.typing import NDArray

FORMATS = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}
"""The name of each format as people write it, by its option and the ending of its files."""

_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_COMPRESSED = ".gz"

LEAST_FREE = 2**16
"""Bytes of a disk below which an error of writing that Polars does not explain is taken for a full disk."""


def format_of(path: Path) -> str | None:
    """Return the format of a file's ending, ``.csv`` or ``.csv.gz``; None if it has none."""
    ending = path.with_suffix("").suffix if path.suffix.lower() == _COMPRESSED else path.suffix
    return _ENDINGS.get(ending.lower())


def check_format(format: str, path: Path | None = None) -> None:
    """Raise `EngineError` for a compressed Parquet file, before anything is computed for it."""
    if format == "parquet" and path is not None and path.suffix.lower() == _COMPRESSED:
        raise EngineError(f"Parquet is compressed already; call the file {path.with_suffix('').name}")


def text_of(pieces: Iterable[Table], format: str) -> Iterator[str]:
    """Write each piece of a table as a text of CSV or JSON lines; numbers read back exactly.

    Empty cells of CSV are null; an empty text, as of an empty token, is ``""``. In JSON null also stands for numbers
    that are not finite.
    """
    for number, piece in enumerate(pieces):
        yield piece.frame.write_csv(include_header=number == 0) if format == "csv" else piece.frame.write_ndjson()
        del piece


def write_table(
    table: Table | LargeTable | Iterable[Table], path: Path, format: str, facts: Mapping[str, str] | None = None
) -> Path:
    """Write a table, or the pieces of one, to a file, one piece at a time, and return its path.

    Text is compressed if the path ends with ``.gz``; the facts go into Parquet's metadata. Raises `EngineError` when
    the file cannot be written.
    """
    import polars  # noqa: F401  # it takes a while, in which no partial file should exist

    check_format(format, path)
    pieces = iter(table.pieces() if isinstance(table, Table | LargeTable) else table)
    with requested_file(path) as partial:
        if format == "parquet":
            with _os_errors(partial):
                _lazy_frame(pieces).sink_parquet(partial, metadata=dict(facts or {}), row_group_size=1 << 16)
        elif path.suffix.lower() == _COMPRESSED:  # without a time, so that the same rows give the same bytes
            with partial.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                packed.writelines(text.encode() for text in text_of(pieces, format))
        else:
            with partial.open("w", encoding="utf-8", newline="") as stream:
                stream.writelines(text_of(pieces, format))
    return path


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    """Raise what the system refuses, such as a full disk, as Python does; Polars has it in its message at most."""
    import polars

    try:
        yield
    except polars.exceptions.ComputeError as error:
        said = re.search(r"\(os error (\d+)\)", str(error))
        if said is None and disk_usage(path).free > LEAST_FREE:
            raise
        number = errno.ENOSPC if said is None else int(said[1])
        raise OSError(number, os.strerror(number)) from error


def _lazy_frame(pieces: Iterator[Table]) -> polars.LazyFrame:
    """Make a frame of pieces that Polars streams, reading each on its own thread."""
    from polars.io.plugins import register_io_source

    first = next(pieces)

    def source(*_: object) -> Iterator[polars.DataFrame]:
        yield first.frame
        for piece in pieces:
            yield piece.frame
            del piece

    return register_io_source(source, schema=first.frame.schema)


def write_npz(arrays: Iterable[tuple[str, NDArray[Any]]], path: Path) -> Path:
    """Write named arrays to an uncompressed ``.npz``, one at a time; `EngineError` when it cannot be written."""
    import numpy as np

    with requested_file(path) as partial, zipfile.ZipFile(partial, "w", allowZip64=True) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            del array  # before the next one is made
    return path
