"""Keys of one's own, themes, plain ASCII, no colour, the clipboard, and coming back to where one was."""

from __future__ import annotations

import base64
import csv
import io
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.color import Color
from rich.color_triplet import ColorTriplet as Rgb
from textual.widgets import Input

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.terminal import COMMAND, Terminal
from tests.tui.explorer import explorer, screen_text, settle, shown, until
from tests.tui.painted import good_terminal
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.cli.configuration import config_file, read_config
from tui.drawing.levels import Ink
from tui.drawing.ramps import level_styles, lightness, ramp
from tui.export.clipboard import LARGEST
from tui.export.view_table import table_in_view, whole_map
from tui.state.marked_heads import how_to_pin
from tui.state.saved_state import model_key, place_of, recall_theme
from tui.toolkit.themes import ANSI, OWN, find_theme, next_theme, usual_theme
from tui.widgets.key_line import KeyLine

TEXT = "the cat sat on the mat"
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
"""Sets a colour of text or background."""


def clipboard(app: Explorer) -> str:
    """Give what was copied last."""
    return app.clipboard


async def test_keys_from_the_file_work_and_stand_in_the_footer_and_the_help(tiny_model: TinyModel) -> None:
    config_file().parent.mkdir(parents=True)
    config_file().write_text(
        'nonsense = 1\n[keys]\napp.export = "f6"\ntree.down = "f8"\napp.ranks = ["R", "f2"]\ntree.upp = "q"\n'
        'app.sentence = "f7"\napp.compare = "f9"\n',
        encoding="utf-8",
    )
    start = Start(str(tiny_model("llama")), config=read_config())
    async with explorer(start.model or "", start=start, size=(120, 40)) as (app, pilot):
        (said,) = (str(each.message) for each in app._notifications)
        assert re.search(r"^config\.toml: there is no setting nonsense.*\n… and 1 more; \? lists all$", said)
        line = app.query_one(KeyLine).render().plain
        assert re.search(r" f7 Sentence .*f6 Export .*q Quit", line)
        await pilot.press("j")
        await settle(pilot)
        assert app.session.shown.selected == Head("decoder", 0, 0)
        await pilot.press("f8", "f8", "k")
        await settle(pilot)
        assert app.session.shown.selected == Head("decoder", 0, 1)
        views = []
        for key in ("2", "f2"):
            await pilot.press(key)
            views.append(app.views.active.view)
        assert views == ["overview", "ranks"]
        app.clear_notifications()
        await pilot.press("3", "f9")
        await settle(pilot)
        assert "press f7 and type a sentence" in screen_text(app)
        assert "sentence f7: type a sentence, Enter reads it" in screen_text(app)
        assert [str(each.message) for each in app._notifications] == [how_to_pin("P", "f9")]
        app.clear_notifications()
        await pilot.press("question_mark", "slash", *"export")
        await pilot.pause()
        assert re.search(r"f6\s+Export", screen_text(app))
        await pilot.press("escape", "escape")
        await pilot.press("question_mark", "slash", *"ranks")
        await pilot.pause()
        assert re.search(r"(R f2|f2 R)\s+Ranks", screen_text(app))


async def test_a_key_goes_through_the_themes_and_the_last_one_comes_back(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    async with explorer(tiny_model("llama"), text=TEXT) as (app, pilot):
        app.remembers_theme = True
        seen, legends, said = [app.theme], set(), []
        await pilot.press("3")
        for _ in OWN:
            # the colours of the map, and of what explains them, are the theme's
            await until(pilot, lambda: repr(app.views.attention.legend_line.shown) not in legends)
            legends.add(repr(app.views.attention.legend_line.shown))
            await pilot.press("unbound:app.next_theme")
            await settle(pilot)
            seen.append(app.theme)
            said += [str(each.message) for each in app._notifications]
        assert {"theme light", "theme colour-blind", "theme colour-blind-light", "theme dark"} <= set(said)
        assert tuple(seen) == (*OWN, next(iter(OWN)))
        assert app.views.attention.heatmap.ink is Ink.COLOUR
        await until(pilot, lambda: recall_theme() == app.theme)
    assert next_theme("nord") == next(iter(OWN))


def test_themes_have_short_names_and_few_colours_leave_them_to_the_terminal() -> None:
    assert [find_theme(name) for name in ("dark", "light", "cb", "ansi", "nord")] == [
        "textual-dark", "textual-light", "colour-blind", ANSI, "nord",
    ]  # fmt: skip
    assert [usual_theme(system, no_color=False) for system in ("truecolor", "256", "standard")] == [
        "textual-dark", "textual-dark", ANSI,
    ]  # fmt: skip
    assert usual_theme("truecolor", no_color=True) == ANSI


# Machado, Oliveira and Fernandes (2009), severity 1.0, for linear RGB: what an eye without one kind of cone sees.
BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}  # fmt: skip


