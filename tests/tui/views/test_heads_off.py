"""Several heads are switched off at once by their names, by what a filter or a search finds, and one by its row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head, Off
from engine.values.options import EngineOptions
from engine.values.outline import ModelOutline, heads_named
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.tui.explorer import explorer, foot, press, screen_text, settle, shown, until
from tui.app.explorer import Explorer
from tui.views.table_view import TablePane

TEXT = "the cat sat"


def opened(model: Path) -> ModelOutline:
    """Give the outline of a model."""
    engine = Engine(EngineOptions())
    outline = engine.open(str(model), lambda progress: None).result()
    engine.stop()
    return outline


def off(app: Explorer) -> str:
    """Name what is off."""
    return " ".join(map(str, app.session.shown.off.heads))


def test_heads_are_named_by_themselves_by_layers_and_all_of_them(tiny_model: TinyModel) -> None:
    outline = opened(tiny_model("llama"))
    here = Head("decoder", 1, 2)
    for text, named in (
        ("L1H3 L1H2", "L1H3 L1H2"),
        ("1.3, 0.0", "L1H3 L0H0"),
        ("l0", "L0H0 L0H1 L0H2 L0H3"),
        ("L1H1 L1", "L1H1 L1H0 L1H2 L1H3"),
        ("h0 decoder.L0H3", "L1H0 L0H3"),
    ):
        assert " ".join(map(str, heads_named(text, outline, here))) == named
    assert len(heads_named("all", outline)) == 8
    for text, said in (
        ("L0H1 3", "write L3 for the layer, 3.0 for a head"),
        ("L1H4", "no head L1H4: the layer has heads 0 to 3"),
        ("L7", "no attention in layer 7: decoder has 2 such layers"),
        ("ranks", "'ranks' is not a head; write it as L5H1"),
    ):
        with pytest.raises(EngineError, match=said):
            heads_named(text, outline)


def test_where_there_are_several_stacks_a_head_is_of_the_one_that_is_looked_at(tiny_model: TinyModel) -> None:
    outline = opened(tiny_model("t5"))
    assert heads_named("L0H1", outline, Head("cross", 2)) == (Head("cross", 0, 1),)
    with pytest.raises(EngineError, match="could be in any of encoder, decoder, cross"):
        heads_named("L0H1", outline)


def test_of_many_heads_that_are_off_a_title_names_the_first() -> None:
    heads = tuple(Head("decoder", 0, number) for number in range(9))
    assert str(Off(heads[:4])) == "L0H0, L0H1, L0H2, L0H3 off"
    assert str(Off(heads, by_mean=True)) == "9 heads off by their mean: L0H0, L0H1, L0H2 …"


def test_a_layer_and_several_heads_can_be_named_behind_off(tiny_model: TinyModel) -> None:
    asked = (tiny_model("llama", with_head=True), "ablation", "--text", TEXT, "--top", "1", "--off")
    by_one = exported(*asked, "L0H0 L0H1, L0H2", "--off", "L0H3")
    by_layer = exported(*asked, "L0")
    assert by_layer == by_one
    assert by_layer[0]["off"] == "L0H0 L0H1 L0H2 L0H3"


async def test_heads_are_switched_by_their_names_and_what_is_no_head_is_said(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H1") as (app, pilot):
        await press(pilot, ":", *"off L1H3 L1H2", "enter")
        assert off(app) == "L1H3 L1H2"
        assert foot(app).startswith("L1H3, L1H2 off; O switches all on")
        await press(pilot, ":", *"off L1H3", "enter")
        assert foot(app).startswith("L1H3 is off already")
        await press(pilot, "colon", *"on 1.3", "enter")
        assert off(app) == "L1H2"
        await press(pilot, ":", *"off L0", "enter")
        assert off(app) == "L1H2 L0H0 L0H1 L0H2 L0H3"
        assert foot(app).startswith("5 heads off: L0H0, L0H1, L0H2 …"), "those of now first"
        await press(pilot, ":", *"on L1H2", "enter", ":", *"off 1.2", "enter")
        assert foot(app).startswith("5 heads off: L1H2, L0H0, L0H1 …"), "and the one that was switched by itself"
        await press(pilot, ":", *"off L1H9", "enter")
        assert "no head L1H9: the layer has heads 0 to 3" in screen_text(app)
        assert app.main.prompt.display, "the line stays, to be mended"
        await press(pilot, ":", *"off found", "enter")
        assert "nothing is filtered or searched" in screen_text(app)
        await press(pilot, ":", *"on all", "enter")
        assert off(app) == ""
        assert re.match(r"\d+ heads are on again; all heads are on", foot(app))
        await press(pilot, ":", *"off L1H3 L1H2", "enter", ":", *"on L1H3", "enter")
        assert foot(app).startswith("L1H3 is on again; L1H2 off; O switches all on")
        await press(pilot, ":", *"on all", "enter")
        assert foot(app).startswith("L1H2 is on again; all heads are on")
        await press(pilot, ":", *"on L0", "enter")
        assert foot(app).startswith("all heads are on")
        await press(pilot, ":", *"off", "enter")
        assert off(app) == "L0H1", "the selected one"


async def test_names_of_heads_are_completed_behind_on_those_that_are_off(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await press(pilot, ":", *"off l1h", "tab", "tab", "tab")
        assert app.main.prompt.input.value == "off L1H2"
        await press(pilot, " ", *"fo", "tab")
        assert app.main.prompt.input.value == "off L1H2 found"
        await press(pilot, "ctrl+w", "enter", ":", *"on l", "tab", "tab")
        assert app.main.prompt.input.value == "on L1H2"


async def test_what_a_filter_or_a_search_leaves_goes_off_at_once(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT) as (app, pilot):
        await press(pilot, "/", *"head = 2", "enter")
        pane = app.views.active
        assert isinstance(pane, TablePane)
        await until(pilot, lambda: pane.counts == (2, 8))
        await press(pilot, ":", *"off found", "enter")
        assert off(app) == "L0H2 L1H2"
        await press(pilot, "escape", "unbound:app.tree", "/", *"L1H3", "enter", ":", *"off found", "enter")
        assert off(app) == "L0H2 L1H2 L1H3", "the keys are the tree's, where that was searched"
        await press(pilot, "2", "/", *"matrix = OV and head = 0", "enter", ":", *"off found", "enter")
        assert off(app).endswith("L1H3 L1H0")
        await press(pilot, "/", *"head = all", "enter", ":", *"off found", "enter")
        assert "the filter matches no head" in screen_text(app)


async def test_of_a_table_that_is_being_filled_what_is_found_is_said_to_be_so_far(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, size=(100, 24)) as (app, pilot):
        await press(pilot, "w", "w")
        pane = app.views.active
        assert isinstance(pane, TablePane)
        await until(pilot, lambda: pane.counts == (8, 8))
        pane.is_unfinished = True
        await press(pilot, "/", *"layer = 9", "enter", ":", *"off found", "enter")
        assert "the filter matches no head so far: 0 of 8 rows" in screen_text(app)
        await press(pilot, "escape", "/", "ctrl+u", *"head = 2", "enter")
        await press(pilot, ":", *"off found")
        assert "2 heads so far" in screen_text(app)
        await press(pilot, "enter")
        assert foot(app).startswith("found so far: L0H2, L1H2 off; O switches all on")
        pane.is_unfinished = False
        await press(pilot, ":", *"on found", "enter")
        assert foot(app).startswith("2 heads are on again; all heads are on")


async def test_a_refused_answer_is_mended(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H1", text=TEXT) as (app, pilot):
        await press(pilot, ":", *"off L1H9", "enter")
        assert app.main.prompt.display
        await press(pilot, "backspace", "2", "enter")
        assert off(app) == "L1H2", "the digit goes into the line, which is being mended"


async def test_a_key_switches_the_head_of_a_row_in_every_table_of_heads(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT, size=(100, 24)) as (app, pilot):
        await press(pilot, "w", "w")
        pane = app.views.active
        assert isinstance(pane, TablePane)
        await until(pilot, lambda: pane.counts == (8, 8))
        assert "space Off" in foot(app)
        await press(pilot, "j", "space")
        assert off(app) == "L0H1"
        assert foot(app).startswith("L0H1 off")
        assert app.session.shown.selected == Head("decoder", 0, 0), "the row's, and not the selected one"
        await settle(pilot)
        assert shown(pane.readout_line).startswith("L0H1 off  ")
        struck = {
            "".join(segment.text for segment in strip if segment.style is not None and segment.style.strike).split()[1]
            for y in range(pane.grid.size.height)
            for strip in [pane.grid.render_line(y)]
            if any(segment.style is not None and segment.style.strike for segment in strip)
        }
        assert struck == {"1"}
        await press(pilot, "space")
        assert off(app) == ""
        assert shown(pane.readout_line).startswith("L0H1  ")
        await press(pilot, "4")
        await settle(pilot)
        await press(pilot, "space")
        assert off(app) == "L0H1", "the view is of the row's head too"
        await press(pilot, ":", *"L0", "enter")
        await settle(pilot)
        await press(pilot, "G", "space")
        assert off(app) == "L0H1"
        assert foot(app).startswith("L0 is a layer; type :off L0 for all its heads, or choose one and press space")
        await press(pilot, *"/x y")
        assert isinstance(app.views.active, TablePane)
        assert app.views.active.filter_input.value == "x y"
        await press(pilot, "escape", "6", "space")
        assert "space Off" not in foot(app), "all its rows are of one head"


async def test_the_command_for_a_file_names_all_heads_that_are_off_at_once(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", with_head=True), text=TEXT, size=(160, 50)) as (app, pilot):
        await press(pilot, ":", *"off L0H1 L1H2", "enter", "9")
        await settle(pilot)
        await press(pilot, "e")
        for _ in range(6):
            if "attn-tui export" in screen_text(app):
                break
            await press(pilot, "j")
            await settle(pilot)
        said = " ".join(" ".join(line.strip(" │") for line in screen_text(app).splitlines()).split())
        assert "--off 'L0H1 L1H2'" in said
