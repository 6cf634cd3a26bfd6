"""The living program in four colour modes and three sizes: what the terminal is sent, and what it then shows."""

from __future__ import annotations

import os
import re
import signal
import sys
import time

import pytest

from tests.terminal import ESCAPE, PATIENCE, Terminal
from tests.tui.painted import TerminalPicture, good_terminal

STARTED = "from tui.cli.command_line import main; main()"
STYLE = re.compile(rb"\x1b\[([\d;]*)m")
DRAWN = re.compile(rb"\x1b\[(\d+(;\d+)?H|\d+G|[\d;]*m)")
"""The control sequences that draw: moves of the cursor, and styles."""

NAMED = {*range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108)}
"""Codes of the sixteen colours that have names."""

MODES = {
    "truecolor": ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, {"rgb"}),
    "256": ({"TERM": "xterm-256color", "COLORTERM": "", "NO_COLOR": ""}, {"palette"}),
    "16": ({"TERM": "xterm", "COLORTERM": ""}, {"named"}),
    "none": ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, set[str]()),
}
"""What the environment says, and the kinds of colours that may be used then."""


def colours(output: bytes) -> set[str]:
    """Say what kinds of colours styles have."""
    kinds = set[str]()
    for match in STYLE.finditer(output):
        codes = [int(code or 0) for code in match[1].decode().split(";")]
        while codes:
            code = codes.pop(0)
            if code in (38, 48):
                is_palette = codes.pop(0) == 5
                kinds.add("palette" if is_palette else "rgb")
                del codes[: 1 if is_palette else 3]
            elif code in NAMED:
                kinds.add("named")
    return kinds


class Shown:
    """What a terminal shows, of a size that it is given."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._seen = 0
        self._picture = TerminalPicture()

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size, as a person drags its corner; it is told so by a signal."""
        self._terminal.settle()
        self._picture, self._seen = TerminalPicture(), len(self._terminal.output)
        self._terminal.resize(columns, rows)
        os.kill(self._terminal.process, signal.SIGWINCH)
        self._terminal.settle()

    def lines(self) -> list[str]:
        """Give the lines that it shows now."""
        self._terminal.settle(0.1)
        output = self._terminal.output[self._seen :]
        self._seen = len(self._terminal.output)
        drawn = ESCAPE.sub(lambda each: each[0] if DRAWN.fullmatch(each[0]) else b"", output)
        self._picture.write(re.sub(r"[\x00-\x07\x09\x0a\x0c-\x1a\x1c-\x1f]", "", drawn.decode()))
        rows = {row for row, _ in self._picture.cells}
        return [self._picture.line(row) for row in sorted(rows)]

    def comes_to(self, text: str, rows: int = 0) -> bool:
        """Wait until a text is on the screen, and as many lines, which a busy machine may take its time for."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            lines = self.lines()
            if len(lines) >= rows and any(text in line for line in lines):
                return True
        return False


@pytest.mark.parametrize("mode", MODES)
def test_every_size_shows_the_head_in_the_terminals_colours(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    environment, expected = MODES[mode]
    command = (sys.executable, "-c", STARTED, "demo", "--head", "L1H2", "--text", "the cat sat on the mat")
    with Terminal(*command, columns=100, rows=30, environment=environment) as terminal:
        shown = Shown(terminal)
        assert shown.comes_to(" ind")  # the model has been swept
        terminal.send("3")
        assert shown.comes_to('q 7 " mat" → k ')
        for columns, rows in ((160, 50), (40, 12), (80, 24)):
            shown.resize(columns, rows)
            assert shown.comes_to("L1H2", rows), (columns, rows, shown.lines())
            lines = shown.lines()
            assert len(lines) == rows
            assert {len(line) for line in lines} == {columns}
            has_signs = not set("░▒▓").isdisjoint("".join(lines))
            assert has_signs == (mode in ("none", "16")), "they tell levels apart where there are no colours"
        for key, answer in (("]", "L1H3"), ("w", "L1H3"), ("1", "L1H3")):
            terminal.send(key)
            assert shown.comes_to(answer), (key, shown.lines())
        terminal.send("q")
        assert terminal.exit_code() == 0
    assert colours(terminal.output) == expected
