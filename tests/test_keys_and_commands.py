"""What the program says of itself: the help of every widget, the line of keys, the palette, and errors of usage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input, OptionList

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.explorer import explorer, screen_text, settle, until
from tui.app import Explorer
from tui.command_line import command
from tui.drawing.ticks import brief
from tui.help_screen import HelpScreen
from tui.key_line import LABELS
from tui.palette_screen import Palette


def own_keys(widget: Widget) -> list[tuple[str, str]]:
    """Give id and description of the bindings that a widget's class itself has, as they are written there."""
    return [(binding.id or "", binding.description) for _, binding in widget._bindings if binding.id is not None]


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
            await pilot.pause()
            lines = screen_text(app).splitlines()
            first = next(number for number, line in enumerate(lines) if " in the " in line)
            listed = [line.strip(" │") for line in lines[first + 1 : lines.index(lines[first], first) + 40]]
            listed = listed[: listed.index("")]
            wanted = {said for each in alike for name, said in own_keys(each) if name in active}
            assert wanted
            assert {said for said in wanted if any(line.endswith(said) for line in listed)} == wanted
            assert len(listed) == len(wanted), listed
            await pilot.press("escape")
            await pilot.pause()


async def test_help_is_read_and_searched_on_the_smallest_screen(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), size=(40, 12)) as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        assert screen_text(app).splitlines()[0].strip() == "in the tree"
        seen = set()
        for key in ("pagedown",) * 20:
            seen |= {line[:38].strip() for line in screen_text(app).splitlines()}  # without the scrollbar
            await pilot.press(key)
        assert {"finding one's way", "views", "sentence", "heads beside each other", "program", "mouse"} <= seen
        assert "more" not in seen
        assert isinstance(app.screen, HelpScreen)
        assert app.screen._sections[-2].title == "in this list"
        assert "Next view" not in dict(app.screen._sections[-2].lines).values(), "which goes nowhere from the list"
        await pilot.press("g", "g", "slash", *"zoom")
        await pilot.pause()
        assert "one view, or all" in " ".join(screen_text(app).split())
        await pilot.press("ctrl+u", *"export")
        await pilot.pause()
        text = screen_text(app)
        assert "Export" in text
        assert "Sentence" not in text
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert app.screen is app.screen_stack[0]


@pytest.mark.parametrize(
    ("columns", "way", "wanted"),
    [
        (80, ["t"], "/ Search g Go to o Off i Sentence 1 Spectra 2 Ranks 3 Attention ? Keys q Quit"),
        (80, ["3"], ". Zoom f Whole a Mean x Explain / Search g Go to i Sentence ? Keys q Quit"),
        (80, ["4"], "/ Filter o Sort g Go to i Sentence 1 Spectra 2 Ranks 3 Attention ? Keys q Quit"),
        (40, ["t"], "/ Search z All room ? Keys q Quit"),
    ],
)
async def test_the_line_of_keys_fits_and_says_what_matters(
    tiny_model: TinyModel, columns: int, way: list[str], wanted: str
) -> None:
    async with explorer(tiny_model("llama"), text="the cat", size=(columns, 24)) as (app, pilot):
        await pilot.press(*way)
        await settle(pilot)
        line = screen_text(app).splitlines()[-1]
        assert line.rstrip() == wanted
        await pilot.resize_terminal(160, 24)
        await pilot.pause()
        wide = screen_text(app).splitlines()[-1]
        assert "^p Commands" in wide
        assert set(wanted.split()) <= set(wide.split())
        assert list(LABELS)[-2:] == ["app.help", "app.quit"]


async def search(app: Explorer, pilot: Pilot[None], text: str) -> list[str]:
    """Open the palette, type, and give what it offers."""
    await pilot.press("ctrl+p")
    await pilot.pause()
    assert isinstance(app.screen, Palette)
    await pilot.press(*text)
    await app.workers.wait_for_complete()
    await pilot.pause()
    options = app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(place).prompt) for place in range(options.option_count)]


