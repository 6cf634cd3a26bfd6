"""The examples in the documentation of every function run, and give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.opening import ROOT


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
