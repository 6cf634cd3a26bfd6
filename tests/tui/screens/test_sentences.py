"""Sentences are typed, found again in their list, saved and forgotten."""

from __future__ import annotations

import json
import stat
from concurrent.futures import Future
from pathlib import Path

import pytest
from textual.widget import Widget

from engine.models.reader import EARLIER_SENTENCES
from engine.service.engine import Engine
from engine.store import history as store_module
from engine.store.history import SentenceStore, history_file
from engine.values.errors import EngineError
from engine.values.options import EngineOptions
from engine.values.outline import ModelOutline
from tests.conftest import TinyModel
from tests.opening import no_hurry, open_reader
from tests.tui.explorer import active_table, explorer, notices, press, screen_text, settle, shown_map, type_keys, until
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.screens.sentences_screen import SentencesScreen
from tui.state.overview_measures import overview_fields


def test_the_file_keeps_sentences_and_bears_whatever_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "sentences.jsonl"
    first, second = SentenceStore(path), SentenceStore(path)  # two programs at once
    assert first.load() == ()
    for store, text in ((first, "a\nb"), (second, "中 [bold] \x1b[31m"), (first, "\ud800 alone"), (second, "a\nb")):
        store.add(text)
    assert first.load() == ("中 [bold] \x1b[31m", "? alone", "a\nb")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("ab") as stream:
        stream.write(b'\xff\xfe\n{"a": 1}\n"half\n"  "\n"whole"\n')
    assert first.load()[-2:] == ("a\nb", "whole")
    first.remove("a\nb")
    assert second.load()[-1] == "whole"
    monkeypatch.setattr(store_module, "MOST_BYTES", 40)
    for number in range(9):
        first.add(f"sentence {number}")
    assert first.load() == ("sentence 6", "sentence 7", "sentence 8")
    assert [each.name for each in path.parent.iterdir()] == ["sentences.jsonl"]
    SentenceStore(None).add("nowhere")
    assert SentenceStore(None).load() == ()


