"""What is exported while it is worked out is written once it is whole, or says how far it is."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.conftest import TinyModel
from tests.tui.app.test_keys_before_rows import heads_held_back
from tests.tui.explorer import explorer, hold, screen_text, settle, type_keys, until
from tui.app import Explorer
from tui.first_look import FirstLook
from tui.screens.export_screen import ExportScreen
from tui.start import Start

TEXT = "the cat sat on the mat"


def empty_cells(file: Path, column: str) -> int:
    """Count the heads for which a file says nothing in a column."""
    with file.open(encoding="utf-8") as lines:
        return sum(not row[column] for row in csv.DictReader(lines))


def said(app: Explorer) -> str:
    """Give what the menu says below the name."""
    assert isinstance(app.screen, ExportScreen)
    return str(app.screen._said_line.render())


@pytest.mark.parametrize("keys", [("e", "v"), (":", *"export mine.csv", "enter")])
async def test_a_table_that_grows_is_written_once_it_is_whole(
    keys: tuple[str, ...], tiny_model: TinyModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = heads_held_back(monkeypatch)
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, *"ww")
        await until(pilot, lambda: app.views.active.is_unfinished)
        await type_keys(pilot, *keys)
        assert said(app) == "still being worked out; written once it is whole, or with Enter as it is"
        assert not list(folder.iterdir())
        free.set()
        await settle(pilot)
        assert len(app.screen_stack) == 1
        (file,) = folder.iterdir()
        assert empty_cells(file, "ov_stable_rank") == 0
        assert len(file.read_text(encoding="utf-8").splitlines()) == 9


@pytest.mark.parametrize(("view", "waits"), [("t", True), ("S", False)])
async def test_a_picture_of_a_table_that_grows_waits_for_it_and_one_of_the_screen_does_not(
    view: str, waits: bool, tiny_model: TinyModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = heads_held_back(monkeypatch)
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, *"ww")
        await until(pilot, lambda: app.views.active.is_unfinished)
        await type_keys(pilot, "e", view)
        await until(pilot, lambda: bool(list(folder.iterdir())) is not waits)
        free.set()
        await settle(pilot)
        (file,) = folder.iterdir()
        assert ("computing" in file.read_text(encoding="utf-8")) is not waits


async def test_a_name_that_is_being_typed_is_waited_for(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, "w", "w")
        await settle(pilot)
        app.views.active.is_unfinished = True
        await type_keys(pilot, "e", "v", "tab", "ctrl+u", *"mi")
        app.views.active.is_unfinished = False
        await settle(pilot)
        assert not list(folder.iterdir())
        await type_keys(pilot, *"ne.csv", "enter")
        await settle(pilot)
        assert [file.name for file in folder.iterdir()] == ["mine.csv"]


@pytest.mark.parametrize("view", ["w", "ww", "2"])
async def test_one_that_is_written_as_it_is_says_so(view: str, tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, *view)
        await settle(pilot)
        assert not app.views.active.is_unfinished
        app.views.active.is_unfinished = True
        await type_keys(pilot, "e", "v", "enter")
        await settle(pilot)
        assert len(list(folder.iterdir())) == 1
        (told,) = (str(each.message) for each in app._notifications)
        assert told.startswith("as far as it is known by now: ")


@pytest.mark.parametrize("view", ["3", "4"])
async def test_what_is_asked_for_before_there_is_anything_is_written_once_there_is(
    view: str, tiny_model: TinyModel, folder: Path
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        free = hold(app)
        await type_keys(pilot, "}", view)
        await until(pilot, lambda: "computing …" in screen_text(app))
        await type_keys(pilot, "e", "v")
        assert said(app) == f"the {app.views.active.view} view shows nothing yet; it is written once it does"
        free.set()
        await settle(pilot)
        assert len(app.screen_stack) == 1
        (file,) = folder.iterdir()
        assert len(file.read_text(encoding="utf-8").splitlines()) > 1
        (told,) = (str(each.message) for each in app._notifications)
        assert file.name in told
        assert "as far as" not in told


async def test_a_map_that_is_asked_for_as_soon_as_there_is_a_tree_is_waited_for(
    tiny_model: TinyModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Callable[[], None]] = []
    look = FirstLook._look
    monkeypatch.setattr(FirstLook, "_look", lambda *given: held.append(partial(look, *given)))
    app = Explorer(Engine(EngineOptions()), Start(str(tiny_model("llama")), text=TEXT))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: bool(held))
        await type_keys(pilot, "3", "e")
        assert said(app) == "the attention view shows nothing yet; what is chosen is written once it does"
        await type_keys(pilot, "v")
        assert said(app) == "the attention view shows nothing yet; it is written once it does"
        held.pop()()
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await settle(pilot)
        (file,) = folder.iterdir()
        assert file.name.endswith("L0H0-attention.csv")
    app.engine.stop()


async def test_the_map_of_all_heads_is_unfinished_until_the_last_is_known(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        await type_keys(pilot, "w")
        await settle(pilot)
        pane = app.views.overview
        assert pane.shown is not None
        cells = pane.shown.cells
        pane.show("of half", replace(pane.shown, cells=(*cells[:4], *[None] * 4)), pane.scale, "")
        await type_keys(pilot, "e", "v")
        assert said(app) == "still being worked out; written once it is whole, or with Enter as it is"
        pane.show("of all", replace(pane.shown, cells=cells), pane.scale, "")
        await settle(pilot)
        (file,) = folder.iterdir()
        with file.open(encoding="utf-8") as lines:
            assert all(all(row.values()) for row in csv.DictReader(lines))
