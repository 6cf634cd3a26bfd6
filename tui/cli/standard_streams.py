"""The standard streams: they cannot steer the terminal, and a command ends properly when they or the person end it."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from engine.values.display_text import visible_lines

VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
"""The first of them that is set decides the terminal's character encoding."""


class ClosedStream(io.TextIOBase):
    """Stands for a standard stream that was closed when the program started."""

    def write(self, text: str) -> int:
        """Refuse to write; `OSError` always."""
        raise OSError(errno.EBADF, "it is closed")


class TerminalStream(io.TextIOWrapper):
    """A text stream that writes control characters as escapes, whoever wrote them.

    Line ends and tabs are kept, and so are carriage returns at both ends of a write, which overwrite a progress line.
    """

    buffer = None  # type: ignore[assignment]  # where the encoding is ASCII click would write past this stream

    def write(self, text: str) -> int:
        """Write text that cannot control the terminal."""
        body = text.strip("\r")
        before, _, after = text.partition(body) if body else (text, "", "")
        return super().write(f"{before}{visible_lines(body)}{after}")


def guard_standard_streams() -> None:
    """Put a `TerminalStream` before standard error, and before standard output if that is a terminal.

    Standard error is read by people wherever it goes. Standard output that goes to a file keeps every byte.
    """
    sys.stderr = _guarded(sys.stderr)
    if sys.stdout.isatty():
        sys.stdout = _guarded(sys.stdout)


def _guarded(stream: TextIO) -> TextIO:
    if isinstance(stream, ClosedStream):
        return stream
    return TerminalStream(stream.buffer, stream.encoding, stream.errors, line_buffering=True)


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Exit on ctrl+c with one line and the signal's status, as a shell expects."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stderr.write("attn-tui: stopped\n")
        sys.exit(128 + signal.SIGINT)


def is_stream_error(error: OSError) -> bool:
    """Say whether an error comes from an open stream, and not from a file, which it would name."""
    return error.filename is None and error.errno in (errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG)


def unwritable(error: OSError) -> str:
    """Say why standard output cannot be written."""
    return f"standard output cannot be written: {error.strerror or os.strerror(error.errno or 0)}"


def is_ascii_locale() -> bool:
    """Say whether the terminal shows only ASCII, as ``LANG=C`` says.

    In the C locale Python itself sets ``LC_CTYPE`` to C.UTF-8 (PEP 538), which says nothing of the terminal.
    """
    for name in VARIABLES:
        value = os.environ.get(name)
        if value and (name, value) != ("LC_CTYPE", "C.UTF-8"):
            return value in ("C", "POSIX")
    return False
