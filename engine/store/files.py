"""Files that are complete or absent: written beside their place and renamed."""

from __future__ import annotations

import errno
import itertools
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.values.errors import EngineError

_MADE_BY = re.compile(r"\..*\.(\d+)-[0-9a-f]{8}\.part").fullmatch
"""Finds in the name of a half-written file the number of the process that writes it."""


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give a path beside the real one to write to, and move it into place when the block ends without an error.

    A link is followed, so that it stays a link; a device or a pipe has no place to move to and is written to as it is.
    """
    try:
        path = path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
    if path.exists() and not path.is_file():
        yield path
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        yield partial
        if path.exists():
            partial.chmod(path.stat().st_mode & 0o777)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def remove_abandoned(folders: Iterable[Path]) -> None:
    """Delete what `replaced_file` gave to programs to write to that were killed, in some folders."""
    for folder in folders:
        for partial in folder.glob(".*.part"):
            made_by = _MADE_BY(partial.name)
            if made_by is not None and not _is_running(int(made_by[1])):
                with suppress(OSError):
                    partial.unlink()


def _is_running(process: int) -> bool:
    """Say whether there is a process of a number, whoever's it is."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def requested_file(path: Path) -> Iterator[Path]:
    """Like `replaced_file`, for a file a person asked for: what goes wrong is said in one line.

    Raises
    ------
    EngineError : when the file cannot be written.
    """
    if path.is_dir():
        raise EngineError(f"{path} is a folder; give the name of a file in it")
    try:
        with replaced_file(path) as partial:
            yield partial
    except OSError as error:
        raise EngineError(f"{path} cannot be written: {error.strerror or error}; choose another place") from error


@contextmanager
def claimed_path(path: Path) -> Iterator[Path]:
    """Take the name of a new file until the block ends; where somebody has it, the next: ``a.csv``, ``a-2.csv``.

    Of several programs that write into a folder at once no two take the same: beside the place of the file a hidden
    one is made, which only one of them can make. Where none can be made, whoever writes the file says why.
    """
    for wanted in itertools.chain((path,), _numbered_after(path)):
        claim = wanted.with_name(f".{wanted.name}.part")
        try:
            claim.open("x").close()
        except FileExistsError:
            continue
        except OSError:
            yield wanted
            return
        try:
            if not wanted.exists():
                yield wanted
                return
        finally:
            claim.unlink(missing_ok=True)


def _numbered_after(path: Path) -> Iterator[Path]:
    """Give the names that follow one: ``a-2.csv.gz`` after ``a.csv.gz``, ``a-4.csv`` after ``a-3.csv``."""
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    stem = path.name.removesuffix(ending)
    numbered = re.fullmatch(r"(.+)-(\d+)", stem)
    stem, first = (numbered[1], int(numbered[2]) + 1) if numbered else (stem, 2)
    return (path.with_name(f"{stem}-{number}{ending}") for number in itertools.count(first))


def write_npz(arrays: Iterable[tuple[str, NDArray[Any]]], path: Path) -> Path:
    """Write named arrays to an uncompressed ``.npz``, one at a time, so that none has to wait for the others.

    Raises
    ------
    EngineError : when the file cannot be written.
    """
    with requested_file(path) as partial, zipfile.ZipFile(partial, "w", allowZip64=True) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            del array  # before there is the next one
    return path


def unused_path(stem: str, suffix: str, folder: Path | None = None) -> Path:
    """Find a name that no file of a folder has yet: ``stem.csv``, ``stem-2.csv`` and so on.

    Parameters
    ----------
    stem, suffix : what the name begins and ends with.
    folder : the current one, unless another is given.

    Raises
    ------
    EngineError : when the current folder is gone.
    """
    if folder is None:
        try:
            folder = Path.cwd()
        except OSError as error:
            raise EngineError("the current folder is gone; start attn-tui in another one to write files") from error
    number = 1
    while (path := folder / f"{stem}{'' if number == 1 else f'-{number}'}{suffix}").exists():
        number += 1
    return path
