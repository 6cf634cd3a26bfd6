"""The help of every widget, and the commands that are typed after a colon."""

from __future__ import annotations

import pytest
from textual.widget import Widget
from textual.widgets import Input

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, screen_text, settle, type_keys, until
from tui.screens.export_screen import ExportScreen
from tui.screens.help_screen import HelpScreen, describe_keys


def own_keys(widget: Widget) -> list[tuple[str, str]]:
    """Give id and description of the bindings of a widget for where it has the focus, as they are written there."""
    own = (binding for _, binding in widget._bindings if binding.group is None)
    return [(binding.id, binding.description) for binding in own if binding.id is not None]


async def test_help_of_every_widget_lists_exactly_its_keys(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat sat", size=(100, 150)) as (app, pilot):
        for way in (["t"], ["1"], ["2"], ["3"], ["4"], ["8"]):
            await pilot.press(*way)
            await settle(pilot)
            focused = app.focused
            assert focused is not None
            title = focused.name or focused.id  # which a view may share with what has the focus in it
            alike = [each for each in focused.ancestors_with_self if isinstance(each, Widget)]
            alike = [each for each in alike if (each.name or each.id) == title]
            active = {each.binding.id for each in app.screen.active_bindings.values() if each.node in alike}
            await pilot.press("question_mark")
            await settle(pilot)
            lines = screen_text(app).splitlines()
            first = next(number for number, line in enumerate(lines) if " in the " in line)
            listed = [line.strip(" │") for line in lines[first + 1 : lines.index(lines[first], first) + 40]]
            listed = listed[: listed.index("")]
            wanted = {said for each in alike for name, said in own_keys(each) if name in active}
            assert wanted
            assert {said for said in wanted if any(line.endswith(said) for line in listed)} == wanted
            assert len(listed) == len(wanted), listed
            await pilot.press("escape")
            await settle(pilot)


async def test_help_is_read_and_searched_on_the_smallest_screen(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), size=(40, 12)) as (app, pilot):
        await pilot.press("question_mark")
        await settle(pilot)
        assert screen_text(app).splitlines()[0].strip() == "in the tree"
        seen = set()
        for key in ("pagedown",) * 20:
            seen |= {line[:38].strip() for line in screen_text(app).splitlines()}  # without the scrollbar
            await pilot.press(key)
        assert {"finding one's way", "views", "sentence", "heads beside each other", "program", "mouse"} <= seen
        assert "more" not in seen
        assert isinstance(app.screen, HelpScreen)
        assert app.screen._sections[-2].title == "in this list"
        of_list = {key for line in app.screen._sections[-2].lines for key in line.keys.split()}
        assert {"j", "↓", "k", "↑", "g", "home", "G", "end", "pgdn", "pgup"} <= of_list
        assert "Next view" not in {line.said for line in app.screen._sections[-2].lines}, (
            "which goes nowhere from the list"
        )
        await pilot.press("g", "g", "slash", *"zoom")
        await settle(pilot)
        assert "one view, or all" in " ".join(screen_text(app).split())
        await pilot.press("ctrl+u", *"export")
        await settle(pilot)
        text = screen_text(app)
        assert "Export" in text
        assert "Sentence" not in text
        await pilot.press("enter", "escape")
        await settle(pilot)
        assert app.screen is app.screen_stack[0]


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_keys_are_found_in_the_help_by_their_names_though_a_sign_stands_for_them(ascii_only: bool) -> None:
    async with explorer("demo", ascii_only=ascii_only) as (app, pilot):
        await type_keys(pilot, "t", "question_mark", "slash")
        for text, wanted, not_wanted in (
            ("enter", "go to a head's view", "Quit"),
            ("ctrl+p", "Every command, by name", "Quit"),
            ("ctrl", "Every command, by name", "Layer maps: all heads"),
            ("alt+left", "Back to where you were", "Quit"),
            ("question mark", "Keys that work here", "Quit"),
            ("escape", "back to the tree", "Quit"),
        ):
            await type_keys(pilot, "ctrl+u", *text)
            await until(pilot, lambda text=text: app.screen.query_one(Input).value == text)  # type: ignore[misc]
            found = " ".join(str(screen_text(app)).split())
            assert wanted in found, text
            assert not not_wanted or not_wanted not in found, text


async def test_in_ascii_keys_are_words_that_no_two_share(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), ascii_only=True, size=(100, 120)) as (app, pilot):
        await pilot.press("question_mark")
        await settle(pilot)
        text = screen_text(app)
        for keys in ("j Down ", "k Up ", "l Right ", "Enter ", "H Backspace ^o alt+Left"):
            assert keys in text
        assert text.isascii()


async def test_a_colon_takes_every_command_by_its_name(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):

        async def ask(text: str, *more: str) -> None:
            await pilot.press("colon", *text, *more)
            await settle(pilot)

        await ask("help", "enter")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("q")
        await ask("export", "enter")
        assert "matrices of L0H0" in screen_text(app)
        await pilot.press("q")
        await ask("theme lig", "tab", "enter")
        assert app.theme == "textual-light"
        await ask("next-la", "enter")
        assert app.session.shown.selected == Head("decoder", 1, 0)
        await ask("h2", "enter")
        assert app.session.shown.selected == Head("decoder", 1, 2)
        await ask("pin", "enter")
        assert set(app.session.shown.pins) == {Head("decoder", 1, 2)}
        for text, said in (("set number", "no head, view or command"), ("theme none", "no such theme")):
            await ask(text, "enter")
            assert app.main.prompt.display
            assert said in screen_text(app).splitlines()[-1]
            assert "…" not in screen_text(app).splitlines()[-1]
            await pilot.press("escape")
        await ask("set number", "enter")
        await ask("theme none", "enter")  # at once
        assert "no such theme" in screen_text(app).splitlines()[-1]
        await pilot.press("backspace")
        await ask("x")
        assert app.main.prompt.input.value == "theme non:x", "what is mended is no new command"
        await pilot.press("enter")
        await ask("", "escape")
        assert not app.main.prompt.display
        await pilot.press("slash", *"nowhere", "enter")
        await ask("h1", "enter")
        assert app.session.shown.selected == Head("decoder", 1, 1)
        assert not app.main.prompt.display
        await ask("set number", "enter")
        await ask("zoom", "enter")  # which is of the keys that had the focus
        assert app.screen.has_class("-zoomed")
        assert not app.main.prompt.display
        await ask("q", "enter")
        assert not app.is_running


async def test_in_the_menu_of_what_to_write_each_key_is_called_one_thing_and_does_it() -> None:
    async with explorer("demo", text="the cat") as (app, pilot):
        await pilot.press("e")
        screen = app.screen
        assert isinstance(screen, ExportScreen)
        told = [line.said for section in describe_keys(app, screen.active_bindings.values()) for line in section.lines]
        assert len(set(told)) == len(told), "no key stands in two parts"
        assert {"Write it", "Down", "Up"} <= set(told)
        begun = screen._list.highlighted
        assert begun is not None
        await pilot.press("down", "j", "up")
        assert screen._list.highlighted == begun + 1
        await pilot.press("escape")
