"""Scrollbars say where one is also where that changed while they were not shown."""

from __future__ import annotations

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, settle, type_keys
from tui.app.start import Start

TEXT = " ".join(["the cat sat on the mat and the dog sat on the log"] * 2)


async def test_the_bar_of_a_restored_tree_is_in_place(tiny_model: TinyModel) -> None:
    start = Start(str(tiny_model("llama", num_attention_heads=32, num_hidden_layers=3)), is_restoring=True)
    for keys in (("}", "}", "G"), ()):
        async with explorer("", start=start) as (app, pilot):
            await type_keys(pilot, *keys)
            await settle(pilot)
            tree = app.main.tree_widget
            assert tree.show_vertical_scrollbar
            assert tree.vertical_scrollbar.position == tree.scroll_y > 0
            await app.action_quit()


@pytest.mark.parametrize("sizes", [((40, 12), (20, 6), (80, 24)), ((40, 12), (200, 60), (80, 24))])
async def test_the_bars_of_a_map_are_in_place_after_resizing(
    sizes: tuple[tuple[int, int], ...], tiny_model: TinyModel
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, "3", "z", "j", "j", "j")
        for size in sizes:
            await pilot.resize_terminal(*size)
            await settle(pilot)
        canvas = app.views.attention.heatmap
        assert canvas.show_vertical_scrollbar
        assert canvas.vertical_scrollbar.position == canvas.scroll_y
        assert canvas.horizontal_scrollbar.position == canvas.scroll_x
