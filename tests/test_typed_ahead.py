"""What is typed at once does what the same keys do one by one: each waits for what the one before it asked for."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from textual.events import Key
from textual.keys import _character_to_key

from engine.service.engine import Engine
from engine.service.options import EngineOptions
from tests.conftest import TinyModel
from tests.explorer import explorer, hold, settle, type_keys, until
from tests.test_moves_kept import heads_held_back
from tui.app import Explorer
from tui.key_watch import AT_ONCE
from tui.panes.compare import ComparePane
from tui.panes.table import TablePane
from tui.panes.text import TextPane
from tui.start import Start

TEXT = "the cat sat on the mat"


def ahead(app: Explorer, *keys: str, after: float = 0.0) -> None:
    """Type keys at once; ``after`` so many seconds by the clock of whoever types."""
    for key in keys:
        event = Key(key if len(key) > 1 or key.isalnum() else _character_to_key(key), key if len(key) == 1 else None)
        event.time += after
        app.post_message(event)


def where(app: Explorer) -> object:
    """Say what the active view's cursor is on."""
    pane = app.views.active
    if pane is app.views.attention:
        return app.views.attention.heatmap.cursor
    if isinstance(pane, TextPane):
        return pane.queries.cursor
    if isinstance(pane, ComparePane):
        return [each.cursor for each in pane.maps.heatmaps]
    return str(app.conductor.selected)


