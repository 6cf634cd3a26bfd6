"""The help, with the marks of heads that it explains, and the commands of the prompt."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from engine.architectures.rules import NEIGHBOUR_MARKS, SETTING_MARKS, TYPE_MARKS
from engine.values.outline import MARKS
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, foot, press, screen_text, see, type_keys, until, words
from tui.screens.help_screen import HelpScreen, name_of_part


async def test_help_lists_views_then_moving_then_the_keys_of_the_focused_part(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat sat", size=(160, 50)) as (app, pilot):
        for key in ("unbound:app.tree", *"34"):
            await press(pilot, key)
            assert app.focused is not None
            part = name_of_part(app.focused)
            await press(pilot, "question_mark")
            assert isinstance(app.screen, HelpScreen)
            titles = [each.title for each in app.screen._sections if each.lines]
            assert titles[:2] == ["views", "moving"]
            assert f"in the {part}" in titles[2:]
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


async def test_help_is_read_on_the_smallest_screen(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), size=(40, 12)) as (app, pilot):
        await press(pilot, "question_mark")
        assert screen_text(app).splitlines()[0].strip() == "views"
        seen = set()
        for _ in range(20):
            seen |= {line[:38].strip() for line in screen_text(app).splitlines()}  # without the scrollbar
            await type_keys(pilot, "pagedown")
        assert {"moving", "in the tree", "sentence", "heads", "program", "mouse"} <= seen


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_keys_are_found_in_the_help_by_what_they_do_and_by_their_names(ascii_only: bool) -> None:
    async with explorer("demo", ascii_only=ascii_only) as (app, pilot):
        await type_keys(pilot, "unbound:app.tree", "question_mark", "slash")
        for text, wanted, not_wanted in (
            ("zoom", "Zoom the panel", "Quit"),
            ("enter", "go into a head", "Quit"),
            ("ctrl+p", "List all commands", "Ranks"),
            ("H", "Back, forward", "Quit"),
            ("question mark", "Help: the keys", "Quit"),
        ):
            await type_keys(pilot, "ctrl+u", *text)
            await until(pilot, lambda text=text: app.screen.query_one(Input).value == text)  # type: ignore[misc]
            assert wanted in words(app), text
            assert not_wanted not in words(app), text
        await press(pilot, "enter", "escape")
        assert app.screen is app.screen_stack[0]


async def test_in_ascii_keys_are_words_that_no_two_share(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), ascii_only=True, size=(100, 120)) as (app, pilot):
        await press(pilot, "question_mark")
        text = screen_text(app)
        for keys in ("arrows hjkl ", "Enter ", "^p ", "H L "):
            assert keys in text
        assert text.isascii()


async def test_the_prompt_takes_every_command_by_its_name(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        prompt = app.main.prompt
        await see(pilot, *":help", "enter", text="moving")
        await see(pilot, "q", *":export", "enter", text="matrices of L0H0")
        await press(pilot, "q", *":theme lig", "tab", "enter")
        assert app.theme == "textual-light"
        for typed, selected in (("next-la", "L1H0"), ("h2", "L1H2")):
            await see(pilot, ":", *typed, "enter", selected=selected)
        await see(pilot, *":pin", "enter", pinned="L1H2")
        for text, said in (("set number", "no such head, view or command"), ("theme none", "no such theme")):
            await see(pilot, ":", *text, "enter", focus="prompt", text=said)
            assert "…" not in foot(app)
            await type_keys(pilot, "escape")
        await see(pilot, *":set number", "enter", *":theme none", "enter", text="no such theme")  # a colon begins anew
        await see(pilot, "backspace", *":x", focus="prompt")
        assert prompt.input.value == "theme non:x", "what is mended is no new command"
        await press(pilot, "enter", ":", "escape")
        assert not prompt.display
        await see(pilot, *"/nowhere", "enter", *":h1", "enter", selected="L1H1")
        await press(pilot, *":set number", "enter", *":zoom", "enter")  # which is of the keys that had the focus
        assert app.screen.has_class("-zoomed")
        assert not prompt.display
        await press(pilot, *":q", "enter")
        assert not app.is_running


def test_every_mark_of_the_rules_is_explained() -> None:
    used = {*NEIGHBOUR_MARKS.values(), *TYPE_MARKS.values(), *SETTING_MARKS.values()}
    assert used <= MARKS.keys()
    assert all(explanation and not explanation.endswith(".") for explanation in MARKS.values())


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
