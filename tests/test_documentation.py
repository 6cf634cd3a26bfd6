"""README, docs/ and the examples in docstrings say what the program does."""

from __future__ import annotations

import doctest
import importlib
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


def modules_with_examples() -> list[str]:
    """Name the modules of both packages in which there are any."""
    files = sorted(file for package in ("engine", "tui") for file in (ROOT / package).rglob("*.py"))
    with_examples = (file for file in files if ">>> " in file.read_text(encoding="utf-8"))
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in with_examples)
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_give_what_they_say(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0
