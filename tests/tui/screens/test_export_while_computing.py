"""Exports of a view that is still being computed."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, hold, press, screen_text, type_keys, until
from tui.app.explorer import Explorer
from tui.screens.export_screen import ExportScreen

TEXT = "the cat sat on the mat"


def said(app: Explorer) -> str:
    """Give what the menu says below the name."""
    assert isinstance(app.screen, ExportScreen)
    return str(app.screen.message_line.render())


async def test_an_unfinished_table_is_written_with_a_notice(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        for number, (key, view) in enumerate((("w", "overview"), ("w", "heads"), ("2", "ranks")), 1):
            await press(pilot, key)
            assert app.views.active.view == view
            assert not app.views.active.is_unfinished
            app.views.active.is_unfinished = True
            app.clear_notifications()
            await press(pilot, "e", "v", "enter")
            assert len(list(folder.iterdir())) == number
            (told,) = (str(each.message) for each in app._notifications)
            assert told.startswith("not complete yet: ")


@pytest.mark.parametrize("view", ["3", "4"])
async def test_an_empty_view_is_not_written(view: str, tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        free = hold(app)
        await type_keys(pilot, "}", view)
        await until(pilot, lambda: "computing …" in screen_text(app))
        await type_keys(pilot, "e", "v")
        assert said(app) == f"{app.views.active.view} is still empty; nothing was written"
        free.set()
        await until(pilot, lambda: not app.views.active.is_waiting)
        await press(pilot, "v")
        assert len(list(folder.iterdir())) == 1


async def test_the_overview_is_unfinished_until_every_head_is_known(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        await press(pilot, "w")
        pane = app.views.overview
        assert pane.shown is not None
        cells = pane.shown.cells
        pane.shown, pane.is_unfinished = replace(pane.shown, cells=(*cells[:4], *[None] * 4)), True
        await type_keys(pilot, "e", "v")
        assert said(app) == "still being computed; press Enter again to write it as it is"
        pane.shown, pane.is_unfinished = replace(pane.shown, cells=cells), False
        await press(pilot, "v")
        (file,) = folder.iterdir()
        with file.open(encoding="utf-8") as lines:
            assert all(all(row.values()) for row in csv.DictReader(lines))
