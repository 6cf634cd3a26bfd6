"""The worked-out tables in the explorer: what is shown is what is exported, and follows the selected head."""

from __future__ import annotations

import csv
import re
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.table import Table
from engine.values.views import CIRCUITS, VIEWS, Query
from tests.conftest import TinyModel
from tests.exporting import run
from tests.tui.explorer import explorer, screen_text, settle, shown, titled, type_keys
from tui.app import Explorer
from tui.numbers import within
from tui.panes.table import TablePane

KEYS = {"circuits": "4", "composition": "5", "directions": "6", "patterns": "7"}


def pane(app: Explorer) -> TablePane:
    """Give the table that is looked at."""
    active = app.views.active
    assert isinstance(active, TablePane)
    return active


def asked(model: Path, view: str, query: Query) -> list[tuple[object, ...]]:
    """Ask an engine of our own for a table's rows."""
    engine = Engine(EngineOptions(use_cache=False))
    engine.open(str(model), lambda progress: None).result()
    found = rows(engine.table(view, query).result())
    engine.stop()
    return found


def rows(table: Table | None) -> list[tuple[object, ...]]:
    assert table is not None
    return [tuple(row) for row in table]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_a_key_shows_the_table_of_the_selected_head(tiny_model: TinyModel, size: tuple[int, int]) -> None:
    model = tiny_model("llama")
    by_layer = Query(layer=Head("decoder", 1))
    async with explorer(model, size=size, head="L1H2") as (app, pilot):
        for view, key in KEYS.items():
            await pilot.press(key)
            await settle(pilot)
            query = by_layer if view in ("circuits", "patterns") else replace(by_layer, head=2)
            assert rows(pane(app).shown) == asked(model, view, query)
            assert titled(pane(app).title_line) == f"{view} L1H2"
            text = screen_text(app)
            assert app.focused is pane(app).grid
            assert next(name for name in VIEWS[view].columns if name not in ("stack", "layer", "head")) in text
            if size[0] == 160:
                assert "ranks layer 1" in text, "the weights stay at the left"
                assert "attention L1H2" not in text


async def test_a_selected_layer_has_its_eigenvalues_too(tiny_model: TinyModel) -> None:
    model, layer = tiny_model("gpt2"), Head("decoder", 1)
    async with explorer(model, head="L1") as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        found = rows(pane(app).shown)
    assert found == asked(model, "circuits", Query(layer=layer, whole_layers=True, eigenvalues=True))
    place = VIEWS["circuits"].columns.index("qk_positive_mass")
    assert isinstance(found[-1][place], float)