def seen_by(kind: str, rgb: Rgb) -> list[float]:
    """Give a colour as an eye without one kind of cone sees it, linear."""
    linear = [each / 255 / 12.92 if each <= 10 else ((each / 255 + 0.055) / 1.055) ** 2.4 for each in rgb]
    return [sum(a * b for a, b in zip(row, linear, strict=True)) for row in BLINDNESS[kind]]


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("theme", ["colour-blind", "colour-blind-light"])
@pytest.mark.parametrize("system", ["truecolor", "256"])
def test_any_eye_tells_the_colour_blind_palettes_levels_apart(kind: str, theme: str, system: str) -> None:
    background = Rgb(*Color.parse(OWN[theme].background or "").get_truecolor())
    levels = [lightness(np.array(colour.get_truecolor())) for colour in ramp(background, system, "cividis")]
    steps = [float(after - before) for before, after in pairwise(levels)]
    assert all(step > 0 for step in steps) or all(step < 0 for step in steps)
    styles = level_styles(background, system, is_signed=True)
    colours = [style.bgcolor.get_truecolor() for style in styles if style.bgcolor is not None]
    for fall, rise in zip(colours[:3], colours[:-4:-1], strict=True):  # the three largest on either side
        blue, orange = seen_by(kind, fall), seen_by(kind, rise)
        assert blue[2] - blue[0] > 0.1  # bluer than it is red
        assert orange[0] - orange[2] > 0.1


