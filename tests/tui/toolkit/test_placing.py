"""What a widget cuts off those behind it is painted."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from tests.tui.painted import PaintedApp
from tui.placing import Placing


class Covered(PaintedApp):
    """Lines of wide characters with something in front, which cuts one in the middle."""

    CSS = """
    Screen { layers: behind front; }
    #behind { width: 12; height: 3; background: #102030; }
    #front { layer: front; offset: 3 1; width: 4; height: 1; background: #405060; }
    """

    def compose(self) -> ComposeResult:
        yield Static("\N{CJK UNIFIED IDEOGRAPH-65E5}" * 18, id="behind")
        yield Static("...", id="front")

    def on_mount(self) -> None:
        self.screen._compositor = Placing()


async def test_half_of_a_wide_character_beside_what_moves_is_painted() -> None:
    app = Covered()
    async with app.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        assert app.picture.line(1)[1:5] == " ..."
        for column in (5, 2, 7, 1):
            app.query_one("#front").styles.offset = (column, 1)
            await pilot.pause()
            assert "..." in app.picture.line(1)
            app.assert_nothing_is_stale()
