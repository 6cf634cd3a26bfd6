"""How a command ends that is cut off: by standard output that is closed or full, or by a person with ctrl+c."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ClosedStream(io.TextIOBase):
    """Stands for a standard stream that the program was started without."""

    def write(self, text: str) -> int:
        """Refuse to write.

        Raises
        ------
        OSError : always.
        """
        raise OSError(errno.EBADF, "it is closed")


@contextmanager
def ended_by_a_closed_pipe() -> Iterator[None]:
    """End the process as other programs end whose output nobody reads any more: quietly, by the signal's number."""
    try:
        yield
    except BrokenPipeError:
        sys.exit(128 + signal.SIGPIPE)


@contextmanager
def ended_by_an_interrupt() -> Iterator[None]:
    """End the process as a shell expects of what ctrl+c has stopped: with one line, and by the signal's number."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stderr.write("attn-tui: stopped\n")
        sys.exit(128 + signal.SIGINT)


def is_of_a_stream(error: OSError) -> bool:
    """Say whether an error is of a stream that was open already, and so of no file that the error would name."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG)


def unwritable(error: OSError) -> str:
    """Say why standard output cannot be written."""
    return f"standard output cannot be written: {error.strerror or os.strerror(error.errno or 0)}"
