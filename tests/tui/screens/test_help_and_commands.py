"""The help, with the marks of heads that it explains, and the commands of the prompt."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from engine.architectures.rules import NEIGHBOUR_MARKS, SETTING_MARKS, TYPE_MARKS
from engine.values.outline import MARKS
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, foot, press, screen_text, see, type_keys, until, words


@pytest.mark.parametrize(("size", "pages"), [((100, 50), 1), ((80, 24), 2)])
async def test_help_fits_a_large_screen_and_two_pages_of_a_small_one(size: tuple[int, int], pages: int) -> None:
    async with explorer("demo", head="L1H0", text="the cat", size=size) as (app, pilot):
        for view in ("3", "w"):
            await press(pilot, view, "question_mark")
            lines = app.screen.query_one("#list")
            assert lines.virtual_size.height <= pages * lines.scrollable_content_region.height
            first = next(line for line in screen_text(app).splitlines() if "views" in line)
            assert any(title in first for title in ("in the", "heads", "sentence")), "columns"
            await type_keys(pilot, "escape")


async def test_keys_are_found_in_the_help_by_what_they_do_and_by_their_names() -> None:
    async with explorer("demo") as (app, pilot):
        await type_keys(pilot, "unbound:app.tree", "question_mark", "slash")
        for text, wanted, not_wanted in (
            ("zoom", "Zoom the panel", "Quit"),
            ("ctrl+p", "List all commands", "Ranks"),
            ("H", "Back, forward", "Quit"),
        ):
            await type_keys(pilot, "ctrl+u", *text)
            await until(pilot, lambda text=text: app.screen.query_one(Input).value == text)  # type: ignore[misc]
            assert wanted in words(app), text
            assert not_wanted not in words(app), text
        await press(pilot, "enter", "escape")
        assert app.screen is app.screen_stack[0]


async def test_the_prompt_takes_every_command_by_its_name(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
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
        await press(pilot, *":q", "enter")
        assert not app.is_running


def test_every_mark_of_the_rules_is_explained() -> None:
    used = {*NEIGHBOUR_MARKS.values(), *TYPE_MARKS.values(), *SETTING_MARKS.values()}
    assert used <= MARKS.keys()
    assert all(explanation and not explanation.endswith(".") for explanation in MARKS.values())


async def test_marks_are_explained_on_screen(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), head="L0H0", size=(160, 50)) as (app, pilot):
        assert "query/key bias" in screen_text(app)
        await press(pilot, "question_mark", "G")
        marks = screen_text(app).partition("marks of this head")[2]
        assert all(part in marks for part in ("b_Q and b_K add terms to", "scores that QK", "leaves out"))
        await press(pilot, "escape", "unbound:app.tree", "g", "g")
        assert app.session.shown.selected is None
        assert "b_Q and b_K add terms" in screen_text(app)
