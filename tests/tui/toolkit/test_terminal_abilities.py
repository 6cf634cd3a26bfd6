"""What a terminal can do is looked up in the system's terminfo, and not taken for granted where nothing says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tui import terminal_abilities

ASKED = "from tui.terminal_abilities import erases_in_colour; print(erases_in_colour())"


@pytest.mark.parametrize(
    ("name", "erases"),
    [
        ("xterm-256color", True),
        ("screen-256color", False),
        ("vt100", False),
        ("no-such-terminal", False),
        (None, False),
    ],
)
def test_a_terminal_erases_in_colour_where_its_description_says_so(name: str | None, erases: bool) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TERM"}
    answer = subprocess.run(
        [sys.executable, "-c", ASKED],
        env=environment if name is None else environment | {"TERM": name},
        capture_output=True,
        check=True,
        text=True,
    )
    assert answer.stdout == f"{erases}\n"
    assert answer.stderr == ""


def test_gnu_screen_under_another_name_erases_in_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("STY", "1.pts-0.box")
    assert not terminal_abilities.erases_in_colour()


def test_without_terminfo_nothing_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "curses", None)
    assert not terminal_abilities.erases_in_colour()