async def test_history_lasts_from_one_start_to_the_next(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2")
    async with explorer(folder, text="the cat") as (app, pilot):
        for text in ("a mat", "the dog"):
            await press(pilot, "i", "ctrl+u", *text, "enter")
        await type_keys(pilot, "i", "up")
        assert app.main.sentence_input.value == "a mat"  # before the one that is shown
        await type_keys(pilot, "up")
        assert app.main.sentence_input.value == "the cat"  # which was read, and not typed
        await type_keys(pilot, "x", "escape")
        assert app.main.sentence_input.value == "the dog"  # what is on screen
        await type_keys(pilot, "i", "end", "backspace", "down", "up", "up", "down")
        assert app.main.sentence_input.value == "the dog"
        await type_keys(pilot, "down")
        assert app.main.sentence_input.value == "the do"
        await type_keys(pilot, "escape")
        assert app.focused is app.views.attention.heatmap
    assert [json.loads(line) for line in history_file().read_text("utf-8").splitlines()] == ["a mat", "the dog"]
    async with explorer(folder) as (app, pilot):
        await type_keys(pilot, "i", "t", "up", "up")
        assert app.main.sentence_input.value == "a mat"
        await type_keys(pilot, "down", "down", "down")
        assert app.main.sentence_input.value == "t"
        await type_keys(pilot, "ctrl+r", *"DOG")
        await until(pilot, lambda: "the dog" in screen_text(app))
        assert "a mat" not in screen_text(app)
        await press(pilot, "enter")
        assert app.sentences.newest_first[0] == "the dog"
        assert app.views.active is app.views.attention


async def test_spaces_alone_are_no_sentence(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):
        await press(pilot, "i", " ", " ", "enter")
        assert "i: type a sentence" in screen_text(app)
        assert "the sentence is empty; type some words" in screen_text(app)


async def test_escape_goes_back_from_the_sentence_to_the_last_focus(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):

        def has_keys(widget: Widget) -> bool:
            return app.focused is widget

        await press(pilot, "3")
        for typed in ("", "abc"):
            await type_keys(pilot, "i", *typed, "escape")
            assert has_keys(app.views.attention.heatmap)
        await type_keys(pilot, "i", "escape", "escape", "i", "escape")
        assert has_keys(app.main.tree_widget)
        await press(pilot, "4", "slash", *"ra", "escape", "i", "escape")
        assert has_keys(active_table(app).grid)
        await pilot.click(type(app.main.sentence_input))
        await type_keys(pilot, "escape")
        assert has_keys(active_table(app).grid)


async def test_an_unread_draft_is_not_shown_as_the_sentence_and_comes_back(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):
        line = app.main.sentence_input
        await type_keys(pilot, "i", *"dog", "left", "tab")
        assert line.value == "the cat" == app.session.shown.sentence
        await type_keys(pilot, "i")
        assert (line.value, line.cursor_position) == ("dog", len("do"))
        await type_keys(pilot, "escape", "i")
        assert line.value == "the cat"
        await type_keys(pilot, *"dog")
        app.app_focus = False  # another window is looked at
        await pilot.pause()
        assert line.value == "dog"
        app.app_focus = True
        await type_keys(pilot, "s", "enter")
        assert line.value == "dogs"
        await until(pilot, lambda: app.session.shown.sentence == "dogs")
        await type_keys(pilot, "i", *"on", "tab")
        app.main.read_sentence("the cat")
        await type_keys(pilot, "i")
        assert line.value == "the cat"  # what was chosen came in the place of the draft


async def test_ctrl_c_copies_no_text_that_was_selected_to_be_replaced(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):
        await type_keys(pilot, "i", "ctrl+c")
        assert app.focused is app.main.tree_widget
        await type_keys(pilot, "w", "w")
        line = app.main.prompt.input
        await type_keys(pilot, "slash", "h", "enter", "slash")
        assert line.selected_text == "h"
        await type_keys(pilot, "ctrl+c")
        await until(pilot, lambda: not app.main.prompt.display)
        assert app.clipboard == ""


async def test_a_sentence_typed_before_opening_is_read(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, opening = Engine(EngineOptions()), Future[ModelOutline]()
    found = engine.open(str(tiny_model("gpt2")), lambda progress: None)
    monkeypatch.setattr(engine, "open", lambda *asked: opening)
    app = Explorer(engine, Start("slow", text="the cat"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.main.is_ready)
        app.main.read_sentence("a mat")
        await until(pilot, lambda: app.session.shown.waiting_text == "a mat")
        opening.set_result(found.result())
        await settle(pilot)
        assert app.session.shown.sentence == "a mat" == app.main.sentence_input.value
        assert app.sentences.newest_first == ("a mat", "the cat")


async def test_a_file_that_cannot_be_written_is_said_once(tiny_model: TinyModel) -> None:
    history_file().parent.parent.mkdir(parents=True)
    history_file().parent.write_text("a file where the folder should be", encoding="utf-8")
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        for text in ("a", "b"):
            app.sentences.submit(text)
        app.sentences._disk.submit(lambda: None).result()  # when both have been written, or not
        await pilot.pause()
        assert notices(app) == ["cannot save sentences for the next start: File exists"]
        assert app.sentences.newest_first == ("b", "a")


@pytest.mark.parametrize("key", ["enter", "escape"])
async def test_the_tokens_above_the_line_go_with_the_focus(tiny_model: TinyModel, key: str) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):
        before = screen_text(app).count("│ cat")
        await press(pilot, "i")
        await type_keys(pilot, "the cat sat")
        assert screen_text(app).count("tokens") == 1
        await press(pilot, key)
        text = screen_text(app)
        assert text.count("│ cat") == before == 1, text


async def test_a_read_sentence_is_shown_again_or_forgotten_by_its_line_in_the_list(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat sat") as (app, pilot):
        for text in ("on the mat", "a dog"):
            app.main.read_sentence(text)
            await pilot.pause()
            await settle(pilot)
        assert list(app.sentences.newest_first) == ["a dog", "on the mat", "the cat sat"]
        await press(pilot, "unbound:app.tree", "S", "G", "enter")
        shown = shown_map(app)
        assert "".join(shown.query_tokens) == "the cat sat" == app.main.sentence_input.value
        assert app.views.active is app.views.attention
        await press(pilot, "S", "j", "d")
        assert "a dog" not in screen_text(app)
        await press(pilot, "k", "colon", "escape")
        assert list(app.sentences.newest_first) == ["the cat sat", "on the mat"]


def test_an_earlier_sentence_is_shown_without_a_run_and_few_are_kept(tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model("llama"))
    layer = reader.anatomy.outline.layers[1].name
    runs: list[int] = []
    reader.model.register_forward_pre_hook(lambda *_: runs.append(1))
    maps = {}
    for text in ("the cat 0", "the cat 1", "the cat 2"):
        reader.read(text, no_hurry)
        maps[text] = reader.layer_maps(layer).weights
    for text, weights in maps.items():
        assert reader.read(text, no_hurry).text == text
        assert (reader.layer_maps(layer).weights == weights).all()
    assert len(runs) == 3
    for number in range(EARLIER_SENTENCES + 2):
        reader.read(f"a mat {number}", no_hurry)
    for number, more in ((1, 0), (0, 1)):
        before = len(runs)
        reader.read(f"a mat {number}", no_hurry)
        assert len(runs) == before + more


@pytest.mark.parametrize("said", ["CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"])
def test_a_lack_of_memory_that_is_no_tensors_is_said_to_be_one(said: str, tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model("llama"))
    with (
        pytest.raises(EngineError, match="2 tokens do not fit on cpu; type a shorter sentence"),
        reader.running(2, lambda: None),
    ):
        raise RuntimeError(said)
    assert reader.reads_with_kernels, "it is not the kernels' fault"


async def test_a_long_sentence_that_is_not_read_yet_is_shown_from_its_start(tiny_model: TinyModel) -> None:
    text = "A first word, and then so many more that the line has no room for them: " + "more and more of them, " * 9
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        app.main.sentence_input.show_read(text, None)
        app.main.sentence_input.cursor_position = len(text)
        await pilot.pause()
        line = screen_text(app).splitlines()[-2].rstrip()
        assert line.startswith(" sentence A first word, and then")
        assert line.endswith("…")
        await press(pilot, "i", "end")
        assert "more of them," in screen_text(app).splitlines()[-2], "what is typed is seen at the cursor"


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
        for measure, view in (("entropy", "overview"), ("ov_energy_rank", "attention")):
            await type_keys(pilot, "colon", *"overview", "enter")
            app.session.change(**overview_fields(measure))
            await settle(pilot)
            await press(pilot, "i", *f"of {measure}", "enter")
            assert app.views.active.view == view
