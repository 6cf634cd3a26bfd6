"""The program's folders, its log, and files that are complete or absent: written beside their place and renamed."""

from __future__ import annotations

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
"""The partial files that this process is writing."""


def cache_directory() -> Path:
    """Return the folder of cached spectra."""
    return user_cache_path(APPLICATION)


def config_directory() -> Path:
    """Return the folder of settings."""
    return user_config_path(APPLICATION)


def state_directory() -> Path:
    """Return the folder of histories and saved state."""
    return user_state_path(APPLICATION)


def log_file() -> Path:
    """Return the file to which errors are written in full."""
    return user_log_path(APPLICATION) / "attn-tui.log"


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a path beside the real one to write to, and move it into place when the block ends without an error.

    A link is followed, so that it stays a link; a device or a pipe is written to directly.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
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
    """Delete this process's partial files, before it ends without clean-up."""
    for partial in list(_partial_files):
        with suppress(OSError):
            partial.unlink()


@contextmanager
def requested_file(path: Path) -> Iterator[Path]:
    """Like `replaced_file`, for a file that a person asked for; `EngineError` when it cannot be written."""
    if path.is_dir():
        raise EngineError(f"{path} is a folder; give the name of a file in it")
    try:
        with replaced_file(path) as partial:
            yield partial
    except OSError as error:
        raise EngineError(f"{path} cannot be written: {error.strerror or error}; choose another place") from error


def unused_path(path: Path) -> Path:
    """Find a path that no file has yet: the one given, or ``a-2.csv``, ``a-3.csv`` and so on.

    Raises `EngineError` when the current folder is gone.
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
"""When the log has more bytes than this, a new one is begun and the old one is kept beside it."""


def write_log(error: BaseException) -> str:
    """Write an unforeseen error with its traceback to the log; return the line that a person reads.

    Control characters are escaped, so that a terminal can show the log. It may hold names of models and files that an
    error mentions, but no sentences.
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
