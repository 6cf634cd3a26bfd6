"""The help, with the marks of heads that it explains, and the commands of the prompt."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

from engine.architectures.rules import NEIGHBOUR_MARKS, SETTING_MARKS, TYPE_MARKS
from engine.values.heads import Head
from engine.values.outline import MARKS
from tests.conftest import TinyModel
from tests.opening import open_folder
from tests.tui.explorer import explorer, foot, press, screen_text, type_keys, until, words
from tui.screens.export_screen import ExportScreen
from tui.screens.help_screen import HelpScreen, describe_keys, name_of_part
from tui.toolkit.keys import MOVING_KEYS, is_bound


async def test_help_lists_views_then_moving_then_the_keys_of_the_focused_part(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat sat", size=(160, 50)) as (app, pilot):
        for key in ("unbound:app.tree", *"12348"):
            await press(pilot, key)
            assert app.focused is not None
            title = name_of_part(app.focused)  # which a view may share with what has the focus in it
            alike = [each for each in app.focused.ancestors_with_self if isinstance(each, Widget)]
            active = [each for key, each in app.screen.active_bindings.items() if key not in MOVING_KEYS]
            own = [each.binding for each in active if each.node in alike and name_of_part(each.node) == title]
            wanted = {each.description for each in own if each.group is None and is_bound(each)}
            await press(pilot, "question_mark")
            assert isinstance(app.screen, HelpScreen)
            assert app.screen.query_one("#list").max_scroll_y == 0, "all at once"
            sections = {each.title: each.lines for each in app.screen._sections if each.lines}
            assert list(sections)[:2] == ["views", "moving"]
            listed = " ".join(line.description for line in sections.get(f"in the {title}", ())).lower()
            assert all(said.split()[0].lower() in listed for said in wanted), (wanted, listed)
            assert bool(wanted) == bool(listed)
            await press(pilot, "escape")


@pytest.mark.parametrize(("size", "pages"), [((160, 50), 1), ((120, 40), 1), ((100, 50), 1), ((80, 24), 2)])
async def test_help_fits_a_large_screen_and_two_pages_of_a_small_one(size: tuple[int, int], pages: int) -> None:
    async with explorer("demo", head="L1H0", text="the cat", size=size) as (app, pilot):
        for view in ("3", "4", "w", "w"):
            await press(pilot, view, "question_mark")
            lines = app.screen.query_one("#list")
            assert lines.virtual_size.height <= pages * lines.scrollable_content_region.height
            first = next(line for line in screen_text(app).splitlines() if "views" in line)
            assert any(title in first for title in ("in the", "heads", "sentence")), "columns"
            await type_keys(pilot, "escape")


async def test_help_is_read_and_searched_on_the_smallest_screen(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), size=(40, 12)) as (app, pilot):
        await press(pilot, "question_mark")
        assert screen_text(app).splitlines()[0].strip() == "views"
        seen = set()
        for _ in range(20):
            seen |= {line[:38].strip() for line in screen_text(app).splitlines()}  # without the scrollbar
            await type_keys(pilot, "pagedown")
        assert {"moving", "in the tree", "sentence", "heads", "program", "mouse"} <= seen
        assert "more" not in seen
        assert isinstance(app.screen, HelpScreen)
        await press(pilot, "g", "g", "slash", *"zoom")
        assert "Zoom the panel" in words(app)
        await press(pilot, "ctrl+u", *"export")
        assert "Export" in screen_text(app)
        assert "Sentence" not in screen_text(app)
        await press(pilot, "enter", "escape")
        assert app.screen is app.screen_stack[0]


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_keys_shown_as_signs_are_found_in_the_help_by_their_names(ascii_only: bool) -> None:
    async with explorer("demo", ascii_only=ascii_only) as (app, pilot):
        await type_keys(pilot, "unbound:app.tree", "question_mark", "slash")
        for text, wanted, not_wanted in (
            ("enter", "go into a head", "Quit"),
            ("ctrl+p", "List all commands", "Ranks"),
            ("ctrl", "List all commands", "Layer maps"),
            ("H", "Back, forward", "Quit"),
            ("question mark", "Help: the keys", "Quit"),
            ("escape", "Back, stop, or close", "Quit"),
        ):
            await type_keys(pilot, "ctrl+u", *text)
            await until(pilot, lambda text=text: app.screen.query_one(Input).value == text)  # type: ignore[misc]
            assert wanted in words(app), text
            assert not_wanted not in words(app), text


async def test_in_ascii_keys_are_words_that_no_two_share(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), ascii_only=True, size=(100, 120)) as (app, pilot):
        await press(pilot, "question_mark")
        text = screen_text(app)
        for keys in ("arrows hjkl ", "Enter ", "^p ", "H L "):
            assert keys in text
        assert text.isascii()


async def test_the_prompt_takes_every_command_by_its_name(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):

        async def ask(text: str, *more: str) -> None:
            await press(pilot, "colon", *text, *more)

        await ask("help", "enter")
        assert isinstance(app.screen, HelpScreen)
        await type_keys(pilot, "q")
        await ask("export", "enter")
        assert "matrices of L0H0" in screen_text(app)
        await type_keys(pilot, "q")
        await ask("theme lig", "tab", "enter")
        assert app.theme == "textual-light"
        await ask("next-la", "enter")
        assert app.session.shown.selected == Head("decoder", 1, 0)
        await ask("h2", "enter")
        assert app.session.shown.selected == Head("decoder", 1, 2)
        await ask("pin", "enter")
        assert set(app.session.shown.pins) == {Head("decoder", 1, 2)}
        for text, said in (("set number", "no such head, view or command"), ("theme none", "no such theme")):
            await ask(text, "enter")
            assert app.main.prompt.display
            assert said in foot(app)
            assert "…" not in foot(app)
            await type_keys(pilot, "escape")
        await ask("set number", "enter")
        await ask("theme none", "enter")  # at once
        assert "no such theme" in foot(app)
        await type_keys(pilot, "backspace")
        await ask("x")
        assert app.main.prompt.input.value == "theme non:x", "what is mended is no new command"
        await type_keys(pilot, "enter")
        await ask("", "escape")
        assert not app.main.prompt.display
        await type_keys(pilot, "slash", *"nowhere", "enter")
        await ask("h1", "enter")
        assert app.session.shown.selected == Head("decoder", 1, 1)
        assert not app.main.prompt.display
        await ask("set number", "enter")
        await ask("zoom", "enter")  # which is of the keys that had the focus
        assert app.screen.has_class("-zoomed")
        assert not app.main.prompt.display
        await ask("q", "enter")
        assert not app.is_running


async def test_in_the_export_menu_each_key_has_one_name_and_works() -> None:
    async with explorer("demo", text="the cat") as (app, pilot):
        await type_keys(pilot, "e")
        screen = app.screen
        assert isinstance(screen, ExportScreen)
        sections = describe_keys(app)
        told = [line.description for section in sections for line in section.lines]
        assert len(set(told)) == len(told), "no key stands in two parts"
        assert {"Write it", "Down", "Up"} <= set(told)
        begun = screen._list.highlighted
        assert begun is not None
        await type_keys(pilot, "down", "j", "up")
        assert screen._list.highlighted == begun + 1


def test_every_mark_of_the_rules_is_explained() -> None:
    used = {*NEIGHBOUR_MARKS.values(), *TYPE_MARKS.values(), *SETTING_MARKS.values()}
    assert used <= MARKS.keys()
    assert all(explanation and not explanation.endswith(".") for explanation in MARKS.values())


def test_heads_with_biases_carry_a_mark_and_heads_without_none(tiny_model: TinyModel) -> None:
    assert all(layer.marks == ("query/key bias",) for layer in open_folder(tiny_model("gpt2"))[2].outline.layers)
    assert all(layer.marks == () for layer in open_folder(tiny_model("llama"))[2].outline.layers)


async def scroll_to_end(pilot: Pilot[None]) -> None:
    await press(pilot, "G")
    lines = pilot.app.screen.query_one("#list")
    await until(pilot, lambda: lines.scroll_y == lines.max_scroll_y)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_marks_are_explained_on_screen(size: tuple[int, int], tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L0H0", size=size) as (app, pilot):
        assert "query/key bias" in screen_text(app)
        await press(pilot, "question_mark")
        await scroll_to_end(pilot)
        marks = screen_text(app).partition("marks of this head")[2]
        assert all(part in marks for part in ("b_Q and b_K add terms to", "scores that QK", "leaves out"))
        await press(pilot, "escape", "unbound:app.tree", "g", "g")
        assert app.session.shown.selected is None
        assert "b_Q and b_K add terms" in screen_text(app)
        await press(pilot, "question_mark")
        await scroll_to_end(pilot)
        assert "beyond its matrices" not in screen_text(app)
