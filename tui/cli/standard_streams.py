"""The standard streams: nothing that is written to them controls the terminal, and whether it shows more than ASCII."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from engine.values.display_text import visible_lines

VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
"""Which of them that is not empty comes first says what characters are written as."""

BEGUN_WITH = Path("/proc/self/environ")
"""What the process was begun with, on Linux. Python itself sets ``LC_CTYPE`` where the locale is C (PEP 538)."""


class TerminalStream(io.TextIOBase):
    """A text stream that writes control characters as escapes, whoever wrote them.

    Ends of lines and tabs are kept, and carriage returns around all that is written at once, which draw a line of
    progress over the one before.

    Parameters
    ----------
    stream : where the text goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class has a place for it, and cannot be told it
        """The encoding of the stream; without one click would write past this one."""
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """What becomes of characters that the encoding lacks."""
        return self._stream.errors

    def write(self, text: str) -> int:
        """Write text that cannot control the terminal."""
        body = text.strip("\r")
        before, _, after = text.partition(body) if body else (text, "", "")
        self._stream.write(f"{before}{visible_lines(body)}{after}")
        return len(text)

    def flush(self) -> None:
        """Send what is held back."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Say whether a terminal shows what is written."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Give the number of the file that is written to."""
        return self._stream.fileno()


def make_standard_streams_harmless() -> None:
    """Put a `TerminalStream` before standard error, and before standard output where that is a terminal.

    Standard error is for people to read wherever it goes. Standard output that goes to a file keeps every byte.
    """
    sys.stderr = TerminalStream(sys.stderr)
    if sys.stdout.isatty():
        sys.stdout = TerminalStream(sys.stdout)


def ascii_because() -> str:
    """Give what says that the terminal shows ASCII alone, such as ``LANG=C``; nothing where nothing says so.

    Where none of the variables is set, as in a container, that says nothing of the terminal.
    """
    return said_by(_environment())


def said_by(environment: Mapping[str, str]) -> str:
    """Give what in an environment says so.

    Examples
    --------
    >>> said_by({"LANG": "C"}), said_by({"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}), said_by({"LANG": "de_DE@euro"})
    ('LANG=C', 'LC_ALL=POSIX', '')
    >>> said_by({"LANG": "C.UTF-8"}), said_by({"LC_ALL": "", "LC_CTYPE": "C.utf8", "LANG": "C"}), said_by({})
    ('', '', '')
    """
    for name in VARIABLES:
        if value := environment.get(name):
            return f"{name}={value}" if value in ("C", "POSIX") else ""
    return ""


def _environment() -> Mapping[str, str]:
    """Give the environment that the process was begun with, where the system tells, else as it is."""
    try:
        begun = BEGUN_WITH.read_bytes()
    except OSError:
        return os.environ
    pairs = (each.partition("=") for each in os.fsdecode(begun).split("\0"))
    return {name: value for name, _, value in pairs}
