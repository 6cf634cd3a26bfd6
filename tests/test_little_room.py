"""On the smallest terminal nothing sticks together, and words give way to numbers and names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.explorer import explorer, screen_text, settle, shown


async def test_tree_titles_and_paths_on_the_smallest_terminal(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with explorer(tiny_model("llama", num_attention_heads=16), head="L1H2", size=(40, 12)) as (app, pilot):
        await pilot.press("2")
        await settle(pilot)
        body = screen_text(app).splitlines()[1:-2]
        assert app.tree_widget.show_vertical_scrollbar
        assert {line[app.tree_widget.region.right] for line in body} == {" "}, "air between the tree and the table"
        await pilot.press("1")
        await settle(pilot)
        assert shown(app.views.spectra.title_line) == "L1H2 log ε 0.01"
        await pilot.press("d", "e")
        await settle(pilot)
        assert shown(app.views.spectra.title_line).startswith("L1H2 Δ = 0")
        (path,) = [line for line in screen_text(app).splitlines() if ".csv" in line]
        assert path.strip().startswith("…")
        assert path.strip().endswith("-L1H2-distance0-spectrum.csv")


@pytest.mark.parametrize("key", ["S", "ctrl+p", "B"])
async def test_a_terminal_of_a_few_columns_ends_nothing_where_a_list_lies_over_the_views(key: str) -> None:
    async with explorer("demo", size=(40, 12)) as (app, pilot):
        await pilot.press(key)
        for size in ((6, 5), (4, 5), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await pilot.press("pagedown", "pageup")
        await pilot.press("escape", "escape", "t", "3")
        assert app.views.active is app.views.attention
