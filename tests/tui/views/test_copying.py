"""What is copied says what it is of: a rollout is no mean, and of heads beside each other every one has its part."""

from __future__ import annotations

import pytest
from textual.geometry import Offset
from textual.selection import Selection
from textual.widgets._toast import Toast

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from engine.values.table import ROLLOUT_COLUMNS
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, copied, explorer, notices, press_slowly, settle, shown_map, until
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.export.clipboard import LARGEST
from tui.widgets.field import Field

TEXT = "the cat sat on the mat"


async def test_the_coloured_text_of_a_rollout_is_copied_as_one() -> None:
    async with explorer("demo", text=TEXT, head="L0H0") as (app, pilot):
        await press_slowly(pilot, "3", "a", "a", "a", "T", "unbound:app.copy_view")
        assert copied(app)[1][:3] == ["decoder", "mean", "mean"]
        await press_slowly(pilot, "a", "unbound:app.copy_view")
        assert tuple(copied(app)[0]) == ROLLOUT_COLUMNS


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


async def test_neither_a_table_without_rows_nor_an_empty_cell_is_copied() -> None:
    async with explorer("demo", text=TEXT, head="L0H1") as (app, pilot):
        app.copy_to_clipboard("before")
        await press_slowly(pilot, "5")
        for key in ("y", "Y", "unbound:app.copy_view"):
            app.clear_notifications()
            await press_slowly(pilot, key)
            assert notices(app) == ["the composition table has no rows; nothing was copied"]
        await press_slowly(pilot, "7")
        active_table(app).grid.go_to_column("label")
        app.clear_notifications()
        await press_slowly(pilot, "y")
        assert notices(app) == ["label is empty; nothing was copied"]
        assert app.clipboard == "before"


async def test_copying_text_selected_with_the_mouse_says_so() -> None:
    async with explorer("demo", text=TEXT, head="L0H0") as (app, pilot):
        await press_slowly(pilot, "1")
        line = app.main.top_line
        app.screen.selections = {line: Selection(Offset(0, 0), Offset(4, 0))}
        await press_slowly(pilot, "ctrl+c")
        (said,) = app._notifications
        assert app.clipboard
        assert (said.title, said.message) == ("copied", app.clipboard)


async def test_no_message_covers_the_line_of_the_palette() -> None:
    app = Explorer(Engine(EngineOptions()), Start("demo", head="L0H0"), ascii_only=False)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        await press_slowly(pilot, "4", "Y", "ctrl+p")
        app.notify("one\ntwo\nthree", timeout=60)
        await until(pilot, lambda: any(toast.region.height > 2 for toast in app.screen.query(Toast)))
        for part in (app.screen.query_one(Field).region, app.main.key_line.region):
            for x in range(part.x, part.right):
                assert not isinstance(app.screen.get_widget_at(x, part.y)[0], Toast)


async def test_cell_row_and_view_are_copied_as_written(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "yes")
    async with explorer(tiny_model("llama", with_head=True), text=TEXT) as (app, pilot):
        for view in "1234":
            await press_slowly(pilot, view, "down", "right", "unbound:app.copy_view")
            table = await app.views.active.whole_table()
            names, *rows = copied(app)
            assert tuple(names) == table.columns
            assert rows == [["" if cell is None else str(cell) for cell in row] for row in table]
            cells: list[str] = []
            for key in ("y", "Y"):
                await press_slowly(pilot, key)
                cells.append(app.clipboard)
            assert view != "1" or notices(app)[-1].startswith("the row of σ 2 of K\n")
            assert "\n" not in cells[1]
            assert cells[0] in cells[1].split("\t")
            if view == "3":
                assert float(cells[0]) == app.views.attention.heatmap.value
                assert len(cells[1].split("\t")) == len(shown_map(app).key_tokens)
        assert not any("set-clipboard on" in each for each in notices(app)), "said with the first copy, and not again"


async def test_what_is_larger_than_terminals_take_is_refused(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=" ".join(["cat"] * 100)) as (app, pilot):
        app.copy_to_clipboard("before")
        await press_slowly(pilot, "3", "unbound:app.copy_view")
        (refusal,) = notices(app)
        assert f"larger than the {LARGEST // 1000} kB that a terminal copies; nothing was copied" in refusal
        assert app.clipboard == "before"
        await press_slowly(pilot, "Y")
        assert len(app.clipboard.split("\t")) == len(shown_map(app).key_tokens) > 60
