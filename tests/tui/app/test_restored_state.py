"""What comes back at the next start, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tui.explorer import explorer, screen_text, settle, shown, type_keys, until
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.state.saved_state import model_key, place_of, remember
from tui.views.table_view import TablePane

TinyModel = Callable[..., Path]


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
        assert app.session.shown.sentence == "a cat sat"
        await type_keys(pilot, "i", "up")
        assert app.main.sentence_input.value == ("a dog" if keeps else "a cat sat")


@pytest.mark.parametrize("kind", ["t5", "llama"])
async def test_a_table_comes_back_even_where_the_tree_is_quicker_than_the_view(
    kind: str, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Explorer._drawn

    async def late(app: Explorer) -> None:
        await asyncio.sleep(0.3)
        await drawn(app)

    monkeypatch.setattr(Explorer, "_drawn", late)
    model = str(tiny_model(kind))
    key = model_key(model, None)
    remember(key, {"model": key, "view": "circuits", "head": "decoder.L0H2"})
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
        assert [str(head) for head in app.session.shown.pins] == ["L0H1"]
        assert "H1*" in screen_text(app)
        await app.action_quit()
    place.write_text(said.replace("decoder.L0H0,decoder.L0H1", "").replace("spectra", "compare"), encoding="utf-8")
    async with explorer(model, start=start) as (app, pilot):
        assert app.views.active is app.views.overview
        assert not app._notifications


async def test_heads_off_filters_and_sort_orders_do_not_come_back(tiny_model: TinyModel) -> None:
    model = str(tiny_model("gpt2", with_head=True))
    start = Start(model, is_restoring=True)
    async with explorer(model, start=start) as (app, pilot):
        await type_keys(pilot, "space", "w", "w", *"/ov_stable_rank > 1", "enter", *"jll", "o")
        await settle(pilot)
        assert app.session.shown.off.heads
        await app.action_quit()
    async with explorer(model, start=start) as (app, pilot):
        table = app.views.active
        assert isinstance(table, TablePane)
        assert table.view == "heads"
        assert table.narrowing is None
        assert list(table.grid.order) == list(range(8))
        assert not app.session.shown.off.heads
