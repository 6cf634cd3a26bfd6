"""What is typed into a table while its rows are worked out is done once they are there."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.analysis import heads
from engine.analysis.heads import Part
from engine.values.heads import Head
from engine.values.progress import Work
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, hold, screen_text, settle, type_keys, until
from tui.app.explorer import Explorer
from tui.views.table_view import TablePane

TEXT = "the cat sat on the mat"


async def typed_while_waiting(
    app: Explorer, pilot: Pilot[None], first: Sequence[str], then: Sequence[str], *, is_blank: bool
) -> TablePane:
    """Press keys of which the first ask for a table, and let the engine answer after all of them."""
    free = hold(app)
    await pilot.press(*first)
    if is_blank:
        await until(pilot, lambda: "computing …" in screen_text(app))
    await pilot.press(*then)
    await pilot.pause()
    free.set()
    await settle(pilot)
    pane = app.views.active
    assert isinstance(pane, TablePane)
    return pane


def heads_held_back(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Have no row of the table of all heads come before an event is set."""
    free, make = threading.Event(), heads._part

    def late(*asked: Any) -> Work[Part]:
        while not free.wait(0.01):
            yield None
        return (yield from make(*asked))

    monkeypatch.setattr(heads, "_part", late)
    return free


@pytest.mark.parametrize(
    ("view", "keys", "row", "column"),
    [
        ("4", ["j"], "2", "qk_symmetry"),  # from the row of the selected head
        ("4", ["G"], "3", "qk_symmetry"),
        ("4", ["l", "l", "k"], "0", "ov_copying"),
        ("4", ["slash", *"ov_copying", "enter"], "1", "ov_copying"),
        ("4", ["slash", *"head = 3", "enter"], "3", "qk_symmetry"),
        ("7", ["pagedown"], "3", "label"),
    ],
)
async def test_keys_move_the_cursor_in_the_rows_that_come(
    tiny_model: TinyModel, view: str, keys: list[str], row: str, column: str
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L1H1") as (app, pilot):
        grid = (await typed_while_waiting(app, pilot, [view], keys, is_blank=True)).grid
        assert grid.whole_row is not None
        assert (str(grid.whole_row[2]), grid.column) == (row, column)


async def test_moves_in_the_rows_of_the_layer_before_are_made_once_in_those_of_the_next(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        pane = app.views.active
        assert isinstance(pane, TablePane)
        await typed_while_waiting(app, pilot, ["}"], ["j", "l"], is_blank=False)
        assert pane.grid.whole_row is not None
        assert pane.grid.whole_row[1:3] == (1, "1")
        assert pane.grid.column == "qk_symmetry_chance"
        await pilot.press("j")
        await settle(pilot)
        assert pane.grid.whole_row[1:3] == (1, "2"), "and what is moved later moves no further"


async def test_a_sort_is_kept_and_moves_are_forgotten_where_another_view_is_looked_at(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L1H1") as (app, pilot):
        pane = await typed_while_waiting(app, pilot, ["4"], ["l", "o", "t", "4"], is_blank=True)
        assert pane.grid.whole_row is not None
        assert pane.grid.whole_row[1:3] == (1, "1")
        assert pane.grid._shown.wanted.sort is None
        await pilot.press("5")
        await settle(pilot)
        other = await typed_while_waiting(app, pilot, ["6"], ["j", "end", "o"], is_blank=True)
        assert other.grid._shown.wanted.sort == (other.grid.columns[-1], True)
        assert other.grid.cursor[0] == 0, "a sort goes to the first row"


async def test_a_table_that_grows_keeps_the_cursor_where_it_has_been_moved(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", with_head=True), text=TEXT, head="L1H1") as (app, pilot):
        pane = await typed_while_waiting(app, pilot, ["9"], ["j", "j", "l"], is_blank=True)
        assert pane.grid.cursor[0] == 2
        assert pane.grid.column == pane.grid.columns[pane.grid.frozen + 1]


async def test_enter_in_a_table_that_has_no_rows_in_the_end_does_nothing(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H1") as (app, pilot):
        await typed_while_waiting(app, pilot, ["7"], ["enter"], is_blank=False)
        assert str(app.session.shown.selected) == "L0H1"


@pytest.mark.parametrize(
    ("words", "sort", "cursor"),
    [("ov_stable_rank > 0", ("qk_stable_rank", True), 2), ("ov_stable_rank > 1e9", None, 0)],
)
async def test_keys_wait_for_the_first_row_that_a_filter_leaves(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch, words: str, sort: tuple[str, bool] | None, cursor: int
) -> None:
    free = heads_held_back(monkeypatch)
    async with explorer(tiny_model("llama"), text=TEXT) as (app, pilot):
        await type_keys(pilot, *"ww")
        await until(pilot, lambda: "L0" in screen_text(app) and "computing …" in screen_text(app))
        await type_keys(pilot, "slash", *words, "enter")
        await until(pilot, lambda: "0 of 8 so far" in screen_text(app))
        await type_keys(pilot, *"llojj")
        assert "there are no rows" not in screen_text(app)
        free.set()
        await settle(pilot)
        pane = app.views.active
        assert isinstance(pane, TablePane)
        assert (pane.grid._shown.wanted.sort, pane.grid.cursor[0]) == (sort, cursor)
        await type_keys(pilot, "escape")
        await settle(pilot)
        assert len(pane.grid.order) == 8
        assert pane.grid._shown.wanted.sort == sort, "nothing is done later"


CONDITION = "/layer = 1 and head > 1 and ov_stable_rank > 0"
"""A filter that leaves no row of the head that is selected."""


@pytest.mark.parametrize("has_sentence", [True, False])
@pytest.mark.parametrize(
    ("keys", "row", "pinned", "selected", "view"),
    [
        (["j", "j"], "L0H2", "", "L0H0", "heads"),
        (["G"], "L1H3", "", "L0H0", "heads"),
    ],
)
async def test_what_is_typed_before_the_first_rows_holds_though_they_grow_and_the_sentence_comes_between(
    tiny_model: TinyModel, keys: Sequence[str], row: str, pinned: str, selected: str, view: str, has_sentence: bool
) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        free = hold(app)
        await pilot.press("w", "w")
        await until(pilot, lambda: "reading …" in screen_text(app))
        await pilot.press(*keys)
        if has_sentence:
            app.conductor.read(TEXT)
            await pilot.pause()
        free.set()
        await settle(pilot)
        assert app.conductor.comparing is not None
        pins = " ".join(map(str, app.session.shown.pins))
        assert (pins, str(app.session.shown.selected), app.views.active.view) == (pinned, selected, view), screen_text(
            app
        )
        assert str(app.views.row_head) == row


async def test_what_is_about_a_row_that_has_not_come_says_that_there_is_none(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = heads_held_back(monkeypatch)
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, *"ww", *CONDITION, "enter")
        await until(pilot, lambda: "0 of 8 so far" in screen_text(app))
        for key, said in (("P", "no rows yet"), ("space", "no row"), ("enter", "no row")):
            await type_keys(pilot, key)
            assert said in screen_text(app).splitlines()[-1]
        free.set()
        await settle(pilot)
        assert not app.session.shown.pins
        assert not app.session.shown.off.heads
        assert app.session.shown.selected == Head("decoder", 0, 0)


@pytest.mark.parametrize("keys", ["jjll", ["G", "k"], ["down", "end", "left"], ["ctrl+right", "pagedown", "G", "gg"]])
@pytest.mark.parametrize("text", [TEXT, f"{TEXT} and " * 100], ids=["short", "long"])
async def test_keys_move_the_cursor_on_the_map_that_comes(
    tiny_model: TinyModel, keys: Sequence[str], text: str
) -> None:
    pressed = [each for key in keys for each in (["g", "g"] if key == "gg" else [key])]
    async with explorer(tiny_model("llama"), text=text) as (app, pilot):
        await pilot.press("3", *pressed)
        await settle(pilot)
        wanted = app.views.attention.heatmap.cursor
        assert wanted != (0, 0)
    async with explorer(tiny_model("llama")) as (app, pilot):
        await pilot.press("3", "j", "l")  # there is no sentence: nothing is to come
        app.sentence_input.value = text
        free = hold(app)
        await pilot.press("i", "enter")
        await until(pilot, lambda: app.views.attention.is_waiting)
        heatmap = app.views.attention.heatmap
        heatmap.focus()
        await until(pilot, lambda: app.focused is heatmap)
        await pilot.press(*pressed)
        await pilot.pause()
        assert (heatmap.pooled, heatmap.cursor) == (None, (0, 0))
        free.set()
        await settle(pilot)
        assert heatmap.cursor == wanted
