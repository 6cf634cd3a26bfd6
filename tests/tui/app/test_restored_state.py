"""What is restored at the next start, and what is not."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, press, see, title
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.state.saved_state import model_key, place_of, remember_choice


@pytest.fixture(autouse=True)
def _guide_is_dismissed() -> None:
    """Leave out the guide, which would select the most telling head."""
    remember_choice("guide", "dismissed")


def restoring(model: Path | str, **asked: Any) -> AbstractAsyncContextManager[tuple[Explorer, Pilot[None]]]:
    """Start where the model was left last, but for what is asked for."""
    return explorer(model, start=Start(str(model), is_restoring=True, **asked))


async def test_what_a_session_left_is_restored_if_the_model_has_it(tiny_copy: TinyModel) -> None:
    model = tiny_copy("llama")
    place = place_of(model_key(str(model), None))
    async with restoring(model) as (app, pilot):
        await press(pilot, *"P]P1")
        await app.action_quit()
    said = place.read_text(encoding="utf-8")
    assert "decoder.L0H0,decoder.L0H1" in said
    missing = {"decoder.L0H0,": "decoder.L77H0,nonsense,", '"decoder.L0H1"': '"decoder.L9H2"', "spectra": "old view"}
    for old, new in missing.items():
        said = said.replace(old, new)
    place.write_text(said, encoding="utf-8")
    async with restoring(model) as (_, pilot):
        await see(pilot, selected="L0H0", view="overview", pinned="L0H1", text="H1*")


async def test_head_view_sentence_measure_and_epsilon_are_restored_but_no_heads_off_filter_or_sort_order(
    tiny_model: TinyModel,
) -> None:
    model = tiny_model("llama")
    async with restoring(model) as (app, pilot):
        await see(pilot, "i", "ctrl+u", *"a cat", "enter", "}", "]", "m", "plus", "space", off="L1H1")
        await press(pilot, "w", "w", *"/head = 1", "enter", *"ll", "o", "4")
        left = str(app.session.shown.selected)
        await app.action_quit()
    async with restoring(model) as (app, pilot):
        await see(pilot, selected=left, view="circuits", off="")
        assert app.main.sentence_input.value == app.session.shown.sentence == "a cat"
        await press(pilot, "2")
        assert "participation ratio (energy ε 0.02)" in title(app)
        await press(pilot, "w", "w")
        assert active_table(app).current_filter is None
        assert list(active_table(app).grid.order) == list(range(8))
        await app.action_quit()
    async with restoring(model, text="the mat", head="L0H2", epsilon=0.1, log_scale=False) as (app, pilot):
        await see(pilot, selected="L0H2")
        assert (app.session.shown.sentence, app.session.shown.epsilon) == ("the mat", 0.1)
        assert (app.views.spectra.scale, app.views.attention.scale) == ("linear", "linear")
    async with explorer(model) as (app, pilot):
        await see(pilot, selected="L0H0", view="overview")
        assert app.session.shown.sentence is None


async def test_a_state_folder_that_cannot_be_written_is_said_and_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/version")
    async with restoring("demo", head="L0H0") as (app, pilot):
        assert not app.main.guide.display, "the head was asked for"
        await see(pilot, "j", selected="L0H1")
        await app.action_quit()
