"""Whatever is pressed, every cell and every scrollbar is as it would be if all were painted at once."""

from __future__ import annotations

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, press, resize, type_keys
from tests.tui.painted import good_terminal
from tests.tui.painted_explorer import painted_explorer, stale

WALK = (
    *"wljmsM1", "unbound:app.tree", *"jm3jas1l", "unbound:app.baseline", *"z",
    "unbound:app.tree", *"2zj", "right_square_bracket", "right_curly_bracket", "minus", "question_mark", "escape",
    *"3zjTjlkTl", "right_square_bracket", *"PCljhCAl", "right_curly_bracket", *"jA",
    "unbound:app.tree", *"Gix",
)  # fmt: skip
"""Keys that change everything there is to change."""


async def test_nothing_is_stale(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    async with painted_explorer(tiny_model("llama"), size=(154, 50), text="the cat sat") as (app, pilot):
        app.main.sentence_input.cursor_blink = False  # else it may be about to, between the picture and the comparison
        for key in WALK:
            await press(pilot, key)
            assert list(stale(app)) == [], key
        app.picture.cells.clear()  # a terminal may lose what it showed when it is resized
        await resize(pilot, 80, 24)
        assert list(stale(app)) == []


TEXT = " ".join(["the cat sat on the mat and the dog sat on the log"] * 2)


async def test_a_maps_bars_are_placed_after_resizing(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, "3", "z", "j", "j", "j")
        for sizes in (((40, 12), (20, 6), (80, 24)), ((40, 12), (200, 60), (80, 24))):
            for size in sizes:
                await resize(pilot, *size)
            canvas = app.views.attention.heatmap
            assert canvas.show_vertical_scrollbar
            assert canvas.vertical_scrollbar.position == canvas.scroll_y
            assert canvas.horizontal_scrollbar.position == canvas.scroll_x
