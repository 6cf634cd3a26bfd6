"""One model after the other: all is of the new one, keys in between harm nothing, and the old one's memory is freed."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from engine.analysis.open_model import OpenModel
from engine.service.engine import Engine
from engine.values.heads import Head
from engine.values.options import EngineOptions
from tests.conftest import TinyModel
from tests.opening import PATIENCE
from tests.tui.explorer import (
    explorer,
    outline_of,
    press,
    screen_text,
    see,
    settle,
    shown_map,
    title,
    type_keys,
    until,
    words,
)
from tui.app import explorer as explorer_module
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.screens.chooser import ChooserScreen
from tui.state.session import Shown

TEXT = "the cat sat on the mat"


async def choose(pilot: Pilot[None], model: Path | str, *keys: str) -> None:
    """Open another model with the keys that a person would use, and type on at once."""
    app = pilot.app
    assert isinstance(app, Explorer)
    await type_keys(pilot, "B")
    await until(pilot, lambda: isinstance(app.screen, ChooserScreen))
    app.screen.query_one(Input).value = str(model)
    await pilot.pause(0)
    await type_keys(pilot, "enter", *keys)


async def change_to(pilot: Pilot[None], model: Path | str) -> None:
    await choose(pilot, model)
    await settle(pilot)


async def test_everything_on_screen_is_of_the_new_model(tiny_model: TinyModel, tmp_path: Path) -> None:
    first, second = tiny_model("llama"), tiny_model("bert")
    async with explorer(first, text=TEXT, size=(160, 50)) as (app, pilot):
        await see(pilot, "space", "4", view="circuits", off="L0H0")
        await change_to(pilot, second)
        assert outline_of(app).model_type == "bert"
        assert app.session.shown.selected == Head("encoder", 0, 0)
        assert app.main.sentence_input.value == TEXT
        await see(pilot, view="circuits", off="", no_text=first.name)  # the same view, but no head is off any more
        await press(pilot, "3")
        assert app.views.attention.heatmap.pooled is not None, "the same sentence is read again"
        assert shown_map(app).query_tokens[0] == "[CLS]"
        await see(pilot, "1", "right_curly_bracket", title="spectra L1H0")
        before = screen_text(app)
        await choose(pilot, tmp_path)
        await until(pilot, lambda: "has no config.json" in words(app))
        await press(pilot, "escape", "escape")  # what is typed goes, then the screen
        assert screen_text(app) == before, "a model that does not open leaves the present one"
        await see(pilot, "right_square_bracket", title="spectra L1H1")


async def test_a_sentence_that_was_typed_is_read_again_and_the_opening_sentence_only_by_a_small_model(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer("", start=Start(str(tiny_model("llama")))) as (app, pilot):
        read = [app.session.shown.sentence]
        monkeypatch.setattr(explorer_module, "MOST_READ", 10_000)  # other models are large
        await change_to(pilot, tiny_model("bert"))
        read.append(app.session.shown.sentence)
        await press(pilot, "i", *"a mat", "enter")
        await change_to(pilot, tiny_model("llama"))
        assert [*read, app.session.shown.sentence] == [explorer_module.OPENING_SENTENCE, None, "a mat"]


async def test_a_reopened_model_has_its_own_measure_and_epsilon(tiny_model: TinyModel) -> None:
    first, second = tiny_model("llama"), tiny_model("gpt2")
    async with explorer(first, start=Start(str(first), is_restoring=True)) as (app, pilot):
        await press(pilot, "w", "m", "2", "plus", "m")
        assert "spectral norm (energy ε 0.02)" in title(app)
        await change_to(pilot, second)
        assert "stable rank (energy ε 0.02)" in title(app), "ε stays for a model that is new"
        assert app.session.shown.overview == Shown().overview
        await press(pilot, "plus", "plus")
        await change_to(pilot, first)
        assert "spectral norm (energy ε 0.02)" in title(app)
        assert app.session.shown.overview == "qk_spectral_norm"


def has_opened(app: Explorer, model_type: str) -> bool:
    """Say whether a model of a type is open and can be walked in."""
    is_open = app.main.is_ready and app.main.stores is not None and not isinstance(app.screen, ChooserScreen)
    return is_open and outline_of(app).model_type == model_type


async def test_changes_with_keys_in_between_leave_nothing_behind(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = list[weakref.ref[OpenModel]](), OpenModel.__init__

    def make_and_list(model: OpenModel, *given: Any) -> None:
        make(model, *given)
        made.append(weakref.ref(model))

    monkeypatch.setattr(OpenModel, "__init__", make_and_list)
    async with explorer(tiny_model("gpt2"), text=TEXT) as (app, pilot):
        for model_type, keys in (("llama", "3 space"), ("gpt2", "5 m"), ("llama", "4 a")):
            await type_keys(pilot, *keys.split())
            await choose(pilot, tiny_model(model_type), "j", "4", "enter")  # some come too early, some too late
            await until(pilot, partial(has_opened, app, model_type))
        await see(pilot, "unbound:app.tree", "1", "right_curly_bracket", text="rank 8/8")
        assert not app.failure
        await press(pilot, "3")
        assert app.views.attention.heatmap.pooled is not None
        gc.collect()
        loaded = [model is not None and model.is_loaded for model in (each() for each in made)]
        assert loaded == [False] * 3 + [True], "of models that were put away none is kept"


def test_options_for_one_model_do_not_apply_to_another(tiny_model: TinyModel) -> None:
    name, other = str(tiny_model("gpt2")), str(tiny_model("llama"))
    first = Engine(EngineOptions(device="cpu", use_cache=False, revision="v2", other=name))
    assert first.another(other).options.revision == "v2", "before one is open, they are meant of the one to come"
    first.open(name, lambda progress: None).result(PATIENCE)
    second = first.another(other)
    assert (second.options.revision, second.is_comparing) == (None, False)
    assert (second.options.device, second.options.use_cache) == ("cpu", False)
    assert second.another(name).options == first.options
