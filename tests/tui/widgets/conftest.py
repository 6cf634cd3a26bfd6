"""The terminal of all tests of widgets."""

from __future__ import annotations

import pytest

from tests.tui.painted import good_terminal


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
