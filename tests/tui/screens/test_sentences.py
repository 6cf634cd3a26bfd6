"""Sentences are typed, found again in their list, saved and forgotten."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from engine.store import history as store_module
from engine.store.history import SentenceStore, history_file
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, notices, press, screen_text, see, settle, shown_map, type_keys
from tui.app import explorer as module
from tui.app.explorer import OPENING_SENTENCE
from tui.app.start import Start


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
    assert [json.loads(line) for line in history_file().read_text("utf-8").splitlines()] == ["a mat", "the dog"]
    async with explorer(folder) as (app, pilot):
        await type_keys(pilot, "i", "t", "up", "up")
        assert app.main.sentence_input.value == "a mat"
        await type_keys(pilot, "down", "down", "down")
        assert app.main.sentence_input.value == "t"
        await press(pilot, "escape", "S", "enter")
        assert app.session.shown.sentence == "the dog"
        assert app.views.active is app.views.attention


async def test_escape_goes_back_from_the_sentence_and_tab_keeps_its_draft(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat") as (app, pilot):
        await press(pilot, "3", "i", *"abc", "escape")
        assert app.focused is app.views.attention.heatmap
        await see(pilot, "escape", "i", "escape", focus="tree")
        line = app.main.sentence_input
        await type_keys(pilot, "i", *"dog", "left", "tab")
        assert app.session.shown.sentence == "the cat"
        assert "sentence t│he│ cat" in screen_text(app)
        await type_keys(pilot, "i")
        assert (line.value, line.cursor_position) == ("dog", len("do"))
        await type_keys(pilot, "escape", "i")
        assert line.value == "the cat"
        await see(pilot, "ctrl+u", " ", "enter", text="the sentence is empty; type some words")


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
        await press(pilot, "S", "super+c", "j", "d")
        assert "a dog" not in screen_text(app)
        await press(pilot, "k", "colon", "escape")
        assert list(app.sentences.newest_first) == ["the cat sat", "on the mat"]


async def test_views_of_a_sentence_stay_when_another_is_read(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2", with_head=True), text="the cat", head="L0H1") as (app, pilot):
        for place, key in enumerate("T81"):
            await press(pilot, key)
            view = app.views.active.view
            sentence = f"a dog {place}"
            await press(pilot, "i", "ctrl+u", *sentence, "enter")
            assert app.session.shown.sentence == sentence
            assert app.views.active.view == ("attention" if key == "1" else view)
            assert app.views.active.has_focus_within, key


async def test_a_small_model_reads_a_sentence_and_labels_its_heads_unless_one_is_given(tiny_model: TinyModel) -> None:
    model = tiny_model("llama")
    async with explorer("", start=Start(str(model))) as (app, pilot):
        assert app.session.shown.text == OPENING_SENTENCE
        assert app.main.stores is not None
        assert app.main.stores.is_labelled
        await press(pilot, "3")
        assert len(shown_map(app).query_tokens) > 1
    for text, read in (("two words", "two words"), ("", None)):
        async with explorer(model, text=text) as (app, _):
            assert app.session.shown.sentence == read


async def test_a_large_model_and_one_without_a_tokenizer_wait_for_a_sentence(
    tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_copy("llama")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    async with explorer("", start=Start(str(folder))) as (app, _):
        assert app.session.shown.sentence is None
    monkeypatch.setattr(module, "MOST_READ", 10_000)
    async with explorer("", start=Start("demo")) as (app, pilot):
        await see(pilot, "3", text="press i and type a sentence")
        assert app.session.shown.sentence is None
