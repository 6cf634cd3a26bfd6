"""What changes together is painted in one frame, and only that is laid out and painted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import pytest
from rich.console import RenderableType
from textual._compositor import ChopsUpdate
from textual.app import App, ComposeResult
from textual.css.styles import RenderStyles
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import UPDATE_PERIOD, Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from tests.conftest import TinyModel
from tests.tui.explorer import LOOK, explorer, settle, until
from tests.tui.monkey_hands import press
from tests.tui.painted import good_terminal
from tui import whole_frames
from tui.frame import Frame
from tui.main_screen import MainScreen
from tui.painting import Repaint
from tui.panes import overview
from tui.panes.line import Line
from tui.whole_frames import WholeFrames
from tui.widgets.heatmap_canvas import HeatmapCanvas
from tui.widgets.spectrum_block import SpectrumBlock

TWICE = "the cat sat on the mat and the dog sat on the cat and then the cat and the dog sat on the mat again"


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


class Said(Frame):
    """The explorer's way of painting, and something said."""

    def get_default_screen(self) -> Screen[object]:
        return WholeFrames(id="_default")

    def compose(self) -> ComposeResult:
        yield Static("said")


class Typed(Said):
    """The same, and a line that is typed into."""

    AUTO_FOCUS = None

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield Input()


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
    await asyncio.sleep(2 * UPDATE_PERIOD)
    frames.clear()
    act()
    while not frames or any(part.message_queue_size for part in (app, *app._registry)):
        await asyncio.sleep(LOOK)
    await asyncio.sleep(2 * UPDATE_PERIOD)
    return [frame for frame in frames if frame]


async def test_what_goes_from_part_to_part_is_painted_at_once(frames: list[str]) -> None:
    app = Links()
    async with app.run_test():
        (frame,) = await frames_after(app, frames, lambda: app.links[0].post_message(Link.Told()))
        assert frame.count("told") == len(app.links)


async def test_what_other_programs_take_of_the_time_makes_no_second_frame(
    frames: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_frames, "LONGEST", 0.1)
    update = Link.update

    def interrupted(link: Link, text: str) -> None:
        time.sleep(0.05)
        update(link, text)

    monkeypatch.setattr(Link, "update", interrupted)
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


@pytest.mark.parametrize(("size", "most"), [((80, 24), 380), ((154, 64), 480), ((160, 50), 480)])
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


async def test_opening_a_layer_for_the_next_head_is_one_frame(frames: list[str]) -> None:
    async with explorer("demo", head="L0H7") as (app, pilot):
        await settle(pilot)
        assert not app.tree_widget.show_vertical_scrollbar
        assert len(await frames_after(app, frames, partial(app.conductor.step_head, 1))) == 1
        assert app.tree_widget.show_vertical_scrollbar


async def test_where_nothing_differs_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    sent: list[str] = []
    app = Said()
    async with app.run_test() as pilot:
        monkeypatch.setattr(App, "is_headless", False)
        monkeypatch.setattr(HeadlessDriver, "write", lambda driver, data: sent.append(data))
        said = app.query_one(Static)
        app.action_redraw()
        await pilot.pause(0.05)
        assert "said" in "".join(sent)
        sent.clear()
        said.refresh(layout=True)
        await pilot.pause(0.05)
        assert sent == []
        app.cursor_position = Offset(3, 0)  # as in a field, where it stands after what is typed
        said.refresh()
        await pilot.pause(0.05)
        assert sent == ["\x1b[1;4H"]


async def test_the_terminals_cursor_is_put_in_its_place_where_text_is_typed_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good_terminal(monkeypatch)
    sent: list[str] = []

    async def sent_after(pilot: Pilot[None], act: Callable[[], object]) -> str:
        sent.clear()
        act()
        await pilot.pause(0.05)
        return "".join(sent)

    app = Typed()
    async with app.run_test() as pilot:
        monkeypatch.setattr(App, "is_headless", False)
        monkeypatch.setattr(HeadlessDriver, "write", lambda driver, data: sent.append(data))
        said, field = app.query_one(Static), app.query_one(Input)
        field.cursor_blink = False
        at_left = "\x1b[1;1H"
        assert not (await sent_after(pilot, lambda: said.update("told"))).endswith(at_left)
        typed = await sent_after(pilot, field.focus)
        place = app.cursor_position
        assert place.y > 0
        assert typed.endswith(f"\x1b[{place.y + 1};{place.x + 1}H")
        assert (await sent_after(pilot, lambda: said.update("said"))).endswith(f"\x1b[{place.y + 1};{place.x + 1}H")
        await sent_after(pilot, lambda: app.set_focus(None))
        assert (await sent_after(pilot, lambda: said.update("told"))).endswith("told"), (
            "nor back to where text was typed"
        )
        assert (await sent_after(pilot, field.focus)).endswith(f"\x1b[{place.y + 1};{place.x + 1}H")


async def test_only_what_is_to_be_painted_is_painted_and_in_the_styles_that_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    painted: list[Widget] = []
    styled: list[Widget] = []
    render_lines, get_component_styles = Widget.render_lines, Widget.get_component_styles

    def rendering(widget: Widget, crop: Region) -> list[Strip]:
        painted.append(widget)
        return render_lines(widget, crop)

    def styling(widget: Widget, *names: str) -> RenderStyles:
        styled.append(widget)
        return get_component_styles(widget, *names)

    monkeypatch.setattr(Widget, "render_lines", rendering)
    monkeypatch.setattr(Widget, "get_component_styles", styling)
    async with explorer("demo", size=(154, 50), text=TWICE, head="L0H0") as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        painted.clear()
        styled.clear()
        await pilot.press("l")
        await settle(pilot)
        assert {type(each) for each in painted} == {SpectrumBlock, Line}
        for key in ("]", "["):
            painted.clear()
            styled.clear()
            await pilot.press(key)
            await settle(pilot)
        assert {SpectrumBlock, HeatmapCanvas} <= {type(each) for each in painted}
        assert not [each for each in styled if isinstance(each, SpectrumBlock | HeatmapCanvas)]
        app.use_theme("textual-light")
        await settle(pilot)
        assert {SpectrumBlock, HeatmapCanvas} <= {type(each) for each in styled}


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
        assert (
            app.tree_widget.region.height == 40 - 4
        )  # without the lines of the model, the measure, the sentence and the keys