async def test_the_palette_goes_to_heads_and_views_and_does_what_keys_do(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        assert (await search(app, pilot, "1.2"))[0] == "L1H2"
        await pilot.press("enter")
        await settle(pilot)
        assert app.conductor.selected == Head("decoder", 1, 2)
        assert (await search(app, pilot, "03"))[0] == "L0H3"
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.screen_stack[0]
        assert "Circuits  (4)" in await search(app, pilot, "circuits")
        await pilot.press("enter")
        await settle(pilot)
        assert app.views.active.view == "circuits"
        await search(app, pilot, "theme nord")
        await pilot.press("enter")
        await pilot.pause()
        assert app.theme == "nord"
        assert any(each.startswith("Back to where you were") for each in await search(app, pilot, ""))
        await pilot.press(*"0.1", "enter")  # without waiting for what is found
        await settle(pilot)
        assert app.conductor.selected == Head("decoder", 0, 1)


async def test_a_second_d_while_the_first_is_worked_out_changes_nothing(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await pilot.press("1", "d", "d", "d")
        await settle(pilot)
        assert "Δ = 0" in screen_text(app)
        await pilot.press("d")
        await settle(pilot)
        assert "Δ" not in screen_text(app).splitlines()[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo", "--foo"], "attn-tui: no such option"),
        (["export", "demo"], "attn-tui: missing argument 'VIEW'"),
        (["demo", "--energy", "3"], "attn-tui: invalid value for '--energy'"),
    ],
)
def test_wrong_usage_is_one_line_and_says_where_to_read_on(words: list[str], said: str) -> None:
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(said)
    assert line.endswith("--help")


def test_a_number_is_written_in_one_form_whichever_side_of_it_rounding_leaves_it() -> None:
    below, above = 0.001 - 1e-17, 0.001 + 1e-17
    assert below < 0.001 < above or below == 0.001
    assert brief(0.00099999999, 3) == brief(0.001, 3) == brief(0.0010000001, 3) == "0.001"
    assert brief(0.00094, 2) == "9e-4"


async def test_the_line_of_keys_shows_what_works_in_the_view_the_field_or_the_box(tiny_model: TinyModel) -> None:
    def line(app: Explorer) -> str:
        return screen_text(app).splitlines()[-1].rstrip()

    async with explorer(tiny_model("llama"), text="the cat", head="L0H0") as (app, pilot):
        for keys, wanted in (
            ("A", "⏎ Large map / Search"),
            ("T", "o Turn f Both ⏎ Largest"),
            ("P C", "C Maps, difference P Pin"),
            ("w", "⏎ Go in m Measure . Matrix / Find w Table"),
        ):
            await pilot.press(*keys.split())
            await settle(pilot)
            assert line(app).startswith(wanted)
            assert line(app).endswith("? Keys q Quit")
        for keys, wanted in (
            ("slash", "⏎ Show it tab Complete esc Leave"),
            ("escape 4 slash", "⏎ Filter tab Complete esc All rows"),
            ("escape i", "⏎ Read it esc Back to the tree ↑ Earlier ^u Clear ^r Find"),
        ):
            await pilot.press(*keys.split())
            await settle(pilot)
            assert line(app) == wanted
        for keys, wanted in (
            ("escape e", "⏎ Write → Format tab Name esc Back"),
            ("tab", "⏎ Write tab Name esc Back"),
            ("escape escape S", "⏎ Show / Find d Forget esc Back"),
            ("escape question_mark", "/ Search esc Close"),
            ("slash", "⏎ Keep esc All keys"),
            ("escape escape B", "⏎ Open esc Leave tab Complete ↓ Next ↑ Before"),
            ("escape ctrl+p", "⏎ Do it esc Back"),
        ):
            await pilot.press(*keys.split())
            await settle(pilot)
            assert line(app) == wanted
        await pilot.press("escape")
        await settle(pilot)
        assert "g Go to" in line(app)


async def test_in_ascii_keys_are_words_that_no_two_share(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), ascii_only=True, size=(100, 120)) as (app, pilot):
        await pilot.press("question_mark")
        await settle(pilot)
        text = screen_text(app)
        for keys in ("j Down ", "k Up ", "l Right ", "Enter ", "H Backspace ^o alt+Left"):
            assert keys in text
        assert text.isascii()


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+c"])
async def test_control_keys_leave_too(tiny_model: TinyModel, key: str) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await pilot.press(key)
        assert app._exit


