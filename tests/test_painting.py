"""Of every update only what differs is sent, and the terminal shows the same picture as if all were."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Literal

import pytest
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

from tests.conftest import TinyModel
from tests.explorer import explorer, settle, until
from tests.monkey_hands import press, resize
from tests.painted import NASTY, TerminalPicture, good_terminal
from tui import whole_frames
from tui.frame import MainScreen
from tui.painting import Painted, Repaint
from tui.panes import overview
from tui.placing import seams
from tui.scrolling import Scroll, find_scroll
from tui.whole_frames import WholeFrames

CONSOLE = Console(color_system="truecolor", force_terminal=True, width=40)
RED, BLUE, GREY, UNDERLINED = map(Style.parse, ("red", "on blue", "#010203", "underline"))

STYLES = [
    "none", "red", "on blue", "#102030 on #405060", "bold white on #405060", "dim", "bold dim", "default on default",
    "reverse #102030", "underline2 on blue", "not bold italic", "strike on #405060", "#102030",
    "bright_red on bright_blue",
]  # fmt: skip
TEXTS = ["head", " ", "   ", "0.25", "██", "▁", "L0H1 ", "日", "é", "│", "e\u0301", "\U0001f44d"]


def line(*parts: tuple[str, Style]) -> ChopsUpdate:
    """Make an update of one line of a terminal that has one."""
    strip = Strip([Segment(text, style) for text, style in parts])
    return ChopsUpdate([{0: strip}], [(0, 0, strip.cell_length)], [[strip.cell_length]])


def sent(painted: Painted, update: ChopsUpdate) -> str:
    """Send an update and give what was written."""
    return Repaint(painted, update).render_segments(CONSOLE)


def test_what_is_there_already_is_not_sent_again() -> None:
    painted = Painted()
    assert "heads" in sent(painted, line(("heads", RED)))
    assert sent(painted, line(("he", RED), ("ads", RED))) == ""


def test_only_the_word_that_changed_is_sent() -> None:
    painted = Painted()
    sent(painted, line(("rank 12 of 64 │││││", RED)))
    assert sent(painted, line(("rank 13 of 64 ││ ││", RED))) == "\x1b[1;6H\x1b[31m13\x1b[9C \x1b[0m"


def test_what_is_set_already_is_not_said_again() -> None:
    painted = Painted()
    sent(painted, line(("head", RED), (" " * 20, BLUE), ("rank", RED)))
    written = sent(painted, line(("tail", RED), ("  ", BLUE + RED), (" " * 18, BLUE), ("norm", RED + UNDERLINED)))
    assert written == "\x1b[1;1H\x1b[31mtail\x1b[20C\x1b[4mnorm\x1b[0m"  # a blank shows no colour of letters


def test_what_ends_is_ended_by_itself() -> None:
    painted = Painted()
    after = line(("head", RED + BLUE + UNDERLINED), ("rank", RED + BLUE), ("norm", Style()))
    assert sent(painted, after) == "\x1b[1;1H\x1b[4;31;44mhead\x1b[24mrank\x1b[39;49mnorm"


def test_what_is_of_one_style_is_sent_together_where_that_is_shorter() -> None:
    painted = Painted()
    lines = [Strip([Segment("head", RED), Segment("rank", GREY)]) for _ in range(2)]
    written = sent(painted, ChopsUpdate([{0: each} for each in lines], [(0, 0, 8), (1, 0, 8)], [[8], [8]]))
    grey, red = "38;2;1;2;3", "31"
    assert written == (f"\x1b[1;1H\x1b[{red}mhead\x1b[2;1Hhead\x1b[{grey}mrank\x1b[1;5Hrank\x1b[0m")


@pytest.mark.parametrize("system", ["standard", "256", "truecolor"])
def test_changes_at_random_leave_the_picture_that_the_whole_makes(
    system: Literal["standard", "256", "truecolor"],
) -> None:
    console = Console(color_system=system, force_terminal=True, width=40)
    draw = Random(system)
    of_system = Style.from_meta({"system": system})  # a style keeps the codes that it was first written with
    styles = [Style.parse(each) + of_system for each in STYLES]
    painted, reduced = Painted(), TerminalPicture()
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
        reduced.write(Repaint(painted, update).render_segments(console))
        assert reduced.cells == whole.cells


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


def test_lines_are_not_moved_for_less_than_what_they_leave_free() -> None:
    draw = Random(0)
    screen = [[draw.choice("abcdefgh") for _ in range(60)] for _ in range(20)]
    copied = [*screen[:3], screen[4], *screen[4:]]
    assert find_scroll(screen, screen) is None
    assert find_scroll(screen, copied) is None, "the line that would be free is as it should be"
    beside = [[*new[:10], *old[10:]] for old, new in zip(screen, [*screen[2:], *screen[:2]], strict=True)]
    assert find_scroll(screen, beside) is None, "most of the cells stay where they are"
    assert find_scroll(screen, [*screen[:4], *screen[6:15], *copied[:2], *screen[15:]]) == Scroll(4, 14, 2)


def test_another_style_is_a_change() -> None:
    painted = Painted()
    sent(painted, line(("head", RED)))
    assert "head" in sent(painted, line(("head", BLUE)))


def test_what_was_forgotten_is_sent_again() -> None:
    painted = Painted()
    first = sent(painted, line(("head", RED)))
    painted.forget()
    assert sent(painted, line(("head", RED))) == first


@pytest.mark.parametrize("text", [each for each in NASTY if each.isprintable() and each])
def test_lines_with_wide_characters_are_sent_whole(text: str) -> None:
    painted = Painted()
    before, after = line((f"a{text}aaaa", RED)), line((f"a{text}aaab", RED))
    sent(painted, before)
    whole, reduced = TerminalPicture(), TerminalPicture()
    whole.write(after.render_segments(CONSOLE))
    reduced.write(before.render_segments(CONSOLE))
    reduced.write(sent(painted, after))
    assert reduced.cells == whole.cells


def test_a_line_is_cut_where_another_widget_is_seen_and_nowhere_else() -> None:
    assert seams([(0, 22), (22, 80), (0, 80)], 80) == [0, 22, 80]
    assert seams([(0, 80), (0, 22), (22, 80)], 80) == [0, 80]
    assert seams([(10, 30), (0, 22), (22, 80)], 80) == [0, 10, 30, 80]
    assert seams([(5, 9)], 20) == [0, 5, 9, 20]
    assert seams([], 20) == [0, 20]


class Shown(TerminalPicture):
    """What the explorer's output makes of a terminal."""

    async def until_painted(self, app: App[None], pilot: Pilot[None]) -> None:
        """Wait for what comes in from the engine meanwhile; a cell that is stale stays so until its own next update."""
        await settle(pilot)
        await until(pilot, lambda: not self.differs_from(app))

    def differs_from(self, app: App[None]) -> dict[tuple[int, int], object]:
        """Compare it, cell by cell, with the whole painted at once."""
        whole = TerminalPicture()
        whole.write(app.screen._compositor.render_full_update().render_segments(app.console))
        pairs = {cell: (whole.cells[cell], self.cells.get(cell)) for cell in whole.cells}
        return {cell: pair for cell, pair in pairs.items() if pair[0] != pair[1]}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Give the picture that the explorer's output makes."""
    good_terminal(monkeypatch)
    made = Shown()

    def display(app: App[None], screen: Screen[object], renderable: RenderableType | None) -> None:
        render_segments = getattr(renderable, "render_segments", None)
        if render_segments is not None:
            made.write(render_segments(app.console))

    monkeypatch.setattr(App, "_display", display)
    return made


