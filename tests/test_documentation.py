"""README and docs/ say what the program does: their commands, their output, their Python and their tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documentation import (
    PAGES,
    REPOSITORY,
    console_commands,
    is_printed,
    key_groups,
    printed,
    run_python,
    unread_lines,
    with_tables,
)
from tests.opening import ROOT

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)

WITHOUT_TABLE = {"box", "field", "list", "menu", "models", "palette", "spectra"}
"""Where keys move or edit a line and do nothing else."""


@each_page
def test_commands_and_python_give_what_the_page_says(page: Path, folder: Path) -> None:
    (folder / "engine").symlink_to(ROOT / "engine")
    for line, expected in console_commands(page):
        text = printed(line, folder)
        assert is_printed(expected, text), f"$ {line}\n{text}"
    assert run_python(page) == ""


@each_page
def test_the_program_takes_every_command_line(page: Path) -> None:
    assert unread_lines(page) == []


@each_page
def test_tables_are_those_of_the_program(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_tables(text) == text, "write them anew: python -m tests.documentation"


def test_the_keys_of_every_part_are_listed() -> None:
    text = (REPOSITORY / "docs" / "keys.md").read_text(encoding="utf-8")
    assert set(re.findall("<!-- table: keys (.*) -->", text)) == key_groups().keys() - WITHOUT_TABLE