async def test_ascii_is_ascii_in_every_view(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    model = tiny_model("llama", with_head=True)
    async with explorer(model, text="caf\u00e9 \u2192 \u65e5\u672c", ascii_only=True, size=(130, 40)) as (app, pilot):
        for key in (*"123", "x", *"4578", "i", "z", "?", "escape", "unbound:app.check"):
            await pilot.press(key)
            await settle(pilot)
            strange = {character for character in screen_text(app) if not character.isascii()}
            assert strange == set(), key
        text = screen_text(app)
        assert "+---" in text  # the frame around the checks
        inputs = app.screen_stack[0].query(Input)
        assert len(inputs) > 1
        assert not any(each.cursor_blink for each in inputs)


def test_without_colour_and_in_ascii_neither_is_sent_and_where_one_is_still_shows(tiny_model: TinyModel) -> None:
    arguments = (str(tiny_model("llama")), "--text", TEXT, "--ascii", "--head", "L0H0")
    with Terminal(COMMAND, *arguments, environment={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for("s1 =")
        terminal.send("3")
        terminal.wait_for("q 6 ")
        terminal.send("khky")
        terminal.wait_for("copied")
        terminal.send("i")
        terminal.settle(3.5)  # longer than the message stays
        assert terminal.read(1.2) == b""  # the cursor that waits for a sentence does not blink
        assert terminal.output.isascii()  # with the frame of the message that says what was copied
        assert COLOUR.findall(terminal.output) == []
        assert re.search(rb"\x1b\[(?:\d+;)*7(?:;\d+)*mattention", terminal.output)  # the active view's title
        (sent,) = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", terminal.output)
        weight = float(base64.b64decode(sent))
        assert f"{weight:.4g}" in terminal.text()


async def test_a_cell_a_row_and_the_view_are_copied_as_they_are_written(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "yes")
    async with explorer(tiny_model("llama", with_head=True), text=TEXT) as (app, pilot):
        for view in "1234":
            await pilot.press(view)
            await settle(pilot)
            await pilot.press("down", "right", "unbound:app.copy_view")
            await settle(pilot)
            table, _ = table_in_view(app.views, await whole_map(app.views) if view == "3" else None)
            names, *rows = csv.reader(io.StringIO(clipboard(app)), delimiter="\t")
            assert tuple(names) == table.columns
            assert rows == [["" if cell is None else str(cell) for cell in row] for row in table]
            cells: list[str] = []
            for key in ("y", "Y"):
                await pilot.press(key)
                await settle(pilot)
                cells.append(clipboard(app))
            assert "\n" not in cells[1]
            assert cells[0] in cells[1].split("\t")
            if view == "3":
                assert float(cells[0]) == app.views.attention.heatmap.value
                assert len(cells[1].split("\t")) == len(app.views.attention.heatmap.pooled.key_tokens)  # type: ignore[union-attr]
        hints = [each for each in app._notifications if "set-clipboard on" in str(each.message)]
        assert hints == []  # said with the first copy, and not again


async def test_what_is_larger_than_terminals_take_is_refused(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=" ".join(["cat"] * 100)) as (app, pilot):
        app.copy_to_clipboard("before")
        await pilot.press("3", "unbound:app.copy_view")
        await settle(pilot)
        (refusal,) = [str(each.message) for each in app._notifications]
        assert f"larger than the {LARGEST // 1000} kB that a terminal copies; nothing was copied" in refusal
        assert clipboard(app) == "before"
        await pilot.press("Y")
        await settle(pilot)
        assert len(clipboard(app).split("\t")) == len(app.views.attention.heatmap.pooled.key_tokens) > 60  # type: ignore[union-attr]


async def test_head_view_sentence_measure_and_epsilon_come_back(tiny_model: TinyModel) -> None:
    model = str(tiny_model("llama"))
    start = Start(model, is_restoring=True)
    async with explorer(model, start=start) as (app, pilot):
        await pilot.press("i", "ctrl+u", *"a cat", "enter")
        await settle(pilot)
        await pilot.press("right_curly_bracket", "right_square_bracket", "m", "plus", "4")
        await settle(pilot)
        await app.action_quit()
    async with explorer(model, start=start) as (app, pilot):
        assert app.session.shown.selected == Head("decoder", 1, 1)
        assert app.views.active.view == "circuits"
        assert app.main.sentence_input.value == app.session.shown.sentence == "a cat"
        await pilot.press("2")
        await settle(pilot)
        assert "ε 0.02" in shown(app.views.ranks.title_line)
        assert "participation ratio" in shown(app.views.ranks.title_line)
        await app.action_quit()
    asked = Start(model, text="the mat", head="L0H2", epsilon=0.1, log_scale=False, is_restoring=True)
    async with explorer(model, start=asked) as (app, _):
        assert app.session.shown.selected == Head("decoder", 0, 2)
        assert app.session.shown.sentence == "the mat"
        assert app.session.shown.epsilon == 0.1
        assert (app.views.spectra.scale, app.views.attention.scale) == ("linear", "linear")
    async with explorer(model, start=Start(model)) as (app, _):
        assert (app.session.shown.selected, app.session.shown.sentence) == (Head("decoder", 0, 0), None)
        assert app.views.active is app.views.overview


async def test_a_head_that_is_gone_is_forgotten_and_a_killed_session_is_not(
    tiny_copy: TinyModel, tmp_path: Path
) -> None:
    model = str(tiny_copy("llama"))
    place = place_of(model_key(model, None))
    async with explorer(model, start=Start(model, is_restoring=True)) as (app, pilot):
        assert not app._notifications
        await pilot.press("j", "j")
        await settle(pilot)
        app.keep_state()  # what the clock does every other second
        await until(pilot, place.exists)
    said = place.read_text(encoding="utf-8")
    assert "decoder.L0H2" in said
    place.write_text(said.replace("L0H2", "L9H2").replace("overview", "a view of old"), encoding="utf-8")
    assert "a view of old" in place.read_text(encoding="utf-8")
    async with explorer(model, start=Start(model, is_restoring=True)) as (app, _):
        assert app.session.shown.selected == Head("decoder", 0, 0)
        assert app.views.active is app.views.overview


async def test_a_state_folder_that_cannot_be_written_is_told_and_hinders_nothing(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/version")
    model = str(tiny_model("llama"))
    async with explorer(model, start=Start(model, is_restoring=True)) as (app, pilot):
        (said,) = (str(each.message) for each in app._notifications)
        assert said.startswith("cannot save where you are: /proc/version/attn-tui cannot be written: ")
        await pilot.press("j")
        await settle(pilot)
        assert app.session.shown.selected == Head("decoder", 0, 1)


def test_the_command_line_names_themes_where_there_is_none_of_a_name() -> None:
    with Terminal(COMMAND, "demo", "--theme", "pink") as terminal:
        assert terminal.exit_code() == 2
        said = " ".join(terminal.text().split())
        assert "there is no theme 'pink'; there are dark, light, colour-blind, colour-blind-light, ansi; " in said
