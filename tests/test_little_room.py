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
