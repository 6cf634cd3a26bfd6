"""Views of several heads and of the text, and pins, at the next start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.values.heads import Head
from tests.explorer import explorer, screen_text, settle, shown, type_keys, until
from tui.app import Explorer
from tui.first_look import FirstLook
from tui.panes.table import TablePane
from tui.remembered import Remembered, model_key, place_of, recall, remember
from tui.shown_model import ShownModel
from tui.start import Start

TinyModel = Callable[..., Path]

TEXT = "The cat sat on the mat; the cat sat on"

WAYS = {
    "spectra": ("1", *"jllsb"),
    "ranks": ("2", *"/matrix = OV and layer < 9", "enter", "end", "o"),
    "map": ("3", *"aas#jjlh"),
    "explain": ("x", *"jjl"),
    "small maps": ("A", "s"),
    "text": ("T", *"fo"),
    "step of the maps": (*"PCC",),
    "step of the difference": (*"]C",),
    "heads": ("w", "w", *"/ov_stable_rank > 1", "enter", *"jll", "o", *"jj"),
    "ablation": ("9", *"jjjl"),
    "directions": ("6", "end", "o", "G"),
    "predictions": ("8", ",", ",", "j"),
    "measure on another scale": ("w", "w", "s"),
}
"""From one to the next, how a view is changed, with the key that leads there first."""


@pytest.mark.parametrize(
    ("keys", "view", "seen"),
    [
        ("T", "text", "looks at"),
        ("A", "maps", "H1"),
        ("P}PC", "compare", "L0H0"),
    ],
)
async def test_the_view_that_was_left_comes_back(keys: str, view: str, seen: str, tiny_model: TinyModel) -> None:
    model = str(tiny_model("llama"))
    start = Start(model, text="a cat sat", is_restoring=True)
    async with explorer(model, start=start) as (app, pilot):
        await type_keys(pilot, *keys)
        await settle(pilot)
        assert app.views.active.view == view
        await app.action_quit()
    async with explorer(model, start=start) as (app, pilot):
        assert app.views.active.view == view
        assert app.views.active.has_focus_within  # which had the keys
        assert app.views.active.size
        assert seen in screen_text(app)
        await type_keys(pilot, "3", *keys[-1])
        await settle(pilot)
        assert app.views.active.view == view
        assert app.views.active.has_focus_within


@pytest.mark.parametrize("keys", [("3", "j", "i", *"a dog"), ("3", "i", *"a dog", "tab")])
@pytest.mark.parametrize("keeps", [True, False])
async def test_a_sentence_that_is_half_typed_as_the_program_is_left_is_among_those_of_before(
    keeps: bool, keys: tuple[str, ...], tiny_model: TinyModel
) -> None:
    model = str(tiny_model("llama"))
    start = Start(model, text="a cat sat", is_restoring=True, keeps_history=keeps)
    async with explorer(model, start=start) as (app, pilot):
        await type_keys(pilot, *keys, "ctrl+q")
        assert app._exit
    async with explorer(model, start=start) as (app, pilot):
        assert app.conductor.text == "a cat sat"
        assert app.views.attention.has_focus_within == ("tab" not in keys)  # which esc would have led back to
        await type_keys(pilot, "i", "up")
        assert app.sentence_input.value == ("a dog" if keeps else "a cat sat")


@pytest.mark.parametrize("kind", ["t5", "llama"])
async def test_a_table_comes_back_even_where_the_tree_is_quicker_than_the_view(
    kind: str, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = FirstLook._look

    def late(first: FirstLook, model: ShownModel, begin: Head) -> None:
        first._app.set_timer(0.3, lambda: look(first, model, begin))

    monkeypatch.setattr(FirstLook, "_look", late)
    model = str(tiny_model(kind))
    key = model_key(model, None)
    remember(key, Remembered(model=key, view="circuits", head="decoder.L0H2"))
    async with explorer(model, start=Start(model, is_restoring=True)) as (app, pilot):
        await until(pilot, lambda: isinstance(app.views.active, TablePane))
        await settle(pilot)
        assert app.views.table is not None
        assert app.views.table.shown is not None
        assert "L0H2" in shown(app.views.table.title_line)


async def test_pins_come_back_as_far_as_the_model_has_the_heads(tiny_copy: TinyModel) -> None:
    model = str(tiny_copy("llama"))
    place = place_of(model_key(model, None))
    start = Start(model, is_restoring=True)
    async with explorer(model, start=start) as (app, pilot):
        await type_keys(pilot, *"P]P1")
        await settle(pilot)
        await app.action_quit()
    said = place.read_text(encoding="utf-8")
    assert "decoder.L0H0,decoder.L0H1" in said
    place.write_text(said.replace("decoder.L0H0,", "decoder.L77H0,nonsense,decoder.L1,"), encoding="utf-8")
    async with explorer(model, start=start) as (app, pilot):
        assert app.conductor.comparing is not None
        assert [str(head) for head in app.conductor.comparing.pins.heads] == ["L0H1"]
        assert "H1*" in screen_text(app)
        await app.action_quit()
    place.write_text(said.replace("decoder.L0H0,decoder.L0H1", "").replace("spectra", "compare"), encoding="utf-8")
    async with explorer(model, start=start) as (app, pilot):
        assert app.views.active is app.views.overview
        assert not app._notifications


async def test_the_layers_that_were_open_in_the_tree_are_open_again(tiny_model: TinyModel) -> None:
    model = str(tiny_model("gpt2", with_head=True))
    start, seen = Start(model, is_restoring=True), []
    for keys in (("gg", "j", "space", "j", "space"), ()):
        async with explorer(model, start=start) as (app, pilot):
            await type_keys(pilot, *keys)
            await settle(pilot)
            tree = app.tree_widget.region
            seen.append([line[tree.x : tree.right] for line in screen_text(app).splitlines()[tree.y : tree.bottom]])
            assert [app.tree_widget.is_open(Head("decoder", layer, 0)) for layer in (0, 1)] == [False, True]
            await app.action_quit()
    assert seen[0] == seen[1]


async def test_a_stack_that_was_closed_is_closed_again(tiny_model: TinyModel) -> None:
    model = str(tiny_model("t5"))
    start = Start(model, is_restoring=True, head="decoder.L0H0")
    for keys in (("g", "g", "j", "space"), ()):
        async with explorer(model, start=start) as (app, pilot):
            await type_keys(pilot, *keys)
            await settle(pilot)
            places = (Head("encoder", 0), Head("decoder", 0), Head("cross", 0))
            assert [app.tree_widget.is_open(place) for place in places] == [False, True, True], screen_text(app)
            await app.action_quit()


def looks(app: Explorer) -> list[str]:
    """Give what stands beside the tree, above the keys."""
    region = app.views.region
    return [line[region.x :] for line in screen_text(app).splitlines()[region.y : region.bottom]]


@pytest.mark.parametrize("way", WAYS)
async def test_the_view_looks_as_it_was_left(way: str, tiny_model: TinyModel) -> None:
    model = str(tiny_model("gpt2", with_head=True))
    start = Start(model, text=TEXT, is_restoring=True)
    async with explorer(model, start=start) as (app, pilot):
        if way == "step of the difference":
            await type_keys(pilot, *WAYS["step of the maps"])
        await type_keys(pilot, *WAYS[way][:1])
        await settle(pilot)
        before = looks(app)
        await type_keys(pilot, *WAYS[way][1:])
        await settle(pilot)
        left, focused = looks(app), app.focused
        assert left != before
        await app.action_quit()
    async with explorer(model, start=start) as (app, pilot):
        assert looks(app) == left
        assert app.focused is not None
        assert focused is not None
        assert (type(app.focused), app.focused.name) == (type(focused), focused.name)


async def test_views_that_are_not_looked_at_come_back_too_and_arguments_win(tiny_model: TinyModel) -> None:
    model = str(tiny_model("gpt2", with_head=True))
    async with explorer(model, start=Start(model, text=TEXT, is_restoring=True)) as (app, pilot):
        await type_keys(pilot, *WAYS["heads"])
        await settle(pilot)
        table = app.views.active
        assert isinstance(table, TablePane)
        left, here = table.left, str(table.head_here)
        assert left["filter"] == "ov_stable_rank > 1"
        await type_keys(pilot, *WAYS["map"], "z", "2")
        await settle(pilot)
        await app.action_quit()
    async with explorer(model, start=Start(model, is_restoring=True)) as (app, pilot):
        assert app.views.has_class("-zoomed")
        await app.action_quit()
    async with explorer(model, start=Start(model, text="another one", is_restoring=True)) as (app, pilot):
        await type_keys(pilot, "w")
        await settle(pilot)
        table = app.views.active
        assert isinstance(table, TablePane)
        assert (table.left, str(table.head_here)) == (left, here), "no row of it is of a sentence"
        await app.action_quit()
    asked = Start(model, text="another", head="L0H2", log_scale=False, is_restoring=True)
    async with explorer(model, start=asked) as (app, pilot):
        await type_keys(pilot, "3")
        await settle(pilot)
        heatmap = app.views.attention.heatmap
        assert (heatmap.scale, heatmap.cursor, heatmap.is_numbered) == ("linear", (0, 0), True)
        assert shown(app.views.attention.title_line) == "attention H2, mean over layers"
        await type_keys(pilot, "w")
        await settle(pilot)
        table = app.views.active
        assert isinstance(table, TablePane)
        assert table.view == "heads"
        assert "filter" not in table.left, "which might hide the head"
        assert table.left["order"].startswith("down ")
        assert str(table.head_here) == "L0H2"
        await app.action_quit()
    async with explorer(model, start=Start(model)) as (app, pilot):
        await type_keys(pilot, "3", *"ww")
        await settle(pilot)
        assert not app.views.attention.heatmap.is_numbered
        assert not app.views.active.left


async def test_a_long_map_is_as_near_as_it_was(tiny_model: TinyModel) -> None:
    model = str(tiny_model("gpt2", with_head=True, n_positions=256))
    start = Start(model, text="a cat sat on " * 40, head="L0H0", is_restoring=True)
    async with explorer(model, start=start) as (app, pilot):
        await type_keys(pilot, "3", *".jjllp")
        await settle(pilot)
        left, lens = looks(app), app.views.attention.left["cells"]
        await app.action_quit()
    async with explorer(model, start=start) as (app, pilot):
        assert looks(app) == left
        assert app.views.attention.left["cells"] == lens
        assert lens.endswith("part mean")


async def test_keys_that_were_pressed_meanwhile_stay_with_the_tree(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(tiny_model("llama"))
    remember(model_key(model, None), Remembered(model=model, view="ranks", looks={"views": {"keys": "view"}}))
    look = FirstLook._look

    def late(first: FirstLook, model: ShownModel, begin: Head) -> None:
        first._app.keys_pressed += 1
        look(first, model, begin)

    monkeypatch.setattr(FirstLook, "_look", late)
    async with explorer(model, start=Start(model, is_restoring=True)) as (app, _):
        assert app.views.active.view == "ranks"
        assert app.focused is app.tree_widget


async def test_a_sweep_that_was_stopped_is_not_begun_unasked(tiny_model: TinyModel) -> None:
    model = str(tiny_model("gpt2", with_head=True))
    start = Start(model, text=TEXT, is_restoring=True)
    stopped = {"tables": {"stopped": "ablation"}}
    remember(model_key(model, None), Remembered(model=model, view="ablation", looks=stopped))
    async with explorer(model, start=start) as (app, pilot):
        table = app.views.active
        assert isinstance(table, TablePane)
        assert table.grid.message == "stopped, 9 goes on"
        await type_keys(pilot, "w")
        await settle(pilot)
        await app.action_quit()
    async with explorer(model, start=start) as (app, pilot):
        await type_keys(pilot, "9")  # which asks for it
        await settle(pilot)
        table = app.views.active
        assert isinstance(table, TablePane)
        assert table.counts[0] == 8


async def test_of_a_damaged_file_the_rest_is_used(tiny_model: TinyModel) -> None:
    model = str(tiny_model("gpt2", with_head=True))
    key = model_key(model, None)
    place = place_of(key)
    damaged = {
        "heads": {"filter": "no such column >", "order": "sideways layer", "row": "x", "column": "nonsense"},
        "attention": {"scale": "cubic", "cells": "1 2 3 part", "unknown": "1"},
        "compare": {"step": "backwards", "maps": 3},
        "views": {"numbers": "shown", "shared": "heads nonsense"},
        "sentence": {"mean": "median"},
        "tables": ["position"],
        "distance": {"distance": "far"},
        "no such view": {"scale": "log"},
        "ranks": {"filter": "matrix = OV"},
    }
    remember(key, Remembered(model=model, head="decoder.L0H1", view="heads"))
    place.write_text(json.dumps({**json.loads(place.read_text(encoding="utf-8")), "looks": damaged}), encoding="utf-8")
    async with explorer(model, start=Start(model, text=TEXT, is_restoring=True)) as (app, pilot):
        table = app.views.active
        assert isinstance(table, TablePane)
        assert table.view == "heads"
        assert table.narrowing is None
        await type_keys(pilot, "3")
        await settle(pilot)
        assert (app.views.attention.heatmap.scale, app.views.attention.heatmap.is_numbered) == ("linear", True)
        assert app.views.ranks.left["filter"] == "matrix = OV"
        assert not app._notifications
    for nonsense in (3, "words", [1], {"views": 7, "ranks": {"filter": None}}):
        place.write_text(json.dumps({"view": "ranks", "looks": nonsense}), encoding="utf-8")
        assert not any(recall(key).looks.values())
        assert recall(key).view == "ranks"
