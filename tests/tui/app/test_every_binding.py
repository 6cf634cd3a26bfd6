"""Every key of widgets and screens has an id and does what the key table says."""

from __future__ import annotations

from textual.app import App
from textual.screen import Screen
from textual.widgets import Input

from tests.tui.explorer import explorer, foot, press, type_keys
from tui.app.keymap import classes_with_keys
from tui.screens.palette import Palette
from tui.screens.sentences_screen import SentencesScreen
from tui.views.tree import HeadTree
from tui.widgets.heatmap import Heatmap
from tui.widgets.key_line import KeyLine
from tui.widgets.menu import Menu
from tui.widgets.scroll_area import ScrollArea
from tui.widgets.spectra import SpectraView

LETTERS = {"j", "k", "gg", "G"}
MOVING = {
    "up", "down", "pageup", "pagedown", "home", "end", "ctrl+home", "ctrl+end", "ctrl+f", "ctrl+b", "ctrl+d", "ctrl+u",
}  # fmt: skip
"""What README's table says of every list, table and map; in menus letters are of the screen around them."""

FOCUSABLE = [
    each for each in classes_with_keys() if issubclass(each, Screen | App) or getattr(each, "can_focus", False)
]


def test_every_key_that_does_something_has_an_id() -> None:
    whole = [each for each in FOCUSABLE if "BINDINGS" in vars(each) or not each.__subclasses__()]
    assert [key for kind in whole for key in kind._merge_bindings() if key[1].id is None] == []


def test_moving_is_alike_in_all_that_can_be_moved_in() -> None:
    movable = [each for each in FOCUSABLE if issubclass(each, HeadTree | ScrollArea) and "BINDINGS" in vars(each)]
    assert len(movable) > 4
    for kind in (*movable, Heatmap, SpectraView):
        assert kind._merge_bindings().key_to_bindings.keys() >= MOVING | LETTERS, kind
    assert Menu._merge_bindings().key_to_bindings.keys() >= MOVING


async def test_enter_opens_and_closes_a_layer() -> None:
    async with explorer("demo", head="L0H1") as (app, pilot):
        tree = app.main.tree_widget
        await press(pilot, "unbound:app.tree", "h")
        lines = tree.last_line
        await press(pilot, "enter")
        assert tree.last_line < lines
        await press(pilot, "enter")
        assert tree.last_line == lines
        idle = ("shift+down", "shift+up", "ctrl+pagedown", "ctrl+pageup")
        for keys, line in ((idle, tree.cursor_line), (("ctrl+end",), lines), (("ctrl+home",), 0)):
            await press(pilot, *keys)
            assert tree.cursor_line == line, keys


EDITS = (
    (("o", "n", "e", " ", "t", "w", "o"), "one two"), (("ctrl+left", "backspace", " "), "one two"),
    (("home", "delete"), "ne two"), (("ctrl+right", "ctrl+w"), "two"), (("end", "x", "alt+backspace"), ""),
    (("a", " ", "b", "ctrl+backspace"), "a "), (("left", "left", "alt+d"), ""),
    (("a", "b", "right", "left", "ctrl+k"), "a"), (("ctrl+u",), ""), (("a", "b", "ctrl+a", "ctrl+d"), "b"),
    (("ctrl+e", "shift+left", "ctrl+x"), ""), (("ctrl+v", "ctrl+v"), "bb"),
    (("ctrl+left", "shift+right", "ctrl+x"), "b"), (("c", " ", "d", "ctrl+shift+left", "ctrl+x"), "c b"),
    (("home", "ctrl+shift+right", "ctrl+x"), "b"), (("a", "b", "shift+home", "ctrl+x"), "b"),
    (("a", "b", "home", "shift+end", "ctrl+x"), ""), (("a", "b", "ctrl+shift+a", "ctrl+x", "c"), "c"),
)  # fmt: skip
"""Keys in a line that is typed into, and its text after them."""


async def test_a_line_is_edited_alike_wherever_one_is_typed_into() -> None:
    async with explorer("demo", head="L0H1") as (app, pilot):
        for begin in ("i", "slash", "colon", "4 slash", "ctrl+p"):
            await type_keys(pilot, "unbound:app.tree", *begin.split())
            field = app.focused
            assert isinstance(field, Input)
            for keys, wanted in EDITS:
                await type_keys(pilot, *keys)
                assert field.value == wanted, (begin, keys)
            await type_keys(pilot, "escape")


async def test_boxes_have_their_keys_too() -> None:
    async with explorer("demo", head="L0H1", text="the cat") as (app, pilot):
        await press(pilot, "S")
        assert isinstance(app.screen, SentencesScreen)
        await type_keys(pilot, "tab")
        assert isinstance(app.focused, Menu)
        await press(pilot, "shift+tab", "super+c", "escape")
        await press(pilot, "ctrl+p", "L", "0", "H")
        on_top: object = app.screen
        assert isinstance(on_top, Palette)
        await type_keys(pilot, "down", "up", "pagedown", "pageup", "ctrl+end", "ctrl+home")
        assert "Back" in foot(app)
        assert app.screen_stack[0].query_one(KeyLine).display
        await press(pilot, "escape")
        assert len(app.screen_stack) == 1
