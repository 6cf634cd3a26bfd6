"""Standard output that is closed or full: said in a line, as any other file that cannot be written."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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


def is_of_a_stream(error: OSError) -> bool:
    """Say whether an error is of a stream that was open already, and so of no file that the error would name."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG)


def unwritable(error: OSError) -> str:
    """Say why standard output cannot be written."""
    return f"standard output cannot be written: {error.strerror or os.strerror(error.errno or 0)}"
