"""Spectra and maps begin on the scale that is asked for, whatever they are of."""

from __future__ import annotations

import pytest

from tests.tui.explorer import explorer, settle, type_keys
from tui.app.start import Start
from tui.drawing.levels import Scale
from tui.state.session import Side
from tui.views.attention_view import AttentionPane
from tui.views.compare_view import ComparePane
from tui.views.layer_maps_view import HeadsPane
from tui.views.pane import Pane
from tui.views.spectra_view import SpectraPane


def scale_of(pane: Pane) -> Scale:
    """Give the scale that a view draws on."""
    if isinstance(pane, HeadsPane):
        return pane.maps.scale
    if isinstance(pane, ComparePane):
        return pane.graph.scale if pane.side is Side.SPECTRA else pane.maps.leading.scale
    assert isinstance(pane, SpectraPane | AttentionPane)
    return pane.scale


@pytest.mark.parametrize("asked", [True, False, None])
async def test_spectra_and_maps_of_any_length_begin_on_the_scale_that_is_asked_for(
    asked: bool | None,
) -> None:
    for text, usual in (("the cat", "linear"), ("the cat sat on the mat " * 20, "log")):
        start = Start("demo", text=text, log_scale=asked)
        async with explorer("demo", start=start) as (app, pilot):
            await type_keys(pilot, "P", "]")
            found = []
            for key in ("1", "3", "A", "C", "C"):
                await type_keys(pilot, key)
                await settle(pilot)
                found.append(scale_of(app.views.active))
        of_maps = usual if asked is None else "log" if asked else "linear"
        of_spectra = "linear" if asked is False else "log"
        assert found == [of_spectra, of_maps, of_maps, of_spectra, of_maps]