async def test_the_cursor_is_on_the_selected_heads_row_and_a_column_explains_itself(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L1H2") as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        assert next(iter(pane(app).grid.row or ())) == "2"
        await pilot.press("home")
        await pilot.pause()
        assert shown(pane(app).explanation_line).startswith("tr(M²)/‖M‖² of M = QK")
        table = rows(pane(app).shown)
        place = next(row for row in table if row[2] == "2")
        assert shown(pane(app).readout_line) == f"L1H2  qk_symmetry {place[3]:.4g}  chance 0.03125"
        await pilot.press("l")
        await pilot.pause()
        assert shown(pane(app).explanation_line).startswith("chance, Gaussian factors")


async def test_another_head_has_its_own_table_and_enter_goes_to_the_head_that_feeds(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L1H2") as (app, pilot):
        await pilot.press("5")
        await settle(pilot)
        first = rows(pane(app).shown)
        await pilot.press("]")
        await settle(pilot)
        assert {row[2] for row in rows(pane(app).shown)} == {"3"}
        await pilot.press("[")
        await settle(pilot)
        assert rows(pane(app).shown) == first
        await pilot.press("enter")
        await settle(pilot)
        assert app.session.shown.selected == Head("decoder", int(str(first[0][4])), int(str(first[0][5])))


async def test_one_key_writes_the_rows_as_they_are_sorted(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with explorer(tiny_model("gpt2"), head="L1H2") as (app, pilot):
        await pilot.press("4", "home", "o")
        await settle(pilot)
        await pilot.press("home", "o", "e", "v")
        await settle(pilot)
        sorted_rows = [[str(cell) for cell in row] for row in pane(app).table_on_screen()]
        columns = pane(app).table_on_screen().columns
    (file,) = tmp_path.glob("*circuits.csv")
    with file.open(encoding="utf-8", newline="") as stream:
        read = list(csv.reader(stream))
    assert tuple(read[0]) == columns
    assert read[1:] == sorted_rows


async def test_directions_have_a_key_that_folds_the_gains_of_norms_in(
    tiny_copy: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = tiny_copy("llama", with_head=True)
    tensors = load_file(model / "model.safetensors")
    tensors |= {name: 1.0 + torch.rand(each.shape) for name, each in tensors.items() if each.ndim == 1}
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    head = Head("decoder", 1, 2)
    plain = asked(model, "directions", Query(layer=head.whole_layer, head=2))
    folded = asked(model, "directions", Query(layer=head.whole_layer, head=2, fold_norm=True))
    assert plain != folded
    async with explorer(model, size=(160, 50), head="L1H2") as (app, pilot):
        await pilot.press("2", "f", "6")
        await settle(pilot)
        assert rows(pane(app).shown) == plain
        assert "f Fold norms" in screen_text(app)
        await pilot.press("f")
        await settle(pilot)
        assert rows(pane(app).shown) == folded
        assert titled(pane(app).title_line).startswith("directions L1H2  norms folded in")
        for keys in (["e", "v"], ["e", "w"]):
            await pilot.press(*keys)
            await settle(pilot)
        await pilot.press("f")
        await settle(pilot)
        assert rows(pane(app).shown) == plain
    of_head, of_all = (
        tmp_path / f"{model.name}-L1H2-folded-directions.csv",
        tmp_path / f"{model.name}-all-folded-directions.csv",
    )
    for file, head_asked in ((of_head, ["--head", "L1H2"]), (of_all, [])):
        assert file.read_bytes() == run(model, "directions", *head_asked, "--fold-norm").stdout_bytes


async def test_what_a_place_has_no_table_of_is_said(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L1") as (app, pilot):
        await pilot.press("6")
        await settle(pilot)
        assert "choose a head" in screen_text(app)
        await pilot.press("e", "v")
        await settle(pilot)
        assert "the directions view shows nothing yet; nothing was written" in screen_text(app)
        await pilot.press("escape")
        await pilot.press("5")
        await settle(pilot)
        assert {row[1] for row in rows(pane(app).shown)} == {1}


async def test_a_table_that_cannot_be_made_says_why_and_the_others_go_on(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def table(engine: Engine, name: str, query: Query, view: str = "") -> Future[Table]:
        answer: Future[Table] = Future()
        answer.set_exception(EngineError("there are no rows for this one"))
        return answer

    async with explorer(tiny_model("t5"), head="encoder.L0H0") as (app, pilot):
        with monkeypatch.context() as broken:
            broken.setattr(Engine, "table", table)
            await pilot.press("4")
            await settle(pilot)
            assert "there are no rows for this one" in screen_text(app)
        await pilot.press("5")
        await settle(pilot)
        assert pane(app).view == "composition"
        await pilot.press("3")
        await pilot.pause()
        assert app.views.active is app.views.attention


async def test_the_title_says_how_many_columns_are_farther_to_the_right(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H2", size=(80, 24)) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        beyond = pane(app).grid.beyond
        assert shown(pane(app).title_line) == f"circuits L1H2  → {beyond} more columns"
        head = screen_text(app).splitlines()[3].split("head")[1].split()
        assert len(head) in (len(CIRCUITS.columns) - 3 - beyond, len(CIRCUITS.columns) - 2 - beyond), "one may be cut"
        await pilot.press("end")
        await settle(pilot)
        assert shown(pane(app).title_line) == "circuits L1H2"
        await pilot.press("home")
        await pilot.resize_terminal(120, 24)
        await settle(pilot)
        assert pane(app).grid.beyond < beyond
        assert shown(pane(app).title_line) == f"circuits L1H2  → {pane(app).grid.beyond} more columns"


async def test_while_a_filter_is_typed_the_readout_is_of_the_row_that_the_cursor_is_on() -> None:
    async with explorer("demo", head="L0H0", size=(80, 24)) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        before = shown(pane(app).readout_line)
        table = pane(app).shown
        assert table is not None
        at, of = table.columns.index("head"), table.columns.index(pane(app).grid.column)
        third = next(row for row in rows(table) if str(row[at]) == "3")
        await pilot.press("slash", *"head = 3")
        await settle(pilot)
        assert shown(pane(app).explanation_line) == "1 of 8 rows"
        assert f" {third[of]:.4g} " in shown(pane(app).readout_line) != before
        await pilot.press("ctrl+u", *"head > 77")
        await settle(pilot)
        assert shown(pane(app).readout_line) == ""


@pytest.mark.parametrize(
    ("size", "walk"),
    [
        (
            (40, 12),
            {
                "3x": "value", "9": "change", "5": "composition", "8": "probability", "8z": "probability",
                "z0": "bytes", "z": "norm",
            },
        ),
        ((80, 24), {"9": "change_chance", "88": "probability", "8": "contribution_chance", "6": "projection_chance"}),
    ],
)  # fmt: skip
async def test_what_a_table_is_about_is_seen_in_little_room(size: tuple[int, int], walk: dict[str, str]) -> None:
    async with explorer("demo", size=size, text="Mia saw a blue fox", head="L1H0") as (app, pilot):
        for keys, measure in walk.items():
            for key in keys:
                await type_keys(pilot, key)
                await settle(pilot)
            grid, lines = pane(app).grid, screen_text(app).splitlines()
            region = grid.region
            place = grid.all_columns.index(measure)
            for number, row in enumerate(grid.rows[: grid.rows_in_view]):
                line = lines[region.y + grid.head + number][region.x : region.right]
                value = row[place]
                assert isinstance(value, int | float)
                written = {within(value, digits, digits=2) for digits in range(4, 10)}
                assert written & set(re.findall(r"[-+.e\d]+", line)), line
            assert measure != "value" or "weight" in shown(pane(app).readout_line)
        if size[0] == 80:
            await pilot.press("slash", *"projection > 0.2", "enter")
            await settle(pilot)
            assert grid.column == "projection"
            assert re.search(r"token +projection +chance", screen_text(app)), "of what a row is stays beside it"
