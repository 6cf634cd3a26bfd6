"""Every mark that a head can carry is explained, and shown where the head is."""

from __future__ import annotations

import pytest

from engine.architectures.rules import NEIGHBOUR_MARKS, SETTING_MARKS, TYPE_MARKS
from engine.values.outline import MARKS
from tests.conftest import TinyModel
from tests.opening import open_folder
from tests.tui.explorer import explorer, screen_text


def test_every_mark_of_the_rules_is_explained() -> None:
    used = {*NEIGHBOUR_MARKS.values(), *TYPE_MARKS.values(), *SETTING_MARKS.values()}
    assert used <= MARKS.keys()
    assert all(explanation and not explanation.endswith(".") for explanation in MARKS.values())


def test_heads_with_biases_carry_a_mark_and_heads_without_none(tiny_model: TinyModel) -> None:
    assert all(layer.marks == ("query/key bias",) for layer in open_folder(tiny_model("gpt2"))[2].outline.layers)
    assert all(layer.marks == () for layer in open_folder(tiny_model("llama"))[2].outline.layers)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_marks_are_explained_on_screen(size: tuple[int, int], tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L0H0", size=size) as (app, pilot):
        assert "query/key bias" in screen_text(app)
        await pilot.press("question_mark", "G")
        marks = screen_text(app).partition("marks of this head")[2]
        assert all(part in marks for part in ("b_Q and b_K add terms to", "scores that QK", "leaves out"))
        await pilot.press("escape", "unbound:app.tree", "g", "g")
        assert app.session.shown.selected is None
        assert "b_Q and b_K add terms" in screen_text(app)
        await pilot.press("question_mark", "G")
        assert "beyond its matrices" not in screen_text(app)
