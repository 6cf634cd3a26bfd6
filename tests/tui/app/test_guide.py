"""The guide: three lines for the first minute."""

from __future__ import annotations

import pytest

from tests.tui.explorer import explorer, press, resize, screen_text, see
from tui.app.start import Start

FIRST = Start("demo", is_restoring=True)


@pytest.mark.parametrize(("key", "view"), [("enter", "spectra"), ("escape", "overview")])
async def test_the_guide_names_a_head_and_its_keys_go_there(key: str, view: str) -> None:
    async with explorer("demo", start=FIRST) as (app, pilot):
        lines = screen_text(app).splitlines()[1:4]
        assert "32 heads" in lines[0]
        assert "L1H0 is an induction head" in lines[1]
        assert app.main.guide.region.height == 3
        await see(pilot, key, selected="L1H0", view=view)
        assert not app.main.guide.display


async def test_after_the_first_key_the_selection_is_the_persons_and_the_guide_is_shown_once() -> None:
    async with explorer("demo", start=FIRST, size=(40, 12)) as (app, pilot):
        assert not app.main.guide.display, "there is no room"
        await resize(pilot, 80, 24)
        await press(pilot, "right_square_bracket")
        assert "L1H0 is an induction head. On L1H1: " in screen_text(app).splitlines()[2]
        await see(pilot, "3", selected="L1H1")
        assert not app.main.guide.display
    async with explorer("demo", start=FIRST) as (app, _):
        assert not app.main.guide.display
