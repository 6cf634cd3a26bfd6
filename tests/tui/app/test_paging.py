"""Keys known from other programs work in every view, list and menu."""

from __future__ import annotations

import pytest
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets._toast import Toast

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, foot, press, see, type_keys, until
from tests.tui.painted import good_terminal
from tests.tui.painted_explorer import painted_explorer, stale
from tui.app.explorer import Explorer
from tui.views.tree import HeadTree
from tui.widgets.spectra import SpectraView

TEXT = "the cat sat on the mat and the dog ran to the cat " * 3

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
    async with explorer(model, size=(60, 14), text=TEXT, head="L1H3") as (app, pilot):
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


async def test_question_mark_lists_the_keys_of_a_menu_over_the_views(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), size=(80, 60)) as (app, pilot):
        for keys, said in (("e", "Previous, next format"), ("S", "Forget it"), ("B tab", "To the field")):
            await press(pilot, *keys.split())
            menu, line = app.screen, foot(app)
            await see(pilot, "?", text=said, says="/ Search  esc Close")
            await see(pilot, text="in this menu")
            await see(pilot, "q", says=line)
            assert app.screen is menu
            await press(pilot, "q")
            assert len(app.screen_stack) == 1


async def test_a_message_that_expires_while_it_is_shown_goes_at_once() -> None:
    async with explorer("demo") as (app, pilot):
        app.notify("soon over", timeout=60)
        await until(pilot, lambda: bool(app._notifications))
        (notification,) = app._notifications
        notification.timeout = -1
        assert notification.has_expired
        toast = Toast(notification)
        assert toast._timeout > 0, "the toolkit's timer of a time below zero never lets go of the event loop"
        await app.mount(toast)
        await until(pilot, lambda: not toast.is_attached)


async def test_the_tree_scrolls_to_its_last_line() -> None:
    async with explorer("demo") as (app, pilot):
        tree = app.main.tree_widget
        await press(pilot, "G", "k", "l")
        assert tree.last_line == tree.size.height, "one line more than there are places"
        for key, scrolled in (("G", 1), ("g", 1), ("g", 0), ("end", 1), ("home", 0)):
            await press(pilot, key)
            assert tree.scroll_offset.y == scrolled


async def test_ctrl_l_draws_the_screen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    async with painted_explorer() as (app, pilot):
        app.picture.cells[3, 3] = ("#", "")  # as another program writes there
        await press(pilot, "ctrl+l")
        assert list(stale(app)) == []
