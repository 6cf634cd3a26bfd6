"""A key changes what the screen shows from one picture to the next, with none in between."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.tui.explorer import settle, type_keys
from tests.tui.painted import good_terminal
from tests.tui.painted_explorer import PaintedExplorer
from tui import patience
from tui.start import Start


class CountingCells(dict[tuple[int, int], tuple[str, str]]):
    """A picture's cells that remember which of them were given another character more than once."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: Counter[tuple[int, int]] = Counter()

    def __setitem__(self, cell: tuple[int, int], shown: tuple[str, str]) -> None:
        if cell in self and self[cell][0] != shown[0]:
            self.changes[cell] += 1
        super().__setitem__(cell, shown)

    def blinked(self) -> int:
        """Count the cells that changed more than once since this was last asked."""
        count = sum(times > 1 for times in self.changes.values())
        self.changes.clear()
        return count


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_no_key_makes_the_screen_blink(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    monkeypatch.setattr(patience, "PATIENCE", 60.0)  # a pane whose answer is late says so, which is no blinking
    app = PaintedExplorer(Engine(EngineOptions()), Start("demo"))
    app.picture.cells = cells = CountingCells()
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await type_keys(pilot, *"31t")
        await settle(pilot)
        cells.blinked()
        for key in "jl]}{sbbmM+-2jG3jlGggaaas]1ljt":
            await type_keys(pilot, key)
            await settle(pilot)
            assert cells.blinked() <= 2, key  # of a scrollbar that comes
    app.engine.stop()
