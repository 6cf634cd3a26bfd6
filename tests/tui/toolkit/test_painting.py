"""Of every update only what differs is sent, and the terminal shows the same picture as if all were."""

from __future__ import annotations

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
from textual.strip import Strip

from tests.tui.painted import NASTY, TerminalPicture
from tui.drawing.text import harmless
from tui.painting import Painted, Repaint
from tui.pen import RESET
from tui.placing import seams
from tui.scrolling import Scroll, find_scroll

CONSOLE = Console(color_system="truecolor", force_terminal=True, width=40)


RED, BLUE, GREY, UNDERLINED = map(Style.parse, ("red", "on blue", "#010203", "underline"))


STYLES = [
    "none", "red", "on blue", "#102030 on #405060", "bold white on #405060", "dim", "bold dim", "default on default",
    "reverse #102030", "underline2 on blue", "not bold italic", "strike on #405060", "#102030",
    "bright_red on bright_blue",
]  # fmt: skip


TEXTS = ["head", " ", "   ", " " * 7, " " * 13, "0.25", "██", "▁", "L0H1 ", "日", "é", "│", "e\u0301", "\U0001f44d"]


ERASED = re.compile(r"\x1b\[\d+X")
"""Has a terminal make cells blank."""


def line(*parts: tuple[str, Style]) -> ChopsUpdate:
    """Make an update of one line of a terminal that has one."""
    strip = Strip([Segment(text, style) for text, style in parts])
    return ChopsUpdate([{0: strip}], [(0, 0, strip.cell_length)], [[strip.cell_length]])


def sent(painted: Painted, update: ChopsUpdate) -> str:
    """Send an update and give what was written."""
    return Repaint(painted, update).render_segments(CONSOLE)


