"""A program in a pseudo-terminal: its bytes as they come, keys to type, and the time each takes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[@-Z\\-_]|[=>])")
"""Control sequences of a terminal."""

COMMAND = str(Path(sys.executable).with_name("attn-tui"))
"""The installed command."""

FIRST_HEAD = "× chance "
"""Appears in the overview once the value of the head under its cursor is known."""

PATIENCE = 90.0
"""Seconds after which what was waited for is missing, however many others the machine works for."""


class Terminal:
    """Runs a command in a pseudo-terminal of a given size."""

    def __init__(self, *command: str, columns: int = 80, rows: int = 24, environment: Mapping[str, str] | None = None):
        self.started = time.monotonic()
        self.output = b""
        self.process, self._master = pty.fork()
        if self.process == 0:
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm-256color", **(environment or {})})
        self.resize(columns, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.exit_code(0.0) is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self._master)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def ask(self, keys: str, answer: str, seconds: float = PATIENCE) -> None:
        """Type, and read until a text has been written after that."""
        since = len(self.output)
        self.send(keys)
        self.wait_for(answer, seconds, since)

    def read(self, seconds: float) -> bytes:
        """Collect what is written during a time."""
        end, before = time.monotonic() + seconds, len(self.output)
        while (left := end - time.monotonic()) > 0 and self._receive(left):
            pass
        return self.output[before:]

    def _receive(self, seconds: float) -> bool:
        """Wait for a piece of output; False when the program has closed its end."""
        if select.select([self._master], [], [], max(0.0, seconds))[0]:
            try:
                piece = os.read(self._master, 1 << 16)
            except OSError:
                return False
            self.output += piece
            return bool(piece)
        return True

    def settle(self, quiet: float = 0.3, limit: float = 30.0) -> tuple[int, float]:
        """Read until nothing has come for a while; give the number of bytes, and the seconds until the last one."""
        start = last = time.monotonic()
        count = 0
        while time.monotonic() - last < quiet and time.monotonic() - start < limit:
            if piece := self.read(0.01):
                count, last = count + len(piece), time.monotonic()
        return count, last - start

    def text(self, since: int = 0) -> str:
        """Give what was written, without control sequences."""
        return ESCAPE.sub(b"", self.output[since:]).decode("utf-8", errors="replace")

    def wait_for(self, text: str, seconds: float = PATIENCE, since: int = 0) -> float:
        """Read until a text has been written; give the seconds since the program's start.

        Raises
        ------
        TimeoutError : with the last of what was written instead.
        """
        end = time.monotonic() + seconds
        while text not in self.text(since):
            if time.monotonic() > end or not self._receive(0.02):
                raise TimeoutError(f"{text!r} was not written; the last was {self.text(since)[-600:]!r}")
        return time.monotonic() - self.started

    def exit_code(self, seconds: float = 10.0) -> int | None:
        """Wait for the program's end; None when it goes on."""
        end = time.monotonic() + seconds
        while True:
            try:
                process, status = os.waitpid(self.process, os.WNOHANG)
            except ChildProcessError:
                return self._code
            if process:
                self.read(0.05)
                self._code = os.waitstatus_to_exitcode(status)
                return self._code
            if time.monotonic() >= end:
                return None
            self._receive(0.02)

    _code: int | None = None
