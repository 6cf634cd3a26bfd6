"""What is still on screen though its time is over: a click on it, or a message in its place, harms nothing."""

from __future__ import annotations

from textual import events

from tests.tui.explorer import explorer, settle


async def test_a_click_on_a_view_that_is_just_being_replaced_leaves_the_focus() -> None:
    async with explorer("demo", head="L0H0") as (app, pilot):
        await pilot.press("2")
        await settle(pilot)
        ranks, place = app.views.ranks.table, app.views.ranks.table.region
        app.views.go_to("overview")
        assert app.screen.get_widget_at(place.x + 2, place.y + 2)[0] is ranks, "it is on screen still"
        app.screen._forward_event(
            events.MouseDown(None, place.x + 2, place.y + 2, 0, 0, 1, False, False, False, place.x + 2, place.y + 2)
        )
        assert app.focused is app.views.overview.map
        await settle(pilot)
        assert app.focused is app.views.overview.map
