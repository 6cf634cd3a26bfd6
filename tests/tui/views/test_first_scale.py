"""Spectra and maps begin on the scale that is asked for, whatever they are of."""

from __future__ import annotations

import pytest

from tests.tui.explorer import explorer, press, settle
from tui.app.start import Start
from tui.state.session import Side
from tui.views.pane import SentencePane
from tui.views.spectra_view import SpectraPane


@pytest.mark.parametrize(
    ("asked", "of_spectra", "of_maps"),
    [(True, "log", ("log", "log")), (False, "linear", ("linear", "linear")), (None, "log", ("linear", "log"))],
)
async def test_spectra_and_maps_start_on_the_requested_scale(
    asked: bool | None, of_spectra: str, of_maps: tuple[str, str]
) -> None:
    async with explorer("demo", start=Start("demo", text="a", log_scale=asked)) as (app, pilot):
        await press(pilot, "P", "]")
        for text, of_map in zip(("the cat", "the cat sat on the mat " * 20), of_maps, strict=True):
            app.main.read(text)
            app.session.change(side=Side.SPECTRA)
            await settle(pilot)
            found = []
            for key in ("1", "3", "A", "C", "C"):
                await press(pilot, key)
                assert isinstance(app.views.active, SpectraPane | SentencePane)
                found.append(app.views.active.scale)
            assert found == [of_spectra, of_map, of_map, of_spectra, of_map]
