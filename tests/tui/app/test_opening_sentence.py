"""The sentence that a small model reads when it opens."""

from __future__ import annotations

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, press, see, shown_map
from tui.app import explorer as module
from tui.app.explorer import OPENING_SENTENCE
from tui.app.start import Start


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


async def test_a_large_model_waits_until_a_sentence_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_READ", 10_000)
    async with explorer("", start=Start("demo")) as (app, pilot):
        await see(pilot, "3", text="press i and type a sentence")
        assert app.session.shown.sentence is None


async def test_a_model_without_a_tokenizer_waits_for_token_numbers(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    async with explorer("", start=Start(str(folder))) as (app, _):
        assert app.session.shown.sentence is None
