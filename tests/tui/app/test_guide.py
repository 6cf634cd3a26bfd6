"""The first minute: three lines say what is seen and what to press, until a person goes on."""

from __future__ import annotations

import pytest

from engine.values.heads import Head
from tests.tui.explorer import explorer, screen_text, settle
from tui.app.start import Start

FIRST = Start("demo", is_restoring=True)


@pytest.mark.parametrize(
    ("keys", "view"), [(("enter",), "spectra"), (("3",), "attention"), (("x",), "explain"), (("escape",), "overview")]
)
async def test_the_lines_name_a_head_that_is_found_and_their_keys_lead_to_it(keys: tuple[str, ...], view: str) -> None:
    async with explorer("demo", start=FIRST) as (app, pilot):
        lines = screen_text(app).splitlines()[1:4]
        assert "32 heads" in lines[0]
        assert "L1H0 is an induction head" in lines[1]
        assert app.main.guide.region.height == 3
        await pilot.press(*keys)
        await settle(pilot)
        assert not app.main.guide.display
        assert app.views.active.view == view
        head = Head("decoder", 0, 0) if view == "overview" else Head("decoder", 1, 0)
        assert app.session.shown.selected == head
    async with explorer("demo", start=FIRST) as (app, _):
        assert not app.main.guide.display, "never again"


async def test_a_head_that_a_person_has_gone_to_stays_selected() -> None:
    async with explorer("demo", start=FIRST) as (app, pilot):
        await pilot.press("j", "3")
        await settle(pilot)
        assert not app.main.guide.display
        assert app.session.shown.selected == Head("decoder", 0, 1)


async def test_the_keys_of_the_lines_are_about_the_head_that_a_person_has_selected() -> None:
    async with explorer("demo", start=FIRST) as (app, pilot):
        await pilot.press("right_square_bracket")
        await settle(pilot)
        assert "L1H0 is an induction head. Selected: " in screen_text(app).splitlines()[2]
        await pilot.press("3")
        await settle(pilot)
        assert not app.main.guide.display
        assert app.session.shown.selected == Head("decoder", 0, 1)


async def test_the_lines_are_there_only_where_there_is_room_and_state_is_kept() -> None:
    async with explorer("demo", start=FIRST, size=(40, 12)) as (app, pilot):
        assert not app.main.guide.display
        await pilot.resize_terminal(60, 20)
        await settle(pilot)
        assert "L1H0" in screen_text(app).splitlines()[2]
    async with explorer("demo") as (app, _):
        assert not app.main.guide.display
