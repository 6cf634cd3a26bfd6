"""Themes, the palettes for the colour-blind, ASCII, and no colour."""

from __future__ import annotations

import base64
import re
from itertools import pairwise

import numpy as np
import pytest
from rich.color import Color
from rich.color_triplet import ColorTriplet as Rgb
from textual.widgets import Input

from tests.conftest import TinyModel
from tests.terminal import COMMAND, Terminal
from tests.tui.explorer import explorer, notices, press, resize, screen_text, type_keys, until
from tests.tui.painted import good_terminal
from tui.app.start import Start
from tui.drawing.ramps import level_styles, lightness, ramp
from tui.state.saved_state import recall_choice
from tui.toolkit.themes import ANSI, OWN, default_theme, find_theme

TEXT = "the cat sat on the mat"
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
"""Sets a colour of text or background."""


async def test_themes_are_chosen_by_name_and_the_last_one_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    async with explorer("", start=Start("demo", text=TEXT, is_restoring=True)) as (app, pilot):
        legends, said = set(), []
        await type_keys(pilot, "3")
        for name in ("light", "colour-blind", "colour-blind-light", "ansi", "dark"):
            # the colours of the map, and of what explains them, are the theme's
            await until(pilot, lambda: repr(app.views.attention.legend_line.shown) not in legends)
            legends.add(repr(app.views.attention.legend_line.shown))
            await press(pilot, *f":theme {name}", "enter")
            said += notices(app)
        assert {"theme light", "theme colour-blind", "theme colour-blind-light", "theme dark"} <= set(said)
        assert app.theme == next(iter(OWN))
        await until(pilot, lambda: recall_choice("theme") == app.theme)


def test_themes_have_short_names_and_terminals_of_few_colours_use_their_own() -> None:
    for name, theme in (("dark", "textual-dark"), ("light", "textual-light"), ("cb", "colour-blind"), ("ansi", ANSI)):
        assert find_theme(name) == theme
    assert find_theme("nord") == "nord"
    for system, theme in (("truecolor", "textual-dark"), ("256", "textual-dark"), ("standard", ANSI)):
        assert default_theme(system, no_color=False) == theme
    assert default_theme("truecolor", no_color=True) == ANSI


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
    model, text = tiny_model("llama", with_head=True), "caf\u00e9 \u2192 \u65e5\u672c"
    async with explorer(model, text=text, ascii_only=True) as (app, pilot):
        for size, keys in (((40, 12), "123T8Aw"), ((160, 50), "123x4578TAwP]PCCCizz")):
            await resize(pilot, *size)
            for key in (*keys, "escape", "?", "escape"):
                await press(pilot, key)
                assert app.views.active.region.area
                strange = {character for character in screen_text(app) if not character.isascii()}
                assert strange == set(), (size, key)
        await press(pilot, "unbound:app.check")
        assert "+---" in screen_text(app), "the frame around the checks"
        inputs = app.screen_stack[0].query(Input)
        assert len(inputs) > 1
        assert not any(each.cursor_blink for each in inputs)


def test_no_colour_and_no_sign_beyond_ascii_is_sent_when_both_are_off(tiny_model: TinyModel) -> None:
    arguments = (str(tiny_model("llama")), "--text", TEXT, "--ascii", "--head", "L0H0")
    with Terminal(COMMAND, *arguments, environment={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for("s1 =")
        terminal.send("3")
        terminal.wait_for("q 6 ")
        terminal.send("i")
        terminal.settle(1.0)
        assert terminal.read(1.2) == b"", "the cursor that waits for a sentence does not blink"
        terminal.send("\x1b")
        terminal.settle()
        terminal.send("khky")
        terminal.wait_for("copied")
        assert terminal.output.isascii()  # with the frame of the message that says what was copied
        assert COLOUR.findall(terminal.output) == []
        assert re.search(rb"\x1b\[(?:\d+;)*7(?:;\d+)*mattention", terminal.output)  # the active view's title
        (sent,) = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", terminal.output)
        weight = float(base64.b64decode(sent))
        assert f"{weight:.4g}" in terminal.text()
