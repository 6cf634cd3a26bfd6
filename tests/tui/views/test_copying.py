"""What is copied: the number, row or view under the cursor, of every head beside the others, as it is written."""

from __future__ import annotations

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from tests.conftest import TinyModel
from tests.tui.explorer import copied, explorer, notices, press_slowly, shown, shown_map
from tui.export.clipboard import LARGEST

TEXT = "the cat sat on the mat"


async def test_keys_copy_the_number_or_the_row_of_each_pinned_head() -> None:
    async with explorer("demo", text=TEXT, head="L0H0") as (app, pilot):
        last = len(app.engine.read(TEXT).result().ids) - 1
        for keys, names, place, heads in (
            ("1 P ] C l l", ("matrix", "index", "singular_value"), ["Q", "3"], "01"),
            ("C G home", ("query", "key", "weight"), [str(last), "0"], "01"),
            ("C", ("query", "key", "difference"), [str(last), "0"], "0"),
        ):
            await press_slowly(pilot, *keys.split(), "unbound:app.copy_view")
            header, *rows = copied(app)
            *at, number = map(header.index, names)
            lines = [row for row in rows if [row[each] for each in at] == place]
            assert [row[:3] for row in lines] == [["decoder", "0", head] for head in heads]
            await press_slowly(pilot, "Y")
            assert copied(app) == lines
            await press_slowly(pilot, "y")
            (numbers,) = copied(app)
            rounding = 1e-6 if "difference" in names else 0
            assert [*map(float, numbers)] == pytest.approx([float(row[number]) for row in lines], rel=0, abs=rounding)


async def test_cell_row_and_view_are_copied_as_written(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "yes")
    async with explorer(tiny_model("llama", with_head=True), text=TEXT) as (app, pilot):
        for view in "1234":
            await press_slowly(pilot, view, "down", "right", "unbound:app.copy_view")
            table = await app.views.active.whole_table()
            names, *rows = copied(app)
            assert tuple(names) == table.columns
            assert rows == [["" if cell is None else str(cell) for cell in row] for row in table]
            await press_slowly(pilot, "y")
            cell = app.clipboard
            await press_slowly(pilot, "Y")
            (row,) = copied(app)
            assert cell in row
            if view == "3":
                assert float(cell) == app.views.attention.heatmap.value
                assert len(row) == len(shown_map(app).key_tokens)
        assert not any("set-clipboard on" in each for each in notices(app)), "said with the first copy, and not again"
        app.screen.selections = {app.main.top_line: Selection(Offset(0, 0), Offset(4, 0))}  # as the mouse does
        await press_slowly(pilot, "ctrl+c")
        assert app.clipboard == shown(app.main.top_line)[:4]


async def test_what_is_larger_than_terminals_take_is_refused(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=" ".join(["cat"] * 100)) as (app, pilot):
        app.copy_to_clipboard("before")
        await press_slowly(pilot, "3", "unbound:app.copy_view")
        (refusal,) = notices(app)
        assert f"larger than the {LARGEST // 1000} kB that a terminal copies; nothing was copied" in refusal
        assert app.clipboard == "before"
        await press_slowly(pilot, "Y")
        assert len(app.clipboard.split("\t")) == len(shown_map(app).key_tokens) > 60