@pytest.mark.parametrize("taken", [0, 1])
def test_what_follows_a_spacing_mark_is_in_its_place_on_terminals_that_give_it_a_cell_and_on_others(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.tui.painted.cell_len", lambda each: taken if category(each) == "Mc" else cell_len(each))
    painted, picture = Painted(), TerminalPicture()
    picture.write(sent(painted, line((f"a{harmless('हिन्दी')}", RED), ("│b", BLUE), (f"{harmless('ि')}c", RED))))
    assert [picture.cells[0, column][0] for column in (0, 6, 7, 10)] == ["a", "│", "b", "c"]
    assert sent(painted, line((f"a{harmless('हिन्दी')}", RED), ("│b", BLUE), (f"{harmless('ि')}c", RED))) == ""


def test_what_is_there_already_is_not_sent_again() -> None:
    painted = Painted()
    assert "heads" in sent(painted, line(("heads", RED)))
    assert sent(painted, line(("he", RED), ("ads", RED))) == ""


def test_only_the_word_that_changed_is_sent() -> None:
    painted = Painted()
    sent(painted, line(("rank 12 of 64 │││││", RED)))
    assert sent(painted, line(("rank 13 of 64 ││ ││", RED))) == "\x1b[1;6H13\x1b[9C "


def test_what_is_set_already_is_not_said_again() -> None:
    painted = Painted()
    sent(painted, line(("head", RED), (" " * 20, BLUE), ("rank", RED)))
    written = sent(painted, line(("tail", RED), ("  ", BLUE + RED), (" " * 18, BLUE), ("norm", RED + UNDERLINED)))
    assert written == "\x1b[1;1Htail\x1b[20C\x1b[4mnorm"  # a blank shows no colour of letters


def test_what_ends_is_ended_by_itself() -> None:
    painted = Painted()
    after = line(("head", RED + BLUE + UNDERLINED), ("rank", RED + BLUE), ("norm", Style()))
    assert sent(painted, after) == f"{RESET}\x1b[1;1H\x1b[4;31;44mhead\x1b[24mrank{RESET}norm"


def test_an_update_begins_with_what_looks_as_the_last_one_ended() -> None:
    painted = Painted()
    sent(painted, line(("head", RED), ("rank", GREY), ("norm", RED)))
    assert sent(painted, line(("tail", RED), ("size", GREY), ("norm", RED))) == ("\x1b[1;1Htail\x1b[38;2;1;2;3msize")
    assert sent(painted, line(("heal", RED), ("sign", GREY), ("norm", RED))) == ("\x1b[1;5Hsign\x1b[8D\x1b[31mheal")


def test_what_is_of_one_style_is_sent_together_where_that_is_shorter() -> None:
    painted = Painted()
    lines = [Strip([Segment("head", RED), Segment("rank", GREY)]) for _ in range(2)]
    written = sent(painted, ChopsUpdate([{0: each} for each in lines], [(0, 0, 8), (1, 0, 8)], [[8], [8]]))
    grey, red = "38;2;1;2;3", "31"
    assert written == f"{RESET}\x1b[2;1H\x1b[{red}mhead\x1bM\x1b[4Dhead\x1b[{grey}mrank\x1b[2;5Hrank"


@pytest.mark.parametrize("erases", [False, True])
@pytest.mark.parametrize("system", ["standard", "256", "truecolor"])
def test_changes_at_random_leave_the_picture_that_the_whole_makes(
    system: Literal["standard", "256", "truecolor"], erases: bool
) -> None:
    console = Console(color_system=system, force_terminal=True, width=40)
    draw = Random(system)
    of_system = Style.from_meta({"system": system})  # a style keeps the codes that it was first written with
    styles = [Style.parse(each) + of_system for each in STYLES]
    painted, reduced = Painted(erases=erases), TerminalPicture()
    written = ""
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
        part = Repaint(painted, update).render_segments(console)
        written += part
        reduced.write(part)
        assert reduced.cells == whole.cells
    assert bool(ERASED.search(written)) == erases


@pytest.mark.parametrize("step", [1, -1, 3, -2])
def test_lines_that_only_go_up_or_down_are_moved_by_the_terminal(step: int) -> None:
    draw = Random(step)
    texts = [f"{draw.choice(TEXTS)}{number:<4}{draw.random()} {draw.random()}" for number in range(40)]
    styles = [Style.parse(draw.choice(STYLES)) for _ in texts]

    def screen(first: int) -> ChopsUpdate:
        """Make a list that scrolls between a line that stays and one that is always another."""
        shown = [
            ("rank", RED),
            *zip(texts[first : first + 20], styles[first : first + 20], strict=True),
            (f"{first}", RED),
        ]
        lines = [Strip([Segment(text, style)]).adjust_cell_length(60).crop(0, 60) for text, style in shown]
        return ChopsUpdate([{0: each} for each in lines], [(y, 0, 60) for y in range(22)], [[60]] * 22)

    painted, reduced, whole = Painted(), TerminalPicture(), TerminalPicture()
    reduced.write(sent(painted, screen(8)))
    for first in (8 + step, 8 + 2 * step):
        scrolled = sent(painted, screen(first))
        assert f"{abs(step) if abs(step) > 1 else ''}{'M' if step > 0 else 'L'}" in scrolled.split("\x1b[")
        assert len(scrolled) < len(sent(Painted(), screen(first))) / 3
        reduced.write(scrolled)
    whole.write(screen(8 + 2 * step).render_segments(CONSOLE))
    assert reduced.cells == whole.cells


def test_lines_are_not_moved_where_what_stays_beside_them_would_blink() -> None:
    draw = Random(0)
    texts = [f"{draw.random()} {draw.random()}"[:36].ljust(36) for _ in range(40)]

    def screen(first: int, beside: str) -> ChopsUpdate:
        """Make a list that scrolls beside what stays on each line."""
        shown = zip(texts[first : first + 20], beside, strict=True)
        lines = [Strip([Segment(f"{text} {sign}", RED)]) for text, sign in shown]
        return ChopsUpdate([{0: each} for each in lines], [(y, 0, 38) for y in range(20)], [[38]] * 20)

    for beside, is_moved in ((" " * 20, True), ("abcdefghijklmnopqrst", False)):
        painted = Painted()
        sent(painted, screen(8, beside))
        assert ("M" in sent(painted, screen(9, beside)).split("\x1b[")) == is_moved


def test_lines_are_not_moved_for_less_than_what_they_leave_free() -> None:
    draw = Random(0)
    screen = [[draw.choice("abcdefgh") for _ in range(60)] for _ in range(20)]
    copied = [*screen[:3], screen[4], *screen[4:]]
    assert find_scroll(screen, screen) is None
    assert find_scroll(screen, copied) is None, "the line that would be free is as it should be"
    beside = [[*new[:10], *old[10:]] for old, new in zip(screen, [*screen[2:], *screen[:2]], strict=True)]
    assert find_scroll(screen, beside) is None, "most of the cells stay where they are"
    assert find_scroll(screen, [*screen[:4], *screen[6:15], *copied[:2], *screen[15:]]) == Scroll(4, 14, 2)


@pytest.mark.parametrize(
    ("after", "written"),
    [
        ((("head", RED), (" " * 26, BLUE)), "\x1b[1;5H\x1b[44m\x1b[26X"),
        ((("head", RED), (" " * 20, BLUE), ("rank  ", BLUE)), "\x1b[1;5H\x1b[0;44m\x1b[20X\x1b[20Crank  "),
        ((("head", RED), (" " * 10, BLUE), ("rank" * 4, BLUE)), f"\x1b[1;5H\x1b[0;44m{' ' * 10}{'rank' * 4}"),
        ((("head", RED), (" " * 26, UNDERLINED)), f"\x1b[1;5H\x1b[0;4m{' ' * 26}"),
    ],
)
def test_many_blanks_are_erased_unless_they_show_the_colour_of_letters(
    after: tuple[tuple[str, Style], ...], written: str
) -> None:
    painted = Painted(erases=True)
    sent(painted, line(("head" + "." * 26, RED)))
    assert sent(painted, line(*after)) == written


def test_another_style_is_a_change() -> None:
    painted = Painted()
    sent(painted, line(("head", RED)))
    assert "head" in sent(painted, line(("head", BLUE)))


def test_what_was_forgotten_is_sent_again() -> None:
    painted = Painted()
    first = sent(painted, line(("head", RED)))
    assert first == f"{RESET}\x1b[1;1H\x1b[31mhead", "nor is it known in what style the terminal writes"
    painted.forget()
    assert sent(painted, line(("head", RED))) == first


@pytest.mark.parametrize("text", [each for each in NASTY if each.isprintable() and each])
def test_lines_with_wide_characters_are_sent_whole(text: str) -> None:
    painted = Painted()
    before, after = line((f"a{text}aaaa", RED)), line((f"a{text}aaab", RED))
    whole, reduced = TerminalPicture(), TerminalPicture()
    whole.write(after.render_segments(CONSOLE))
    reduced.write(sent(painted, before))
    reduced.write(sent(painted, after))
    assert reduced.cells == whole.cells


def test_a_line_is_cut_where_another_widget_is_seen_and_nowhere_else() -> None:
    assert seams([(0, 22), (22, 80), (0, 80)], 80) == [0, 22, 80]
    assert seams([(0, 80), (0, 22), (22, 80)], 80) == [0, 80]
    assert seams([(10, 30), (0, 22), (22, 80)], 80) == [0, 10, 30, 80]
    assert seams([(5, 9)], 20) == [0, 5, 9, 20]
    assert seams([], 20) == [0, 20]