async def test_control_c_leaves_the_line_that_is_typed_into_and_not_the_program(tiny_model: TinyModel) -> None:
    def is_typing(app: Explorer) -> bool:
        return isinstance(app.focused, Input)

    async with explorer(tiny_model("llama")) as (app, pilot):
        for keys in ("i ctrl+u", "w slash", "w slash", "slash", "g", "question_mark slash", "S slash", "B", "ctrl+p"):
            await pilot.press(*keys.split(), "a")
            assert is_typing(app), keys
            if keys not in ("slash", "g", "ctrl+p"):
                await pilot.press("shift+left", "ctrl+c")
                assert app.clipboard == "a", keys
                assert is_typing(app), keys
                app.copy_to_clipboard("")
                await pilot.press("right")
            await pilot.press("ctrl+c")
            await settle(pilot)
            assert not is_typing(app), keys
            await pilot.press("escape", "t")
        assert len(app.screen_stack) == 1


async def test_tab_goes_through_the_tree_and_the_views_and_never_into_a_field(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat", size=(160, 50)) as (app, pilot):
        views = (app.views.spectra.graph, app.views.ranks.table, app.views.attention.heatmap)
        await pilot.press("t", "3")
        for turn in ((app.tree_widget, *views), (app.tree_widget, *views)):
            for widget in turn:
                await pilot.press("tab")
                assert app.focused is widget
        await pilot.press("i", "tab")
        assert app.focused is app.tree_widget


async def test_where_nothing_can_be_suspended_ctrl_z_does_nothing(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        before = screen_text(app)
        await pilot.press("ctrl+z")
        await pilot.pause()
        assert screen_text(app) == before
        await pilot.press("i", "ctrl+z")
        await pilot.pause()
        assert app.focused is app.sentence_input


async def test_on_a_narrow_terminal_the_tree_gives_way_and_the_footer_says_how_it_goes(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", size=(40, 12)) as (app, pilot):
        await pilot.press("2")
        await settle(pilot)
        tree = app.tree_widget
        assert tree.size.width <= 40 * 0.36
        assert "L0" in screen_text(app).splitlines()[2][:14]
        assert "z All room" in screen_text(app).splitlines()[-1]
        await pilot.press("z")
        await pilot.pause()
        assert not tree.display
        assert "z Share room" in screen_text(app).splitlines()[-1]
        await pilot.press("z")
        await pilot.resize_terminal(62, 24)
        await pilot.pause()
        assert tree.outer_size.width == 21


async def test_the_end_of_a_files_name_is_seen_where_the_path_is_too_long(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder" / "in a folder" / "of a folder"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    async with explorer(tiny_model("llama"), head="L0H0", size=(40, 12)) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await pilot.press("e")
        for _ in range(2):  # as it is offered, and while it is typed
            await until(pilot, lambda: "-spectrum.csv" in screen_text(app))
            await pilot.press("tab")
        await until(pilot, lambda: bool(re.search(r"^ *…\S.*-spectrum.csv", screen_text(app), re.MULTILINE)))


async def test_a_colon_takes_what_editors_call_things_and_every_command_by_its_name(tiny_model: TinyModel) -> None:
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
        assert app.conductor.selected == Head("decoder", 1, 0)
        await ask("h2", "enter")
        assert app.conductor.selected == Head("decoder", 1, 2)
        await ask("pin", "enter")
        assert app.tree_widget.pinned == {Head("decoder", 1, 2)}
        for text, said in (("set number", "no head, view or command"), ("theme none", "no such theme")):
            await ask(text, "enter")
            assert app.prompt.display
            assert said in screen_text(app).splitlines()[-1]
            assert "…" not in screen_text(app).splitlines()[-1]
            await pilot.press("escape")
        await ask("wq", "enter")
        assert not app.is_running
