"""When views are drawn: if something that they draw has changed, and not otherwise."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest

from engine.values.heads import Head, Off
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, press, settle
from tui.state.session import Shown

TEXT = "the cat sat on the mat"


class Watched:
    """What is shown, with a note of each field that is read."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(type(self._shown), name, None)
        if isinstance(found, property):
            assert found.fget is not None
            return found.fget(self)
        self.read.add(name)
        return getattr(self._shown, name)


async def test_a_view_declares_every_field_that_it_reads(tiny_model: TinyModel) -> None:
    """Otherwise a field could change without the view being drawn."""
    async with explorer(tiny_model("t5"), text=TEXT, head="decoder.L0H1", size=(160, 50)) as (app, pilot):
        stores = app.views.stores
        assert stores is not None
        for fields in ({}, {"off": Off((Head("decoder", 0, 0),))}, {"distance": 1}, {"selected": None}):
            app.session.change(**fields)
            for view in ("overview", "spectra", "ranks", "attention", "text", "maps"):
                app.views.show_view(view)
                await settle(pilot)
                watched = Watched(app.session.shown)
                app.views.active.draw(cast(Shown, watched), stores)
                assert watched.read <= set(app.views.active.uses), view


async def test_a_view_is_drawn_only_when_something_that_it_draws_has_changed(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H1", size=(160, 50)) as (app, pilot):
        await press(pilot, "2")
        drawn: list[str] = []
        for pane in (app.views.spectra, app.views.ranks, app.views.attention):
            monkeypatch.setattr(pane, "draw", lambda *_, view=pane.view: drawn.append(view))
        assert app.views.stores is not None
        for change, panes in (
            (partial(app.session.change, measure="effective_rank"), ["ranks"]),
            (partial(app.session.change, measure="effective_rank"), []),
            (partial(app.session.change, spectra_scale="linear"), ["spectra"]),
            (partial(app.session.change, is_numbered=True), ["attention"]),
            (partial(app.session.change, epsilon=0.2), ["spectra", "ranks"]),
            (partial(app.session.change, selected=Head("decoder", 1, 0)), ["spectra", "ranks", "attention"]),
            (partial(app.views.stores.arrived, "tables"), []),
            (partial(app.views.stores.arrived, "maps"), ["attention"]),
            (partial(app.views.stores.arrived, "spectra"), ["spectra", "ranks"]),
            (app.views.stores.arrived, ["spectra", "ranks", "attention"]),
        ):
            change()
            await pilot.pause()
            assert sorted(drawn) == sorted(panes)
            drawn.clear()
