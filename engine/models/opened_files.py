"""Weight files as they were when a model was opened, and whether they still are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.values.errors import EngineError

_State = tuple[int, int, int]


class OpenedFiles:
    """Some files as they are now."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._states = {file: _state(file) for file in files}

    def check(self, file: Path) -> None:
        """Make sure that a file is the one that was opened; that it has gone is said where it is read.

        Raises
        ------
        EngineError : when it was written again or replaced, so that what is read now is of another model.
        """
        opened, now = self._states[file], _state(file)
        if opened is not None and now is not None and now[1:] != opened[1:]:
            raise _written_again(file)

    def check_all(self) -> None:
        """Make sure that all files are those that were opened.

        Raises
        ------
        EngineError : as in `check`.
        """
        for file in self._states:
            self.check(file)

    def check_mapped(self) -> None:
        """Make sure that what is mapped into memory is still what was opened.

        A file that another one has replaced, or that was deleted, stays mapped as it was. One that was written over in
        its place does not, and where it has become shorter the system ends whoever looks at what it held.

        Raises
        ------
        EngineError : when one was written over.
        """
        for file, opened in self._states.items():
            now = _state(file)
            if opened is not None and now is not None and now[0] == opened[0] and now != opened:
                raise _written_again(file)


def _written_again(file: Path) -> EngineError:
    """Say what has become of a file."""
    return EngineError(f"{file} has been written again since the model was opened; open it again")


def _state(file: Path) -> _State | None:
    """Give what a file is known by: which it is on its disk, its size and its time; None where there is none."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
