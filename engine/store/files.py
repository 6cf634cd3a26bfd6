"""Where this program keeps its files, its log, and files that are complete or absent: written aside and renamed."""

from __future__ import annotations

import errno
import itertools
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from platformdirs import user_cache_path, user_config_path, user_log_path, user_state_path

from engine.values.display_text import visible_lines
from engine.values.errors import EngineError

APPLICATION = "attn-tui"

_partial_files: set[Path] = set()
"""What this process is writing."""


def cache_directory() -> Path:
    """Say where spectra are kept between runs."""
    return user_cache_path(APPLICATION)


def config_directory() -> Path:
    """Say where settings are."""
    return user_config_path(APPLICATION)


def state_directory() -> Path:
    """Say where what is remembered from one start to the next is."""
    return user_state_path(APPLICATION)


def log_file() -> Path:
    """Say where errors are written in full."""
    return user_log_path(APPLICATION) / "attn-tui.log"


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
    _partial_files.add(partial)
    try:
        yield partial
        if path.exists():
            partial.chmod(path.stat().st_mode & 0o777)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        _partial_files.discard(partial)


def remove_partial_files() -> None:
    """Delete what this process has begun to write, before it ends without clean-up."""
    for partial in list(_partial_files):
        with suppress(OSError):
            partial.unlink()


def remove_abandoned(folder: Path) -> None:
    """Delete the parts that `replaced_file` gave to programs which have ended since."""
    for partial in folder.glob(".*.*-*.part"):
        process = partial.name.split(".")[-2].partition("-")[0]
        if process.isdecimal() and not _is_running(int(process)):
            with suppress(OSError):
                partial.unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another person's
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


def unused_path(path: Path) -> Path:
    """Give a path that no file has yet: the one given, or ``a-2.csv``, ``a-3.csv`` and so on.

    Raises
    ------
    EngineError : when the current folder is gone.
    """
    try:
        path = path if path.is_absolute() else Path.cwd() / path
    except OSError as error:
        raise EngineError("the current folder is gone; start attn-tui in another one to write files") from error
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    stem = path.name.removesuffix(ending)
    numbered = (path.with_name(f"{stem}-{number}{ending}") for number in itertools.count(2))
    return next(each for each in itertools.chain((path,), numbered) if not each.exists())


LARGEST_LOG = 1_000_000
"""Bytes from which on the log begins anew; the one before is kept beside it."""


def write_log(error: BaseException) -> str:
    """Keep an error that nobody foresaw with its traceback in the log; give the line that a person reads.

    What the log holds can be shown on a terminal: control characters are written as escapes. Of a person's own it has
    the names of models and files, where an error names them; sentences are not written into it.
    """
    place, text = log_file(), "".join(traceback.format_exception(error))
    where = f"its traceback is in {place}"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if place.stat().st_size > LARGEST_LOG:
                place.replace(place.with_suffix(".old.log"))
        with place.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} [{os.getpid()}]\n{visible_lines(text)}\n")
    except OSError:
        where = "see its traceback with --debug"
    reason = str(error).strip().partition("\n")[0]
    return f"unexpected {type(error).__name__}: {reason}; {where}"
