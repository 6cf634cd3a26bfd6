"""Keys and commands do what they say or say in one line why not, and common keys do the same everywhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual import events
from textual.widget import Widget
from textual.widgets import Input, OptionList

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from engine.values.outline import HOW_TO_COMPARE
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, notices, press, resize, see, settle, type_keys, until
from tests.tui.monkey_actions import send_key
from tests.tui.painted import good_terminal
from tests.tui.painted_explorer import painted_explorer, stale
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.views.tree import HeadTree
from tui.widgets.spectra import SpectraView

TEXT = "the cat sat on the mat"

LINE = f"{TEXT} and the dog"


async def test_the_foot_shows_the_keys_of_the_view_the_field_or_the_box_that_have_room(tiny_model: TinyModel) -> None:
    in_views = {
        (80, "escape"): "⏎ Open  tab Next panel  [ ] Head  i Sentence  : Go to  space Off  ? Help  q Quit",
        (40, "escape"): "⏎ Open  z All room  ? Help  q Quit",
        (80, "2"): "m Measure  + - ε  o Sort  tab Next panel  [ ] Head  i Sentence  ? Help  q Quit",
    }
    in_boxes = {
        "4 i": "⏎ Read it  esc Back  ↑ Earlier  ^u Clear",
        "escape e": "⏎ Write  → Format  tab Name  esc Back  ? Help",
        "tab": "⏎ Write  tab Name  esc Back",
        "escape escape S": "⏎ Show  d Forget  esc Back  ? Help",
        "escape question_mark": "/ Search  esc Close",
        "/": "⏎ Keep  esc All keys",
        "escape escape B": "⏎ Open  esc Leave  tab List  ↓ Next  ↑ Before  f1 Help",
        "escape ctrl+p": "⏎ Do it  esc Back",
    }
    async with explorer(tiny_model("llama"), text="the cat", head="L0H0") as (_, pilot):
        for (columns, key), wanted in in_views.items():
            await resize(pilot, columns, 24)
            await see(pilot, key, says=wanted)
        await resize(pilot, 80, 24)
        for keys, wanted in in_boxes.items():
            await see(pilot, *keys.split(), says=wanted)


async def test_ctrl_c_leaves_a_field_and_not_the_program_and_copies_a_selection(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        for keys in ("i ctrl+u", "w slash", "w w slash", "slash", "colon", "? slash", "B", "ctrl+p"):
            await type_keys(pilot, *keys.split(), "a")
            field = app.focused
            assert isinstance(field, Input), keys
            if keys != "ctrl+p" and not app.main.prompt.display:
                await type_keys(pilot, "shift+left", "ctrl+c")
                assert (app.clipboard, app.focused) == ("a", field), keys
                app.copy_to_clipboard("")
                await type_keys(pilot, "right")
            await press(pilot, "ctrl+c")
            assert not isinstance(app.focused, Input), keys
            await type_keys(pilot, "escape", "unbound:app.tree")
        assert len(app.screen_stack) == 1


async def test_tab_goes_through_tree_and_views_and_a_hidden_tree_gives_its_focus_away(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat", size=(160, 50)) as (app, pilot):
        views = (app.views.spectra.graph, app.views.ranks.grid, app.views.attention.heatmap)
        await type_keys(pilot, "unbound:app.tree", "3")
        for widget in (app.main.tree_widget, *views) * 2:
            await type_keys(pilot, "tab")
            assert app.focused is widget
        await see(pilot, "i", "ctrl+z", focus="sentence")  # nothing can be suspended here
        await see(pilot, "tab", focus="tree")
        await resize(pilot, 200, 60)
        await see(pilot, "z", "unbound:app.tree", focus="tree")  # there is room for it beside a view that is zoomed
        await resize(pilot, 100, 30)
        assert not app.main.tree_widget.display
        await see(pilot, focus="view")
        await see(pilot, "escape", focus="tree")  # which that shows


async def test_keys_that_do_nothing_say_why_in_a_line() -> None:
    async with explorer("demo", text=LINE, head="L1H0") as (app, pilot):
        await see(pilot, "D", view="spectra")
        assert notices(app)[-1].startswith(HOW_TO_COMPARE)
        for keys, said in (
            ("unbound:app.by_mean", "no head is off; space switches one off, now by its mean"),
            ("O", "all heads are on"),
            ("3 >", "each cell is a single weight"),
            ("<", "the whole map is in view"),
            ("unbound:heatmap.fit", "the whole map is in view; each cell is a single weight"),
            ("T" + " enter" * 8, "this token has the largest weight"),
            ("8 .", "this is the last of "),
            (", " * 16, "this is the first of "),
            ("2" + " +" * 6, "ε 0.5 is the largest that the keys go to"),
            ("- " * 9, "ε 0.001 is the smallest that the keys go to"),
            ("P ] C C unbound:app.distance", "maps have no distance; C shows spectra, which have one"),
            ("C unbound:app.distance", "maps have no distance; C shows spectra, which have one"),
            ("unbound:app.tree gg 1 s", "nothing on screen has a scale; "),
            ("unbound:app.baseline", "only spectra of a head or a layer show chance; choose one"),
            ("unbound:app.distance", "QK at a distance needs "),
            ("unbound:app.tree gg j j C C a", "compare shows single heads"),
        ):
            await see(pilot, *keys.split(), foot=said)
        assert app.session.shown.distance is None
        await see(pilot, *":L1H0", "enter", "3", "i", "ctrl+u", *("a b " * 40), "enter", foot="< Zoom out")
        await see(pilot, "unbound:heatmap.fit", foot="> Zoom  ⏎ Largest")


async def test_the_key_of_several_views_returns_to_the_last_one_and_then_shows_the_next() -> None:
    async with explorer("demo") as (app, pilot):
        for keys, said in (("3 j", "no map yet"), ("T l", "no text yet"), ("A G", "no maps yet")):
            await see(pilot, *keys.split(), foot=said)
        app.main.read(TEXT)
        shown_by = {"8": ("predictions", "lens"), "w": ("overview", "heads"), "T": ("text", "attention")}
        for key, (first, second) in shown_by.items():
            await see(pilot, "1", key, view=first, focus="view")
            await see(pilot, "unbound:app.tree", key, view=first, focus="view")
            await see(pilot, "unbound:app.tree", key, key, view=second)
        await see(pilot, "w", "w", "/", *"head = 3", text="Enter filters the table of all heads by that")
        await press(pilot, "enter")
        pane = active_table(app)
        await until(pilot, lambda: pane.counts == (4, 32))
        await see(pilot, "j", "enter", "3", "1", "w", view="heads", focus="view", text="w Map")
        assert (pane.counts, pane.grid.cursor[0]) == ((4, 32), 1)
        await see(pilot, "w", "1", "w", view="overview", text="w Table")
        await see(pilot, "slash", *"head > ", "enter", focus="prompt", text="it cannot be read: ")  # to be mended


def burst(app: Explorer, *keys: str) -> None:
    for key in keys:
        send_key(app, key)


async def test_letters_and_pasted_text_go_where_the_key_before_them_leads() -> None:
    async with explorer("demo", text="One day", head="L0H0") as (app, pilot):
        for opening, typed, said in (
            ("i home", "it is qB", "it is qBOne day"), ("i", "it is q", "it is q"), ("slash", "/?q", "/?q"),
            ("colon", "L3q", "L3q"), ("colon", ":iq", ":iq"), ("ctrl+p", "qBe", "qBe"), ("w w slash", "qi", "qi"),
            ("question_mark slash", "qz", "qz"), ("B", "qi/B", "qi/B"),
        ):  # fmt: skip
            burst(app, *opening.split(), *typed)
            await settle(pilot)
            assert isinstance(app.focused, Input), opening
            assert app.focused.value == said, opening
            burst(app, *["escape"] * 4)
            await see(pilot, focus="tree")
        assert app._driver is not None
        app._driver.send_message(events.Paste("qBi"))
        burst(app, "i", "ctrl+u")
        app._driver.send_message(events.Paste("one\ntwo"))
        burst(app, "enter", "unbound:app.tree")
        await see(pilot, focus="tree")
        assert app.session.shown.sentence == "one two"


async def test_choices_made_while_the_model_opens_stay(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    first_shown, may_open = Explorer._first_shown, asyncio.Event()

    async def later(app: Explorer, *given: Any) -> tuple[dict[str, Any], bool]:
        await may_open.wait()
        return await first_shown(app, *given)

    monkeypatch.setattr(Explorer, "_first_shown", later)
    monkeypatch.setattr("tui.app.explorer.recall", lambda key, outline: {"view": "ranks", "text": "the one of before"})
    app = Explorer(Engine(EngineOptions()), Start(str(tiny_model("gpt2")), is_restoring=True))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.main.is_ready)
        burst(app, "i", *"the dog", "enter", "1", "i", *"half")
        await until(pilot, lambda: app.main.sentence_input.value.endswith("half"))
        may_open.set()
        await see(pilot, view="spectra")
        assert app.session.shown.sentence == "the dog"
        assert app.main.sentence_input.value.endswith("half"), "what is being typed stays"


PLACES = {
    "spectra": "1", "attention": "3", "coloured text": "3T", "small maps": "A", "table": ("unbound:app.weights",),
    "overview": "w", "tree": ("unbound:app.tree",), "help": "?", "export": "e",
}  # fmt: skip
"""What is gone through, and the keys that lead there."""


def place_of(app: Explorer) -> object:
    """Give where the cursor is of what has the focus, or how far it is scrolled."""
    focused = app.focused
    if isinstance(focused, HeadTree):
        return focused.cursor_line
    if isinstance(focused, SpectraView):
        return focused.index
    if isinstance(focused, OptionList):
        return focused.highlighted
    assert isinstance(focused, Widget)
    return getattr(focused, "cursor", focused.scroll_offset)


async def test_page_keys_work_in_every_view_list_and_menu(tiny_model: TinyModel) -> None:
    model = tiny_model("llama", num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=16, head_dim=16)
    async with explorer(model, size=(60, 14), text=f"{LINE} ran to the cat " * 3, head="L1H3") as (app, pilot):
        for keys in PLACES.values():
            await press(pilot, *keys)
            await press(pilot, "g", "g")
            first = place_of(app)
            for on, back in (("ctrl+d", "ctrl+u"), ("ctrl+f", "ctrl+b")):
                await press(pilot, on)
                assert place_of(app) != first, (keys, on)
                await press(pilot, back)
                assert place_of(app) == first, (keys, back)
            if len(app.screen_stack) > 1:
                await type_keys(pilot, "q")


async def test_ctrl_l_draws_the_screen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    async with painted_explorer() as (app, pilot):
        app.picture.cells[3, 3] = ("#", "")  # as another program writes there
        await press(pilot, "ctrl+l")
        assert list(stale(app)) == []
