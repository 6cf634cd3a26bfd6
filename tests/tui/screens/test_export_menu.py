"""The export menu, also of a view that is still being computed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from engine.values.table import Table
from tests.conftest import TinyModel
from tests.exporting import run
from tests.tui.explorer import drawn_lines, explorer, hold, notices, press, screen_text, type_keys, until
from tui.app.explorer import Explorer
from tui.export import files
from tui.export.request import write_parts
from tui.screens.export_screen import ExportScreen

TEXT = "the cat [bold] sat"


def names(folder: Path) -> list[str]:
    """List what is in a folder, hidden files too."""
    return sorted(each.name for each in folder.iterdir())


def notice(app: Explorer) -> str:
    """Give what was said last."""
    return notices(app)[-1]


def file_name(app: Explorer) -> str:
    assert isinstance(app.screen, ExportScreen)
    return Path(app.screen._file.value).name


def said(app: Explorer) -> str:
    """Give what the menu says below the name."""
    assert isinstance(app.screen, ExportScreen)
    return app.screen.message_line.shown.plain


async def test_the_whole_models_tables_are_those_of_the_command(tiny_model: TinyModel, folder: Path) -> None:
    model = tiny_model("gpt2")
    name = model.name
    async with explorer(model, text=TEXT, head="L1H2") as (app, pilot):
        for key in ("1", "2", "3", "4"):
            await press(pilot, key, "e", "w")
            assert f" in {folder / name}-all-" in notice(app)
        await press(pilot, "3", "e", "left", "enter")  # the format before the first is the last
        assert notice(app).startswith("2 arrays, ")
        await press(pilot, "e", "m")
        assert notice(app).startswith("8 arrays, ")
    for view, options in (("spectrum", ()), ("ranks", ()), ("attention", ("--text", TEXT)), ("circuits", ())):
        assert (folder / f"{name}-all-{view}.csv").read_bytes() == run(model, view, *options).stdout_bytes
    maps, matrices = np.load(folder / f"{name}-all-attention.npz"), np.load(folder / f"{name}-L1H2-matrices.npz")
    assert set(maps) == {"L0", "L1"}
    run(model, "matrices", "--head", "L1H2", "-o", folder / "heads.npz")
    expected = np.load(folder / "heads.npz")
    assert set(matrices) == set(expected)
    assert all(np.array_equal(matrices[key], expected[key]) for key in expected)


async def test_the_menu_goes_by_keys_and_offers_the_last_choice_first(tiny_model: TinyModel, folder: Path) -> None:
    model = tiny_model("gpt2")
    table = f"{model.name}-L1-ranks"
    async with explorer(model, head="L1H2") as (app, pilot):
        await press(pilot, "2", "e", "v")
        assert names(folder) == [f"{table}.csv"], "nothing was chosen yet: what is on screen, as CSV"
        await press(pilot, "e")
        assert file_name(app) == f"{table}-2.csv"
        await press(pilot, "right")
        assert file_name(app) == f"{table}.jsonl"
        await press(pilot, "j", "j", "k")
        assert file_name(app) == f"{model.name}-all-ranks.jsonl"
        assert said(app) == f"attn-tui export {model} ranks", "the same without the explorer"
        await press(pilot, "escape")
        assert not isinstance(app.screen, ExportScreen)
        assert names(folder) == [f"{table}.csv"], "esc writes nothing"
        await press(pilot, "e", "right", "enter")
        await press(pilot, "2", "]", "e", "v")
        assert names(folder) == [f"{table}-2.jsonl", f"{table}.csv", f"{table}.jsonl"]
        assert notice(app).startswith("30 rows, ")
        await press(pilot, "e")
        assert file_name(app) == f"{table}-3.jsonl", "the last choice is offered first"
        await press(pilot, "escape", "l", "o", "e", "v")
        written = [json.loads(line)["head"] for line in (folder / f"{table}-3.jsonl").read_text().splitlines()]
        on_screen = [line.split()[0].removeprefix("H") for line in drawn_lines(app, app.views.ranks.grid)[1:6]]
        assert list(dict.fromkeys(written)) == on_screen != ["0", "1", "2", "3", "all"], "in the order on screen"
    command = model, "ranks", "--layer", "1", "--format", "jsonl"
    assert (folder / f"{table}.jsonl").read_text() == run(*command).stdout + run(*command, "--head", "all").stdout


async def test_names_can_be_changed_and_no_file_is_overwritten_unasked(tiny_model: TinyModel, folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    (other / "mine.jsonl").write_text("mine")
    async with explorer(tiny_model("gpt2"), head="L0H0") as (app, pilot):
        await press(pilot, "e", "tab", "ctrl+u", *"gone/a.csv", "enter")
        assert f"there is no folder {folder / 'gone'};" in said(app)
        await press(pilot, "end", "ctrl+u", *"other/mine.jsonl", "enter")
        assert "the file exists" in said(app)
        assert (other / "mine.jsonl").read_text() == "mine"
        await press(pilot, "enter")
        assert notice(app).endswith(f" in {other / 'mine.jsonl'}")
        assert "singular_value" in json.loads((other / "mine.jsonl").read_text().splitlines()[0])
        await press(pilot, "e", "v")
        (second,) = set(names(other)) - {"mine.jsonl"}
        assert second.endswith("-spectrum.jsonl"), "the folder is remembered, and the format that the name said"
    assert names(folder) == ["other"]


async def test_esc_gives_up_a_long_file(tiny_model: TinyModel, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endlessly(pieces: Iterable[Table], *rest: Any) -> int:
        return write_parts(itertools.cycle(list(pieces)), *rest)

    monkeypatch.setattr(files, "write_parts", endlessly)
    async with explorer(tiny_model("gpt2"), head="L0H0") as (app, pilot):
        await type_keys(pilot, "2", "e", "v")
        await until(pilot, lambda: bool(names(folder)))
        assert {name.endswith(".part") for name in names(folder)} == {True}
        await type_keys(pilot, "e", "v")
        await until(pilot, lambda: any("is still being written" in each for each in notices(app)))
        await type_keys(pilot, "]")
        await until(pilot, lambda: "L0H1" in str(app.session.shown.selected))  # keys are answered meanwhile
        await press(pilot, "escape")
        assert notice(app) == "nothing of the file is left"
        assert names(folder) == []


async def test_pictures_show_the_view_without_what_lies_over_it(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("gpt2"), text=TEXT, head="L1H2") as (app, pilot):
        await press(pilot, "2")
        lines = drawn_lines(app, app.views.active)
        whole = screen_text(app)
        for key in ("s", "S"):
            app.notify("a notice over the view", timeout=60)
            await press(pilot, "e", key)
        for ending, begin in (("csv", b"stack,layer,"), ("jsonl", b"{"), ("svg", b"<svg"), ("npz", b"PK")):
            await press(pilot, "e", "tab", "ctrl+u", *f"b.{ending}", "enter")
            assert (folder / f"b.{ending}").read_bytes().startswith(begin), "a typed name's ending is its format"
    assert "stable rank" in "\n".join(lines)
    for pattern, expected in (("*-ranks.svg", "\n".join(lines)), ("*-screen.svg", whole)):
        root = ElementTree.parse(next(folder.glob(pattern))).getroot()
        found = "".join("".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text"))
        assert "".join(found.split()) == "".join(expected.split())
        assert "http" not in ElementTree.tostring(root, encoding="unicode").replace("http://www.w3.org/2000/svg", "")


async def test_an_empty_view_is_not_written(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        free = hold(app)
        app.main.read("another sentence")
        await type_keys(pilot, "}", "3")
        await until(pilot, lambda: app.views.active.is_waiting)
        for what in "vs":  # as a table and as a picture, whatever is still on screen
            await type_keys(pilot, "e", what)
            assert said(app) == "attention is still empty; nothing was written"
            await type_keys(pilot, "escape")
        free.set()
        await until(pilot, lambda: not app.views.active.is_waiting)
        assert names(folder) == []
        await press(pilot, "e", "v")
        assert len(names(folder)) == 1
