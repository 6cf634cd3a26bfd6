"""What a terminal is sent: of an update only the cells that differ, in the colours that it has."""

from __future__ import annotations

import asyncio
import re
from random import Random
from typing import Literal
from unicodedata import category

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.screen import UPDATE_PERIOD
from textual.strip import Strip

from tests.tui.explorer import press
from tests.tui.painted import HALF, TerminalPicture, good_terminal
from tests.tui.painted_explorer import painted_explorer
from tui.drawing.text import escape_text
from tui.toolkit.output import Difference, LastFrame

CONSOLE = Console(color_system="truecolor", force_terminal=True, width=40)
RED, BLUE = map(Style.parse, ("red", "on blue"))
STYLES = [
    "none", "red", "on blue", "#102030 on #405060", "bold white on #405060", "dim", "bold dim", "default on default",
    "reverse #102030", "underline2 on blue", "not bold italic", "strike on #405060", "bright_red on bright_blue",
]  # fmt: skip
TEXTS = ["head", " ", "   ", " " * 7, " " * 13, "0.25", "██", "▁", "L0H1 ", "日", "é", "│", "e\u0301", "\U0001f44d"]
TWICE = "the cat sat on the mat and the dog sat on the cat and then the cat and the dog sat on the mat again"


def line(*parts: tuple[str, Style]) -> ChopsUpdate:
    """Make an update of one line of a terminal that has one."""
    strip = Strip([Segment(text, style) for text, style in parts])
    return ChopsUpdate([{0: strip}], [(0, 0, strip.cell_length)], [[strip.cell_length]])


def sent(frame: LastFrame, update: ChopsUpdate) -> str:
    """Send an update and give what was written."""
    return Difference(frame, update).render_segments(CONSOLE)


@pytest.mark.parametrize(("at", "seen"), [(1, " x日"), (2, "日x ")])
def test_no_half_of_a_wide_character_is_left_beside_what_covers_the_other(at: int, seen: str) -> None:
    frame, picture = LastFrame(), TerminalPicture()
    picture.write(sent(frame, line(("日日", RED))))
    covered = {0: None, at: Strip([Segment("x", BLUE)]), at + 1: None}
    picture.write(sent(frame, ChopsUpdate([covered], [(0, at, at + 1)], [[at, at + 1, 4]])))
    assert "".join(picture.cells[0, column][0] for column in range(4)) == seen
    assert HALF not in picture.cells.values()


@pytest.mark.parametrize("taken", [0, 1])
def test_text_after_a_spacing_mark_is_in_place_on_every_terminal(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tui.painted.cell_len", lambda each: taken if category(each) == "Mc" else cell_len(each))
    frame, picture = LastFrame(), TerminalPicture()
    picture.write(sent(frame, line((f"a{escape_text('हिन्दी')}", RED), ("│b", BLUE), (f"{escape_text('ि')}c", RED))))
    assert [picture.cells[0, column][0] for column in (0, 6, 7, 10)] == ["a", "│", "b", "c"]
    assert sent(frame, line((f"a{escape_text('हिन्दी')}", RED), ("│b", BLUE), (f"{escape_text('ि')}c", RED))) == ""


@pytest.mark.parametrize("system", ["standard", "256", "truecolor"])
def test_random_changes_leave_the_picture_of_whole_updates(system: Literal["standard", "256", "truecolor"]) -> None:
    console = Console(color_system=system, force_terminal=True, width=40)
    draw = Random(system)
    of_system = Style.from_meta({"system": system})  # a style keeps the codes that it was first written with
    styles = [Style.parse(each) + of_system for each in STYLES]
    frame, reduced = LastFrame(), TerminalPicture()
    for _ in range(100):
        chops: list[dict[int, Strip | None]] = []
        for _row in range(3):
            pieces = [Segment(draw.choice(TEXTS), draw.choice(styles)) for _ in range(12)]
            whole_line = Strip(pieces).extend_cell_length(40).crop(0, 40)
            chops.append({0: whole_line.crop(0, 20), 20: whole_line.crop(20)})
        spans = [(row, *draw.choice([(0, 20), (20, 40), (0, 40)])) for row in range(3) if draw.random() < 0.7]
        update = ChopsUpdate(chops, spans or [(0, 0, 40)], [[20, 40]] * 3)
        before, whole = dict(reduced.cells), TerminalPicture()
        whole.cells = before
        whole.write(update.render_segments(console))
        reduced.write(Difference(frame, update).render_segments(console))
        assert reduced.cells == whole.cells


@pytest.mark.parametrize(("size", "of_a_head"), [((80, 24), 12_000), ((160, 50), 40_000)])
async def test_keys_send_few_bytes_and_an_idle_screen_none(
    size: tuple[int, int], of_a_head: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    async with painted_explorer(size=size, text=TWICE, head="L0H0") as (app, pilot):
        for lead, keys, most in (("1", "lll", 2000), ("3", "khk", 2000), ("T", "hk", 2000), ("w", "ljl][", of_a_head)):
            await press(pilot, lead)
            await asyncio.sleep(UPDATE_PERIOD)  # until it has been sent, too
            for key in keys:
                app.written = 0
                await press(pilot, key)
                await asyncio.sleep(UPDATE_PERIOD)
                assert 0 < app.written < most, (lead, key)
        app.written = 0
        app.refresh()
        await asyncio.sleep(0.2)
        assert app.written == 0


COLOUR = re.compile(r"(?P<rgb>[34]8;2(?:;\d+){3})|(?P<palette>[34]8;5;\d+)|(?P<named>\b(?:3|4|9|10)[0-7]\b)")
"""The codes of a colour, by kind: exact, of 256, or one of the sixteen that have names."""

MODES = {
    "truecolor": ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, {"rgb"}),
    "256": ({"TERM": "xterm-256color", "COLORTERM": ""}, {"palette"}),
    "16": ({"TERM": "xterm", "COLORTERM": ""}, {"named"}),
    "none": ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, set[str]()),
}
"""What the environment says, and the kinds of colours that may be used then."""


@pytest.mark.parametrize("mode", MODES)
async def test_every_view_has_the_terminals_colours_or_signs(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    environment, expected = MODES[mode]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    seen = set[tuple[str, str]]()
    async with painted_explorer(size=(100, 30), text="the cat sat on the mat", head="L1H2") as (app, pilot):
        for key in "3]w1":
            await press(pilot, key)
            seen.update(app.picture.cells.values())
    has_signs = not set("░▒▓").isdisjoint(character for character, _ in seen)
    assert has_signs == (mode in ("none", "16")), "they tell levels apart where there are no colours"
    assert {colour.lastgroup for _, style in seen for colour in COLOUR.finditer(style)} == expected