@pytest.mark.parametrize(
    ("keys", "view", "place"),
    [
        (("3", *"jjl"), "attention", (2, 1)),
        (("3", "a", *"jjl"), "attention", (2, 1)),
        (("T", *"lll"), "text", 3),
        (("A", *"ll"), "maps", "L0H2"),
        ((*"PgL1H1", "enter", *"PCCjjl"), "compare", [(2, 1), (2, 1)]),
        (("2", *"/matrix = OV", "enter", *"jj5"), "composition", "L0H2"),
        (("]", "2", *"/matrix = OV", "enter", *"j"), "ranks", "L0H2"),
    ],
)
async def test_what_is_typed_before_the_tree_is_there_is_of_what_then_is(
    keys: tuple[str, ...], view: str, place: object, tiny_model: TinyModel
) -> None:
    app = Explorer(Engine(EngineOptions()), Start(str(tiny_model("llama")), text=TEXT))
    async with app.run_test(size=(100, 30)) as pilot:
        ahead(app, *keys)
        await settle(pilot)
        assert app.views.active.view == view
        assert where(app) == place
        shown = app.views.attention.shown_name
        assert shown is not None
        assert (shown.head is None) == ("a" in keys[:2]), "the mean over the heads, and no other kind"
    app.engine.stop()


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ((*"4jj6ev",), "L0H2-directions.csv"),
        ((*"7jj6E",), "L0H2-directions.csv"),
        ((*"7jj3E",), "L0H2-attention.csv"),
        ((*"7jjPgL1H1", "enter", *"PCE"), "L0H2-L1H1-spectrum.csv"),
    ],
)
async def test_a_file_is_of_the_view_that_the_keys_before_it_lead_to(
    keys: tuple[str, ...], name: str, tiny_model: TinyModel, folder: Path
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        free = hold(app)
        ahead(app, *keys)
        await pilot.pause()
        assert not list(folder.iterdir())
        free.set()
        await settle(pilot)
        (file,) = folder.iterdir()
        assert file.name.endswith(name)


async def test_what_is_typed_behind_a_file_that_waits_is_none_of_its_menus_letters(
    tiny_model: TinyModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = heads_held_back(monkeypatch)
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        ahead(app, *"wwE:", *"w mine.csv", "enter")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        free.set()
        await settle(pilot)
        assert sorted(file.name.rpartition("-")[2] for file in folder.iterdir()) == ["heads.csv", "mine.csv"]
        assert {len(file.read_text(encoding="utf-8").splitlines()) for file in folder.iterdir()} == {9}


@pytest.mark.parametrize(
    ("keys", "selected", "row", "pinned"),
    [
        ("}P", "L1H1", "L1H1", ["L1H1"]),
        ("}jP", "L1H1", "L1H2", ["L1H2"]),
        ("jP}jP", "L1H2", "L1H3", ["L0H2", "L1H3"]),
        ("}j]P", "L1H3", "L1H3", ["L1H3"]),
        ("}j\n", "L1H2", "L1H2", []),
        ("}jj3", "L1H3", "None", []),
    ],
)
async def test_what_is_about_a_row_is_of_the_row_that_comes_and_not_of_one_that_goes(
    keys: str, selected: str, row: str, pinned: list[str], tiny_model: TinyModel
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, "7")
        await settle(pilot)
        await type_keys(pilot, "j")
        free = hold(app)
        ahead(app, *("enter" if key == "\n" else key for key in keys))
        await pilot.pause()
        free.set()
        await settle(pilot)
        assert (str(app.conductor.selected), str(app.views.row_head)) == (selected, row)
        assert sorted(map(str, app.tree_widget.pinned)) == pinned


@pytest.mark.parametrize(
    ("keys", "view", "selected", "pinned"),
    [
        ("tgg1", "spectra", "None", []),
        ("tjggj3", "attention", "L0", []),
        ("tGgg]P", "overview", "L0H0", ["L0H0"]),
        (":nowhere\n]P", "overview", "L0H2", ["L0H2"]),
    ],
)
async def test_a_key_that_becomes_another_one_is_done_before_what_is_typed_behind_it(
    keys: str, view: str, selected: str, pinned: list[str], tiny_model: TinyModel
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H1") as (app, pilot):
        await type_keys(pilot, "w")
        ahead(app, *("enter" if key == "\n" else key for key in keys))
        await settle(pilot)
        assert (app.views.active.view, str(app.conductor.selected)) == (view, selected)
        assert sorted(map(str, app.tree_widget.pinned)) == pinned


@pytest.mark.parametrize("is_at_once", [True, False])
async def test_what_is_typed_at_once_behind_a_view_that_is_refused_is_done_as_one_by_one(
    is_at_once: bool, tiny_model: TinyModel
) -> None:
    async with explorer(tiny_model("bert"), text=TEXT, head="L0H1") as (app, pilot):
        free = hold(app)
        if is_at_once:
            ahead(app, *"9jP")
            await pilot.pause()
        free.set()
        if not is_at_once:
            for key in "9jP":
                await type_keys(pilot, key)
                await settle(pilot)
        await settle(pilot)
        assert isinstance(pane := app.views.active, TablePane)
        assert pane.shown is None, pane.grid.message
        assert list(map(str, app.tree_widget.pinned)) == ["L0H1"]


async def test_a_person_who_has_seen_that_a_key_waits_need_not_wait(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        free = hold(app)
        ahead(app, *"4jj6")
        await until(pilot, lambda: app.is_waiting_with_act)
        ahead(app, "2", after=2 * AT_ONCE)
        await until(pilot, lambda: app.views.active.view == "ranks")
        free.set()
        await settle(pilot)
        assert app.views.active.view == "ranks", "and nothing comes later"


async def test_a_file_asked_for_right_behind_a_sentence_is_of_that_one(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, "3")
        await settle(pilot)
        free = hold(app)
        ahead(app, "i", *"a dog", "enter", "E")
        await until(pilot, lambda: len(app.screen_stack) > 1)
        free.set()
        await settle(pilot)
        (file,) = folder.iterdir()
        with file.open(encoding="utf-8") as lines:
            assert "og" in "".join(row["query_token"] for row in csv.DictReader(lines))


async def test_a_sweep_that_was_stopped_is_written_as_far_as_it_came(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, "w", "w")
        await settle(pilot)
        app.views.active.is_unfinished = app.views.active.is_stopped = True
        await type_keys(pilot, "E")
        await settle(pilot)
        assert len(app.screen_stack) == 1
        (told,) = (str(each.message) for each in app._notifications)
        assert told.startswith("as far as it is known by now: ")


async def test_moves_ahead_of_the_rows_begin_at_the_row_that_was_left(tiny_model: TinyModel) -> None:
    start = Start(str(tiny_model("llama")), text=TEXT, is_restoring=True)
    for keys, row in ((("7", "j"), 1), (("j",), 2)):
        app = Explorer(Engine(EngineOptions()), start)
        async with app.run_test(size=(100, 30)) as pilot:
            ahead(app, *keys)
            await settle(pilot)
            pane = app.views.active
            assert isinstance(pane, TablePane)
            assert pane.grid.place == row
            await app.action_quit()
        app.engine.stop()
