"""Whatever is pressed, every cell of the screen is as it would be if all were painted at once."""

from __future__ import annotations

import pytest
from rich.console import RenderableType
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, settle, until
from tests.tui.painted import TerminalPicture, good_terminal


class Shown(TerminalPicture):
    """What the explorer's output makes of a terminal."""

    async def until_painted(self, app: App[None], pilot: Pilot[None]) -> None:
        """Wait for what comes in from the engine meanwhile; a cell that is stale stays so until its own next update."""
        await settle(pilot)
        await until(pilot, lambda: not self.differs_from(app))

    def differs_from(self, app: App[None]) -> dict[tuple[int, int], object]:
        """Compare it, cell by cell, with the whole painted at once."""
        whole = TerminalPicture()
        whole.write(app.screen._compositor.render_full_update().render_segments(app.console))
        pairs = {cell: (whole.cells[cell], self.cells.get(cell)) for cell in whole.cells}
        return {cell: pair for cell, pair in pairs.items() if pair[0] != pair[1]}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Give the picture that the explorer's output makes."""
    good_terminal(monkeypatch)
    made = Shown()

    def display(app: App[None], screen: Screen[object], renderable: RenderableType | None) -> None:
        render_segments = getattr(renderable, "render_segments", None)
        if render_segments is not None:
            made.write(render_segments(app.console))

    monkeypatch.setattr(App, "_display", display)
    return made


WALK = (
    *"wljms", "full_stop", *"1", "unbound:app.tree", *"jm3jas1l", "unbound:app.baseline", *"z",
    "unbound:app.tree", *"2zj", "right_square_bracket", "right_curly_bracket", "minus", "question_mark", "escape",
    *"3zjTjlkT", "unbound:heatmap.pooling", *"l", "right_square_bracket", *"PCljhCAl", "right_curly_bracket", *"jA",
    "unbound:app.tree", *"Gix",
)  # fmt: skip
"""Keys that change everything there is to change."""


@pytest.mark.parametrize("size", [(80, 24), (154, 50)])
async def test_nothing_stale_is_left_on_the_screen(size: tuple[int, int], tiny_model: TinyModel, shown: Shown) -> None:
    async with explorer(tiny_model("llama"), size=size, text="the cat sat") as (app, pilot):
        app.main.sentence_input.cursor_blink = False  # else it may be about to, between the picture and the comparison
        for key in WALK:
            await pilot.press(key)
            await shown.until_painted(app, pilot)
            assert shown.differs_from(app) == {}, key
        shown.cells.clear()  # a terminal may lose what it showed when it is resized
        await pilot.resize_terminal(size[0] - 9, size[1] - 4)
        await shown.until_painted(app, pilot)
        assert shown.differs_from(app) == {}


async def test_ctrl_l_sends_the_whole_screen_again(tiny_model: TinyModel, shown: Shown) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        assert shown.differs_from(app) == {}
        shown.cells.clear()  # as if another program had written over it
        await pilot.press("ctrl+l")
        await shown.until_painted(app, pilot)
        assert shown.differs_from(app) == {}