TWICE = "the cat sat on the mat and the dog sat on the cat and then the cat and the dog sat on the mat again"

WALK = (
    *"wljms", "full_stop", *"1tjm3jas1lbzt2zj", "right_square_bracket", "right_curly_bracket", "minus",
    "question_mark", "escape", *"3zjTjlkTpl", "right_square_bracket", *"pCljhCAl", "right_curly_bracket", *"jAtGgix",
)  # fmt: skip
"""Keys that change everything there is to change."""


@pytest.mark.parametrize("size", [(80, 24), (154, 50)])
async def test_nothing_stale_is_left_on_the_screen(size: tuple[int, int], tiny_model: TinyModel, shown: Shown) -> None:
    async with explorer(tiny_model("llama"), size=size, text="the cat sat") as (app, pilot):
        app.sentence_input.cursor_blink = False  # else it may be about to, between the picture and the comparison
        for key in WALK:
            await pilot.press(key)
            await shown.until_painted(app, pilot)
            assert shown.differs_from(app) == {}, key
        shown.cells.clear()  # a terminal may lose what it showed when it is resized
        await pilot.resize_terminal(size[0] - 9, size[1] - 4)
        await shown.until_painted(app, pilot)
        assert shown.differs_from(app) == {}


async def test_where_the_focus_goes_the_whole_screen_is_not_painted_again(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    areas: list[int] = []

    def display(app: App[None], screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, Repaint):
            areas.append(sum(x2 - x1 for _, x1, x2 in getattr(renderable._update, "spans", ())))

    monkeypatch.setattr(App, "_display", display)
    async with explorer(tiny_model("llama"), head="L0H0", size=(154, 50)) as (_, pilot):
        areas.clear()
        await pilot.press("1")
        await until(pilot, lambda: bool(areas))
        await settle(pilot)
    assert 0 < sum(areas) < 154 * 50 / 2


class Link(Static):
    """A part that, once told, shows it, and tells the next."""

    class Told(Message):
        """It is told."""

    def __init__(self, after: Link | None = None) -> None:
        super().__init__("not told")
        self.after = after
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def on_link_told(self, event: Told) -> None:
        event.stop()
        await self.may_end.wait()
        self.update("told")
        if self.after is not None:
            self.after.post_message(self.Told())


class Links(App[None]):
    """Parts each of which tells the next."""

    def __init__(self) -> None:
        super().__init__()
        self.links = [Link()]
        while len(self.links) < 5:
            self.links.insert(0, Link(self.links[0]))

    def get_default_screen(self) -> Screen[object]:
        return WholeFrames(id="_default")

    def compose(self) -> ComposeResult:
        yield from self.links


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give what is sent, frame by frame, by applications that wait for all that is being handled."""
    good_terminal(monkeypatch)
    monkeypatch.setattr(whole_frames, "LONGEST", 60.0)
    made: list[str] = []

    def display(app: App[None], screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, Repaint | ChopsUpdate):
            made.append(renderable.render_segments(app.console))

    monkeypatch.setattr(App, "_display", display)
    return made


async def frames_after(app: App[None], frames: list[str], act: Callable[[], object]) -> list[str]:
    """Do something and give the frames that show it, the toolkit's own time between two of them being long over."""
    await asyncio.sleep(0.1)
    frames.clear()
    act()
    while not frames or any(part.message_queue_size for part in (app, *app._registry)):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    return [frame for frame in frames if frame]


async def test_what_goes_from_part_to_part_is_painted_at_once(frames: list[str]) -> None:
    app = Links()
    async with app.run_test():
        (frame,) = await frames_after(app, frames, lambda: app.links[0].post_message(Link.Told()))
        assert frame.count("told") == len(app.links)


async def test_a_part_that_comes_to_no_end_does_not_keep_the_others_from_being_painted(
    frames: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_frames, "LONGEST", 0.025)
    app = Links()
    async with app.run_test():
        stuck, free = app.links[0], app.links[-1]
        stuck.may_end.clear()
        for _ in range(3):
            stuck.post_message(Link.Told())
        frames.clear()
        free.post_message(Link.Told())
        while not any(frames):
            await asyncio.sleep(0.01)
        assert stuck.message_queue_size
        stuck.may_end.set()


@pytest.mark.parametrize(("size", "most"), [((80, 24), 420), ((154, 64), 510)])
async def test_a_key_that_moves_a_cursor_is_one_frame_of_few_bytes(
    size: tuple[int, int], most: int, frames: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "PAUSE", 60.0)  # seconds after which the head under the cursor is shown, too
    async with explorer("demo", size=size, text=TWICE, head="L0H0") as (app, pilot):
        for lead, keys in ((("1",), "lll"), (("3",), "jlj"), (("T", "g", "g"), "llllj"), (("w",), "ljl")):
            await pilot.press(*lead)
            await settle(pilot)
            for key in keys:
                sent = await frames_after(app, frames, partial(press, app, key))
                assert [len(frame.encode()) < most for frame in sent] == [True], (lead, key, sent)


async def test_ctrl_l_sends_the_whole_screen_again(tiny_model: TinyModel, shown: Shown) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        assert shown.differs_from(app) == {}
        shown.cells.clear()  # as if another program had written over it
        await pilot.press("ctrl+l")
        await shown.until_painted(app, pilot)
        assert shown.differs_from(app) == {}


async def test_another_size_lays_the_views_out_once_before_what_that_changes_is(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out: list[Size | None] = []
    refresh_layout = Screen._refresh_layout

    def counting(screen: Screen[object], size: Size | None = None, scroll: bool = False) -> None:
        if size is not None and isinstance(screen, MainScreen):
            laid_out.append(size)
        refresh_layout(screen, size, scroll)

    async with explorer(tiny_model("llama")) as (app, pilot):
        monkeypatch.setattr(Screen, "_refresh_layout", counting)
        await pilot.press("question_mark")
        await settle(pilot)
        assert laid_out == []
        await pilot.resize_terminal(120, 40)
        await settle(pilot)
        assert laid_out == [(120, 40)]
        assert app.tree_widget.region.height == 40 - 3  # without the lines of the model, the sentence and the keys


async def test_a_terminal_that_had_another_size_for_a_moment_gets_all_again(
    tiny_model: TinyModel, shown: Shown
) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        shown.cells.clear()  # as if it had wrapped its lines
        resize(app, 60, 20)
        resize(app, 80, 24)
        await shown.until_painted(app, pilot)
        assert shown.differs_from(app) == {}


async def test_a_wide_character_stays_whole_over_the_edge_of_what_is_behind(
    tiny_model: TinyModel, shown: Shown
) -> None:
    over = Static(markup=False)
    over.styles.layer, over.styles.dock, over.styles.height = "over", "bottom", 1
    over.styles.margin = 0, 0, 5, 0
    async with explorer(tiny_model("llama")) as (app, pilot):
        await app.screen.mount(over)
        for text in ("日" * 40, f"a{'日' * 39}b"):
            over.update(text)
            await shown.until_painted(app, pilot)
            assert shown.line(18) == text
            app.tree_widget.refresh()  # which is behind a part of it
            await shown.until_painted(app, pilot)
            assert shown.line(18) == text
