"""What is exported while it is worked out is written when it is asked for twice, and says how far it is."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, hold, screen_text, settle, type_keys, until
from tui.app.explorer import Explorer
from tui.screens.export_screen import ExportScreen

TEXT = "the cat sat on the mat"


def said(app: Explorer) -> str:
    """Give what the menu says below the name."""
    assert isinstance(app.screen, ExportScreen)
    return str(app.screen._said_line.render())


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
        assert told.startswith("not complete yet: ")


@pytest.mark.parametrize("view", ["3", "4"])
async def test_of_what_shows_nothing_yet_nothing_is_written(view: str, tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        free = hold(app)
        await type_keys(pilot, "}", view)
        await until(pilot, lambda: "computing …" in screen_text(app))
        await type_keys(pilot, "e", "v")
        assert said(app) == f"{app.views.active.view} is still empty; nothing was written"
        free.set()
        await until(pilot, lambda: not app.views.active.is_waiting)
        await type_keys(pilot, "v")
        await settle(pilot)
        assert len(list(folder.iterdir())) == 1


async def test_the_map_of_all_heads_is_unfinished_until_the_last_is_known(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        await type_keys(pilot, "w")
        await settle(pilot)
        pane = app.views.overview
        assert pane.shown is not None
        cells = pane.shown.cells
        pane.shown, pane.is_unfinished = replace(pane.shown, cells=(*cells[:4], *[None] * 4)), True
        await type_keys(pilot, "e", "v")
        assert said(app) == "still being computed; press Enter again to write it as it is"
        pane.shown, pane.is_unfinished = replace(pane.shown, cells=cells), False
        await type_keys(pilot, "v")
        await settle(pilot)
        (file,) = folder.iterdir()
        with file.open(encoding="utf-8") as lines:
            assert all(all(row.values()) for row in csv.DictReader(lines))
