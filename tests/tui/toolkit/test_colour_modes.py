"""The living program in four colour modes: what the terminal is sent."""

from __future__ import annotations

import re
import sys

import pytest

from tests.terminal import Terminal
from tests.tui.painted import good_terminal

STARTED = "from tui.cli.command_line import main; main()"
STYLE = re.compile(rb"\x1b\[([\d;]*)m")
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


@pytest.mark.parametrize("mode", MODES)
def test_every_view_has_the_terminals_colours_or_signs(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    environment, expected = MODES[mode]
    command = (sys.executable, "-c", STARTED, "demo", "--head", "L1H2", "--text", "the cat sat on the mat")
    with Terminal(*command, columns=100, rows=30, environment=environment) as terminal:
        terminal.wait_for(" ind")  # the model has been swept
        for key in "3]w1":
            terminal.send(key)
            terminal.settle()
        terminal.send("q")
        assert terminal.exit_code() == 0
    has_signs = not set("░▒▓").isdisjoint(terminal.text())
    assert has_signs == (mode in ("none", "16")), "they tell levels apart where there are no colours"
    assert colours(terminal.output) == expected
