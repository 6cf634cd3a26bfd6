"""A view is drawn when something that it draws has changed."""

from __future__ import annotations

from typing import Any, cast

from engine.values.heads import Head, Off
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, settle
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
