"""Standard error, and standard output on a terminal: what is written to them cannot control the terminal."""

from __future__ import annotations

import io
import sys
from typing import TextIO

from engine.values.display_text import visible_lines


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
