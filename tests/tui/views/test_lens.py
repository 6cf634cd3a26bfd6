"""The lens as a grid of layers × tokens: its cells, its cursor, what it is coloured by, and where it leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.values.views import LENS, Query
from tests.conftest import TinyModel
from tests.exporting import as_exported, written
from tests.opening import open_on_thread, worked_out
from tests.tui.explorer import active_table, command, explorer, press_slowly, screen_text, settle, shown
from tests.tui.views.test_predictions import TEXT, lens
from tests.tui.views.test_tables import asked, rows
from tui.app.explorer import Explorer

ROW = dict(zip(LENS.columns, range(len(LENS.columns)), strict=True))


def cells(app: Explorer) -> list[str]:
    """Give the lines of the grid on screen, without the widget's padding."""
    grid = lens(app).grid
    return [grid.render_line(line).text.rstrip() for line in range(grid.size.height)]


async def open_lens(pilot: Pilot[None]) -> None:
    await press_slowly(pilot, "8", "8")


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (160, 50)])
async def test_the_last_layer_is_on_top_and_the_cursor_starts_at_the_prediction(
    tiny_model: TinyModel, size: tuple[int, int]
) -> None:
    model = tiny_model("gpt2", with_head=True)
    async with explorer(model, size=size, text=TEXT) as (app, pilot):
        await open_lens(pilot)
        table = asked(model, "lens", Query(text=TEXT, top=5, all_positions=True))
        grid, tokens = lens(app).grid, 1 + max(int(str(row[ROW["position"]])) for row in table)
        assert grid.cursor == (2, tokens - 1)
        assert [line.split()[0] for line in cells(app) if line[:1].strip()] == ["L1", "L0", "emb"]
        best = [str(row[ROW["token"]]) for row in table if row[ROW["place"]] == 1]
        for layer, name in enumerate(("emb", "L0", "L1")):
            (line,) = [line for line in cells(app) if line.startswith(name)]
            text = best[layer * tokens + tokens - 1].strip()
            assert text[:5] in line
        said = screen_text(app)
        assert f"{best[-1]}'" in said
        assert (f"L1 after '{table[-1][ROW['at']]}'" in said) == (size != (40, 12)), "where there is no room it is seen"


async def test_keys_and_clicks_move_the_cursor_and_the_readout_follows(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2", with_head=True), size=(80, 24), text=TEXT) as (app, pilot):
        await open_lens(pilot)
        last = lens(app).grid.cursor[1]
        for key, place in (
            ("left", (2, last - 1)), ("down", (1, last - 1)), ("k", (2, last - 1)), ("home", (2, 0)), ("G", (0, 0)),
            ("end", (0, last)), ("comma", (0, last - 1)), ("full_stop", (0, last)), ("pageup", (2, last)),
        ):  # fmt: skip
            await press_slowly(pilot, key)
            assert lens(app).grid.cursor == place
        await pilot.click(lens(app).grid, offset=(8, 1))
        await settle(pilot)
        layer, token = lens(app).grid.cursor
        assert layer == 2
        assert f"L1 after '{lens(app).shown.tokens[token]}'" in screen_text(app)  # type: ignore[union-attr]


async def test_enter_goes_to_what_makes_the_token_under_the_cursor(tiny_model: TinyModel) -> None:
    model = tiny_model("gpt2", with_head=True)
    async with explorer(model, size=(80, 24), text=TEXT) as (app, pilot):
        await open_lens(pilot)
        await press_slowly(pilot, "left", "left")
        map, (layer, token) = lens(app).shown, lens(app).grid.cursor
        assert map is not None
        (number, *_), *_ = map.choices_at(layer, token)
        await press_slowly(pilot, "enter")
        assert active_table(app).view == "contributions"
        expected = asked(model, "contributions", Query(text=TEXT, position=token, token=f"#{number}"))
        assert rows(active_table(app).shown) == expected
        await press_slowly(pilot, "8", "8")
        assert lens(app).grid.cursor[1] == token, "the lens is at the token that is predicted at"


async def test_the_file_has_the_rows_of_all_cells(tiny_model: TinyModel, folder: Path) -> None:
    model = tiny_model("gpt2", with_head=True)
    async with explorer(model, size=(80, 24), text=TEXT) as (_, pilot):
        await open_lens(pilot)
        await command(pilot, "export lens.csv")
    table = worked_out(open_on_thread(model), "lens", Query(text=TEXT, top=5, all_positions=True))
    assert written(folder, "lens.csv") == as_exported(table)


async def test_a_key_in_the_predictions_colours_the_lens_by_a_logit_difference(tiny_model: TinyModel) -> None:
    model = tiny_model("gpt2", with_head=True)
    async with explorer(model, size=(120, 40), text=TEXT) as (app, pilot):
        await press_slowly(pilot, "8", "D")
        assert "this is the token itself" in screen_text(app)
        await press_slowly(pilot, "j", "D")
        table = active_table(app).shown
        assert table is not None
        first, second = (str(row[table.columns.index("token")]) for row in table.rows[:2])
        pair = f"'{first}' − '{second}'"
        difference = table.rows[0][table.columns.index("logit_difference")]
        assert pair in shown(active_table(app).title_line)
        assert app.session.shown.against == f"#{table.rows[1][table.columns.index('token_id')]}"
        await press_slowly(pilot, "8")
        map = lens(app).shown
        assert map is not None
        assert pair in shown(lens(app).title_line)
        assert map.is_signed
        assert map.values[-1, -1] == pytest.approx(difference, abs=1e-4)
        assert "logit difference" in shown(lens(app).legend_line)
        for view, key in (("contributions", "8"), ("ablation", "9")):
            await press_slowly(pilot, key)
            assert active_table(app).view == view
            assert pair in shown(active_table(app).title_line)
        await command(pilot, "against")
        assert not app.session.shown.against
        assert "−" not in shown(active_table(app).title_line)


async def test_without_colours_a_sign_stands_for_the_probability(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with explorer(tiny_model("gpt2", with_head=True), size=(80, 24), text=TEXT) as (app, pilot):
        await open_lens(pilot)
        (line,) = [line for line in cells(app) if line.startswith("emb")]
        assert "█" in line
