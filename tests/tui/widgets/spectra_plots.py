"""Curves to look at, and an application that shows six of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from textual.app import ComposeResult
from textual.pilot import Pilot

from tests.tui.painted import PaintedApp
from tui.drawing.curves import Curve
from tui.widgets.spectra import SpectraView

MATRICES = ("Q", "K", "V", "O", "QK", "OV")


def curves(count: int = 64, *, seed: int = 0, baseline: bool = True) -> list[Curve]:
    """Make six falling curves of different slopes."""
    rng = np.random.default_rng(seed)
    made = []
    for number, matrix in enumerate(MATRICES):
        values = np.sort(rng.uniform(0.5, 1.0, count) * np.exp(-np.arange(count) / (10 + 5 * number)))[::-1] * 8
        chance = np.linspace(values[0] * 0.8, values[0] * 0.2, count)
        made.append(Curve(matrix, values, chance if baseline else None, f"rank {count - number}/{count}"))
    return made


class SpectraApp(PaintedApp):
    """Six plots and nothing else."""

    def __init__(self, *, ascii: bool = False) -> None:
        super().__init__()
        self.view = SpectraView(ascii=ascii)
        self.moves: list[tuple[str, int, float]] = []

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    def on_spectra_view_cursor_moved(self, message: SpectraView.CursorMoved) -> None:
        assert message.control is self.view
        self.moves.append((message.matrix, message.index, message.value))

    def text(self) -> str:
        """Everything on the screen."""
        return "\n".join(self.picture.line(row) for row in range(self.size.height))


async def show(pilot: Pilot[None], shown: Sequence[Curve]) -> SpectraApp:
    app = pilot.app
    assert isinstance(app, SpectraApp)
    app.view.show(shown)
    await pilot.pause()
    return app
