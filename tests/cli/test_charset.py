"""In the C locale the explorer draws with ASCII alone, unless it is told otherwise."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from click.testing import CliRunner

from tests.opening import run_apart
from tui.cli.command_line import command


@pytest.mark.parametrize(
    ("said", "typed", "variable", "expected"),
    [
        ({"LANG": "C"}, (), "", True),
        ({"LANG": "C"}, ("--no-ascii",), "", False),
        ({"LANG": "C"}, (), "false", False),
        ({"LANG": "C", "LC_ALL": "en_GB.UTF-8"}, (), "", False),
        ({"LANG": "C", "LC_ALL": "en_GB.UTF-8"}, ("--ascii",), "", True),
        ({}, (), "", False),
    ],
)
def test_the_locale_is_the_default_of_ascii(
    said: dict[str, str], typed: tuple[str, ...], variable: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bool] = []

    def launch(*_: Any, ascii_only: bool, **others: Any) -> None:
        drawn.append(ascii_only)

    monkeypatch.setattr("tui.cli.launch.launch", launch)
    monkeypatch.setattr("tui.cli.standard_streams._environment", lambda: said)
    monkeypatch.setenv("ATTN_TUI_ASCII", variable)
    assert CliRunner().invoke(command, ["demo", *typed]).exit_code == 0
    assert drawn == [expected]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells what a process was begun with")
def test_what_python_makes_of_the_locale_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    imported = "import os; from tui.cli.standard_streams import ascii_reason"
    code = f"{imported}; print(os.environ['LC_CTYPE'], ascii_reason())"
    assert run_apart(code, LANG="C").split() == ["C.UTF-8", "LANG=C"]
