"""One model after the other: all is of the new one, keys in between harm nothing, and the old one's memory is freed."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Tree

from engine.analysis.open_model import OpenModel
from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.progress import Progress
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.opening import PATIENCE, start_engine
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
from tui.toolkit.messages import HeadEntered, PlaceWanted

TEXT = "the cat sat on the mat"


def answer(future: Future[Any]) -> Any:
    """Wait for an answer."""
    return future.result(PATIENCE)


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


async def test_everything_on_screen_is_of_the_new_model(tiny_model: TinyModel) -> None:
    first, second = tiny_model("llama"), tiny_model("bert")
    async with explorer(first, text=TEXT, size=(160, 50)) as (app, pilot):
        await see(pilot, "space", "4", "right_square_bracket", view="circuits", off="L0H0")
        await change_to(pilot, second)
        assert outline_of(app).model_type == "bert"
        assert app.session.shown.selected == Head("encoder", 0, 0)
        assert app.main.sentence_input.value == TEXT
        await see(pilot, view="circuits", off="", no_text=first.name)  # the same view, but no head is off any more
        await see(pilot, no_text=" off")
        await press(pilot, "3")
        assert app.views.attention.heatmap.pooled is not None, "the same sentence is read again"
        assert shown_map(app).query_tokens[0] == "[CLS]"
        await see(pilot, "1", "right_curly_bracket", title="spectra L1H0")


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


async def test_a_model_that_does_not_open_leaves_the_present_one_as_it_was(tmp_path: Path) -> None:
    async with explorer("demo", text=TEXT) as (app, pilot):
        await press(pilot, "j", "3")
        before, session, views = screen_text(app), app.session, app.views
        await choose(pilot, tmp_path)
        await until(pilot, lambda: "has no config.json" in words(app))
        await type_keys(pilot, "escape", "escape")  # what is typed goes, then the screen
        await settle(pilot)
        assert screen_text(app) == before
        assert (app.session, app.views) == (session, views)
        await see(pilot, "right_square_bracket", title="attention L0H2")


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
    models = {"llama": tiny_model("llama"), "gpt2": tiny_model("gpt2")}
    keys = ("j", "right_curly_bracket", "3", "5", "space", "right_square_bracket", "2", "m", "G", "4", "a", "O")
    async with explorer(models["gpt2"], text=TEXT, size=(50, 14)) as (app, pilot):
        for number in range(6):
            model_type = ("llama", "gpt2")[number % 2]
            await type_keys(pilot, *keys[2 * number : 2 * number + 2])
            late = ("j", "4", "enter", "right_square_bracket") if number % 5 == 0 else ("j",)
            await choose(pilot, models[model_type], *late)  # some come too early, some too late
            await until(pilot, partial(has_opened, app, model_type))
        await settle(pilot)
        assert not app.failure
        await see(pilot, "unbound:app.tree", "1", "right_curly_bracket", text="rank 8/8")
        await press(pilot, "3")
        assert app.views.attention.heatmap.pooled is not None
        gc.collect()
        loaded = [model is not None and model.is_loaded for model in (each() for each in made)]
        assert loaded == [False] * 6 + [True], "of models that were put away none is kept"


async def test_late_results_of_a_closed_model_are_not_shown(tiny_model: TinyModel) -> None:
    large, small = tiny_model("gpt2", n_layer=6), tiny_model("gpt2")
    async with explorer(large) as (app, pilot):
        engine, stores, views = app.engine, app.main.stores, app.views
        assert stores is not None
        group = answer(engine.spectra(Head("decoder", 5), False))
        app.main.tree_widget.go_to(Head("decoder", 5, 1))
        line = app.main.tree_widget.cursor_node
        assert line is not None
        await change_to(pilot, small)
        before = screen_text(app)
        app.main.tree_widget.post_message(Tree.NodeSelected(line))
        views.post_message(PlaceWanted(Head("decoder", 0, 9)))
        app._keep_swept(stores, Head("decoder", 5), False, group, Progress("spectra", 1, 9, "heads"))
        views.post_message(PlaceWanted(Head("decoder", 5, 1)))
        await settle(pilot)
        assert screen_text(app) == before


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Let nothing be freed only because the garbage collector runs, which never looks at what has been frozen."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_requests_of_a_closed_model_are_superseded_and_its_weights_are_freed(tiny_model: TinyModel) -> None:
    first = start_engine(tiny_model("llama"))
    answer(first.attention(TEXT, "decoder", 0))
    model: Any = first._model
    weights = [weakref.ref(each) for each in model._reader.model.parameters()]
    del model
    second = first.another("second")
    gc.collect()
    answer(second.open(str(tiny_model("gpt2")), lambda progress: None))
    with pytest.raises(EngineError):
        answer(first.attention(TEXT, "decoder", 9))
    error = first.attention(TEXT, "decoder", 9).exception(PATIENCE)  # it remembers where it was raised
    first.close()
    with pytest.raises(Superseded):
        answer(first.spectra(Head("decoder", 0), False))
    assert len(answer(second.spectra(Head("decoder", 0), False)).spectra) == 4
    answer(second.read(TEXT))  # on the lane of the model's own work, where the first was put away
    assert isinstance(error, EngineError)
    assert [each() for each in weights if each() is not None] == []


def test_the_work_of_a_closed_model_ends_at_its_next_step(tiny_model: TinyModel) -> None:
    first = start_engine(tiny_model("gpt2"))
    seen: list[Head] = []

    def deliver(layer: Head, whole_layer: bool, group: object, progress: Progress) -> None:
        seen.append(layer)
        first.close()

    with pytest.raises(Superseded):
        answer(first.sweep(deliver))
    assert len(seen) == 1


def test_options_for_one_model_do_not_apply_to_another(tiny_model: TinyModel) -> None:
    name, other = str(tiny_model("gpt2")), str(tiny_model("llama"))
    first = Engine(EngineOptions(device="cpu", use_cache=False, revision="v2", other=name))
    assert first.another(other).options.revision == "v2", "before one is open, they are meant of the one to come"
    answer(first.open(name, lambda progress: None))
    second = first.another(other)
    assert (second.options.revision, second.is_comparing) == (None, False)
    assert (second.options.device, second.options.use_cache) == ("cpu", False)
    assert second.another(name).options == first.options


@pytest.mark.usefixtures("uncollected")
def test_the_threads_of_a_closed_model_end(tiny_model: TinyModel) -> None:
    before = set(threading.enumerate())
    engine = start_engine(tiny_model("llama"))
    answer(engine.spectra(Head("decoder", 0), True))
    for view in ("circuits", "heads"):
        answer(engine.table(view, Query(), view))
    begun = [each for each in threading.enumerate() if each not in before and not each.name.startswith("lane")]
    engine.close()
    for thread in begun:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in begun)


@pytest.mark.parametrize(
    ("keys", "line", "view"),
    [
        (("j", "2", "enter"), "", "ranks"),
        (("slash", "x", "escape", "1"), "", "spectra"),  # escape drops what is before it, though it stops no model
        (("slash", *"quit", "left"), "qui|t", "overview"),  # and of these none leads elsewhere or ends the program
    ],
)
async def test_keys_typed_between_two_models_wait_for_the_views_of_the_new_one(
    keys: tuple[str, ...], line: str, view: str, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        make_views, old_views, may_go_on = app.main.make_views, app.views, asyncio.Event()

        async def late(engine: Engine, start: Start) -> None:
            await old_views.remove()
            app.main._views = None
            await may_go_on.wait()
            await make_views(engine, start)

        monkeypatch.setattr(app.main, "make_views", late)
        await choose(pilot, tiny_model("gpt2"))
        await until(pilot, lambda: not app.main.is_ready)
        for message in (HeadEntered(Head("decoder", 0, 1)), PlaceWanted("ranks")):
            old_views.post_message(message)  # which is too late
        await type_keys(pilot, *keys)
        assert "ctrl+l" in app.screen.active_bindings, "the screen can be drawn again at any time"
        may_go_on.set()
        await until(pilot, lambda: has_opened(app, "gpt2"))
        await see(pilot, view=view)
        text, place = app.main.prompt.input.value, app.main.prompt.input.cursor_position
        assert (f"{text[:place]}|{text[place:]}" if app.main.prompt.display else "") == line
    assert app.unexpected_error is None
