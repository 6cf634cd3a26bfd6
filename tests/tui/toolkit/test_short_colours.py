"""Colours are sent by their number where the palette of 256 has them, and look as before."""

from __future__ import annotations

import pytest
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as Ground

from tests.tui.explorer import explorer, settle
from tests.tui.painted import good_terminal
from tui.contrast import LETTERS, contrast
from tui.drawing.ramps import PALETTES, ramp
from tui.sent_colours import difference
from tui.short_colours import ALIKE, CHANGED_BY_PEOPLE, NUMBERED, as_sent, numbered

BLACK = Ground(0, 0, 0)


def sent(text: str, style: str) -> Style:
    """Give the style that a piece of text is sent in."""
    (segment,) = NUMBERED.apply([Segment(text, Style.parse(style))], BLACK)
    assert segment.text == text
    assert segment.style is not None
    return segment.style


def rgb(colour: Color | None) -> tuple[int, int, int]:
    """Give what a terminal shows of a colour."""
    assert colour is not None
    red, green, blue = colour.get_truecolor()
    return red, green, blue


def test_what_is_behind_letters_has_exactly_its_colour() -> None:
    assert sent("head", "on #121212").bgcolor == Color.from_ansi(233)
    for number in range(256):
        colour = rgb(Color.from_ansi(number))
        found = sent("head", f"on {Ground(*colour).hex}").bgcolor
        assert rgb(found) == colour
        assert found is not None
        assert found.number not in CHANGED_BY_PEOPLE or found.number is None
    for palette in PALETTES:
        for ground in ((18, 18, 18), (224, 224, 224)):
            for colour in map(rgb, ramp(ground, "truecolor", palette)):
                assert rgb(sent("head", f"on {Ground(*colour).hex}").bgcolor) == colour, "steps stay even"


def test_letters_have_a_colour_that_is_not_told_from_their_own_and_what_is_drawn_has_its_own() -> None:
    for red in range(0, 256, 5):
        for rest in range(0, 256, 15):
            wanted = (red, rest, rest)
            name = Ground(*wanted).hex
            assert difference(rgb(sent("head", f"{name} on #121212").color), wanted) <= ALIKE
            assert rgb(sent("▄▄", f"{name} on #121212").color) == wanted
            assert rgb(sent("██", name).color) == wanted


def test_letters_that_stand_out_go_on_to() -> None:
    number = numbered((160, 160, 160), ALIKE)
    assert number is not None
    darker = rgb(Color.from_ansi(number))
    assert darker < (160, 160, 160)
    for level in range(256):
        ground = (level, level, level)
        asked = contrast((160, 160, 160), ground)
        found = contrast(rgb(sent("head", f"#a0a0a0 on {Ground(*ground).hex}").color), ground)
        assert found >= min(asked, LETTERS), level


def test_colours_of_the_terminals_own_and_no_colour_stay() -> None:
    for style in ("red on blue", "bold", "default on default", "color(3) on color(200)"):
        assert sent("head", style) == Style.parse(style)
    assert as_sent(Color.default()) == Color.default()
    assert as_sent(Color.from_rgb(224, 224, 224)) == Color.from_ansi(254)
    assert NUMBERED.apply([Segment("head")], BLACK) == [Segment("head")]


@pytest.mark.parametrize(("variable", "is_numbered"), [("truecolor", True), ("", False)])
async def test_only_a_terminal_of_all_colours_is_sent_numbers_for_them(
    variable: str, is_numbered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    monkeypatch.setenv("COLORTERM", variable)
    monkeypatch.setenv("TERM", "xterm-256color" if is_numbered else "xterm")
    async with explorer("demo") as (app, pilot):
        await settle(pilot)
        styles = [
            style for strip in app.screen._compositor.render_strips() for _, style, _ in strip if style is not None
        ]
        numbers = {each.number for style in styles for each in (style.color, style.bgcolor) if each is not None}
        assert bool(numbers & set(range(22, 256))) == is_numbered
