"""The list of sentences: its search, the way back, and its marks."""

from __future__ import annotations

import threading

import pytest

from tests.conftest import TinyModel
from tests.opening import hold_up
from tests.tui.explorer import explorer, press, screen_text, settle, type_keys, until
from tui.screens.sentences_screen import SentencesScreen


async def test_escape_goes_back_from_a_search_to_all_sentences_and_then_leaves(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):
        await type_keys(pilot, "S", "slash", *"zzz")
        await until(pilot, lambda: "no sentence holds zzz; esc goes back" in screen_text(app))
        assert "types one" not in screen_text(app)
        await type_keys(pilot, "escape")
        await until(pilot, lambda: "the cat" in screen_text(app))
        assert isinstance(app.screen, SentencesScreen)
        assert app.focused is app.screen._list
        await type_keys(pilot, "slash")
        assert app.screen._words.value == ""
        await type_keys(pilot, "escape", "escape")
        assert len(app.screen_stack) == 1
        await type_keys(pilot, "i", "ctrl+r", "z", "escape")
        assert app.main.sentence_input.has_focus, "which is where one came from"


async def test_a_sentence_read_while_the_list_is_open_is_marked_and_the_cursor_stays(
    tiny_model: TinyModel,
) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):
        free = threading.Event()
        hold_up(app.engine, free)
        await type_keys(pilot, "i", *"adog", "enter", "S", "G")
        screen = app.screen
        assert isinstance(screen, SentencesScreen)
        here = screen._found[screen._list.highlighted or 0]
        assert "● adog" not in screen_text(app)
        free.set()
        await until(pilot, lambda: "● adog" in screen_text(app))
        assert screen._found[screen._list.highlighted or 0] == here
        await press(pilot, "escape")
        assert app.sentences.has_changed is None


async def test_views_of_a_sentence_stay_when_another_is_read(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2", with_head=True), text="the cat", head="L0H1") as (app, pilot):
        for place, keys in enumerate(("T", "7", "ww", "8", "A", "4", "1", "2")):
            await press(pilot, *keys)
            view = app.views.active.view
            sentence = f"a dog {place}"
            await press(pilot, "i", "ctrl+u", *sentence, "enter")
            assert app.session.shown.sentence == sentence
            assert app.views.active.view == (view if place < 5 else "attention"), keys
            assert app.views.active.has_focus_within, keys


@pytest.mark.parametrize(("measure", "view"), [("entropy", "overview"), ("ov_energy_rank", "attention")])
async def test_the_overview_of_a_measure_in_the_sentence_stays(measure: str, view: str, tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):
        await type_keys(pilot, "w")
        app.session.change(overview=measure)
        await settle(pilot)
        await press(pilot, "i", *"a dog sat", "enter")
        assert app.views.active.view == view
