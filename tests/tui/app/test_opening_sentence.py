"""The sentence that a small model reads when it opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, press, screen_text, shown_map
from tui.app import explorer as module
from tui.app.explorer import OPENING_SENTENCE
from tui.app.start import Start


async def test_a_small_model_reads_a_sentence_and_labels_its_heads(tiny_model: TinyModel) -> None:
    async with explorer("", start=Start(str(tiny_model("llama")))) as (app, pilot):
        assert app.session.shown.text == OPENING_SENTENCE
        assert app.main.stores is not None
        assert app.main.stores.labels.is_known
        await press(pilot, "3")
        assert len(shown_map(app).query_tokens) > 1


@pytest.mark.parametrize(("text", "read"), [("two words", "two words"), ("", None)])
async def test_a_given_sentence_comes_first(text: str, read: str | None, tiny_model: TinyModel) -> None:
    async with explorer("", start=Start(str(tiny_model("llama")), text=text)) as (app, _):
        assert app.session.shown.sentence == read


async def test_a_large_model_waits_until_a_sentence_is_typed(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_READ", 10_000)
    async with explorer("", start=Start(str(tiny_model("llama")))) as (app, pilot):
        assert app.session.shown.sentence is None
        await press(pilot, "3")
        assert "press i and type a sentence" in screen_text(app)


async def test_a_model_without_a_tokenizer_waits_for_token_numbers(tiny_copy: TinyModel) -> None:
    folder: Path = tiny_copy("llama")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    async with explorer("", start=Start(str(folder))) as (app, _):
        assert app.session.shown.sentence is None
