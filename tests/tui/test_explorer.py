"""What the explorer shows and does, key by key."""

from __future__ import annotations

import math

import pytest

from engine.analysis.open_model import OpenModel
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.opening import edited_weights
from tests.tui.explorer import explorer, press, resize, screen_text, see, settle, shown, type_keys, until, words
from tui.toolkit.keys import MOVES, MOVING_KEYS, PAIRS, is_bound

WALKS = (
    ("down", "L0H1"), ("j j k", "L0H1"), ("h", "L0"), ("left left left", "None"), ("h h l l j", "L0H1"),
    ("G l l l", "L1H0"), ("g g", "None"), ("] ] ] ] ] ]", "L1H2"), ("] [", "L0H0"), ("j }", "L1H1"), ("j } {", "L0H1"),
)  # fmt: skip
"""Keys, and where they lead from the first head."""


async def test_keys_walk_the_tree_and_none_is_lost_when_they_come_fast(tiny_model: TinyModel) -> None:
    first, second_layer = Head("decoder", 0, 0), Head("decoder", 1)
    async with explorer(tiny_model("llama")) as (app, pilot):
        tree = app.main.tree_widget
        for keys, selected in WALKS:
            tree.focus()
            tree.go_to(first)
            tree.close_layer(second_layer)  # as it is at the beginning
            await until(pilot, lambda: app.session.shown.selected == first)
            await settle(pilot)
            assert not tree.is_open(Head("decoder", 1, 0))
            await see(pilot, *keys.split(), selected=selected, focus="view" if "l l l" in keys else "tree")
            assert tree.cursor_node is not None
            assert tree.cursor_node.data == app.session.shown.selected


async def test_a_narrow_terminal_shows_one_view_and_a_wide_one_all_until_one_is_zoomed(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        panes = (app.views.spectra, app.views.ranks, app.views.attention)
        for key, pane in zip("123", panes, strict=True):
            await press(pilot, key)
            assert [each.region.width > 0 and each.display for each in panes] == [each is pane for each in panes]
        await resize(pilot, 160, 50)
        assert all(each.region.width > 40 for each in panes)
        lines = [each.region.height for each in panes]
        assert lines[1] == 4 + 1 + 5, "the ranks have their rows, their names, two lines and a frame"
        assert lines[0] == lines[2] - lines[1], "the spectra have the rest"
        await press(pilot, "2", "z")
        assert [each.region.width > 0 for each in panes] == [False, True, False]
        await press(pilot, "z")
        assert all(each.region.width > 40 for each in panes)


async def test_on_a_terminal_that_is_too_small_only_the_message_is_drawn_and_no_key_is_lost(
    tiny_model: TinyModel,
) -> None:
    async with explorer(tiny_model("llama"), size=(40, 12)) as (app, pilot):
        await press(pilot, "i", "a")
        alone = ["attn-tui", "needs", "a", "terminal", "of", "40", "×", "12"]
        for size in ((39, 12), (80, 5)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: screen_text(app).split() == alone)
            await type_keys(pilot, "q")
        await resize(pilot, 80, 24)
        assert app.main.sentence_input.value == "aqq"
        await see(pilot, "escape", "j", selected="L0H1", no_text="needs a terminal")


async def test_over_the_views_question_mark_lists_a_menus_keys_q_closes_it_and_ctrl_q_leaves(
    tiny_model: TinyModel,
) -> None:
    async with explorer(tiny_model("llama"), size=(80, 60)) as (app, pilot):
        for keys, said in (("e", "Previous, next format"), ("S", "Forget it"), ("B tab", "To the field")):
            await press(pilot, *keys.split())
            menu = app.screen
            await see(pilot, "?", text=said)
            await see(pilot, text="in this menu")
            await press(pilot, "q")
            assert app.screen is menu, keys
            await press(pilot, "q")
            assert len(app.screen_stack) == 1, keys
        await press(pilot, "question_mark", "ctrl+q")
        assert not app.is_running


async def test_help_lists_every_key_that_works_and_explains_the_marks_of_a_head(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L0H0", size=(100, 120)) as (app, pilot):
        active = [each.binding for each in app.screen.active_bindings.values() if each.binding.id is not None]
        bound = {each.id: each.description for each in active if is_bound(each)}
        pairs = [pair for pair in PAIRS if bound.keys() >= {*pair}]
        paired = {name for pair in pairs for name in pair}
        moving = {each.id for each in active if each.key in MOVING_KEYS} - paired
        await press(pilot, "question_mark")
        text = screen_text(app)
        assert len(bound) > 30
        assert moving <= bound.keys()
        assert [said for _, said in MOVES if said not in text] == []
        assert [pair for pair in pairs if PAIRS[pair] not in text] == []
        assert {said for name, said in bound.items() if name not in paired | moving and said not in text} == set()
        by_name = {each.description for each in active} - {*bound.values()}
        assert {said for said in by_name if said in text} == set(), "what has no key is in the list of commands"
        marks = text.partition("marks of this head")[2]
        assert all(part in marks for part in ("b_Q and b_K add terms to", "scores that QK", "leaves out"))
        await press(pilot, "escape")
        await resize(pilot, 160, 50)
        await see(pilot, text="query/key bias")
        await see(pilot, "unbound:app.tree", "g", "g", selected="None", text="b_Q and b_K add terms")


async def test_c_proves_the_heads_layer_by_layer(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("qwen3"), size=(120, 30)) as (app, pilot):
        await type_keys(pilot, "unbound:app.check")
        await until(pilot, lambda: "2 layers: 2 verified" in screen_text(app))
        await see(pilot, text="decoder L1")
        await see(pilot, text="verified with query/key norm")
        await press(pilot, "q")
        assert app.screen is app.screen_stack[0]


async def test_a_broken_layer_or_an_error_of_the_engine_is_one_views_answer_and_the_others_work(
    tiny_copy: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **named: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(OpenModel, "read", broken)
    folder = tiny_copy("llama")
    with edited_weights(folder) as tensors:
        tensors["layers.0.self_attn.v_proj.weight"][1, 1] = math.inf
    async with explorer(folder, head="L0H0", text="the cat") as (app, pilot):
        assert "v_proj.weight holds 1 NaN or infinite" in words(app)
        await see(pilot, "3", text="ZeroDivisionError")
        await press(pilot, "1", "right_curly_bracket")
        assert "σ" in shown(app.views.spectra.readout_line)


async def test_a_head_that_is_not_there_ends_with_a_clear_line(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L9H9") as (app, _):
        assert "no attention in layer 9" in app.failure
