"""The explorer's frame: layout, keys, focus. What is shown in it is the conductor's.

The frame is painted before NumPy is imported, and torch long after: what
needs them is made once the frame is on screen.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Input, Label, Static, Tree

from tui.actions import Actions
from tui.beside import begin
from tui.key_line import KeyLine
from tui.key_watch import AT_ANY_TIME, NOT_OVER, PATIENCE
from tui.messages import (
    Advanced,
    CellMoved,
    DistanceChanged,
    GainsFolded,
    GroupReady,
    HeadPicked,
    Noticed,
    PositionMoved,
    SentenceAdvanced,
    TokenPicked,
    TokenPointed,
    Told,
)
from tui.panes.line import Line
from tui.screens.prompt import Prompt
from tui.sentence_input import SentenceInput
from tui.start import Start
from tui.state.session import Session, Shown
from tui.status_line import describe
from tui.tree import HeadTree

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.heads import Head
    from engine.values.progress import Progress

WIDTHS = [(0, "-tiny"), (40, "-narrow"), (120, "-wide")]
HEIGHTS = [(0, "-flat"), (12, "-low"), (34, "-tall")]
"""From how many columns and rows on the screen has which class; the layout follows them."""


LAST_SECONDS = 3.0
"""How long the program may take to leave after a signal told it to."""


class Explorer(Actions):
    """The application.

    Parameters
    ----------
    engine : what answers.
    start : what was asked for.
    ascii_only : whether only ASCII characters are drawn.
    started : called once the first head is on screen.
    """

    CSS_PATH: ClassVar[list[str | PurePath]] = [Path(__file__).with_name(name) for name in ("app.tcss", "ansi.tcss")]
    TITLE = "attn-tui"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(
        self, engine: Engine, start: Start, *, ascii_only: bool = False, started: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self.started = started
        self.engine = engine
        engine.listen(self._pass_on)
        engine.watch(self._sentence_is)
        self.tree_widget = HeadTree(self._note)
        self.model_line = Line(classes="model-line")
        self.progress_line = Line(classes="progress-line")
        self.key_line = KeyLine()
        self.key_line.leaves_out = self.is_in_vain
        self.prompt = Prompt(lambda: self.keys_pressed)
        self.sentence_input = SentenceInput(ascii_only=ascii_only)
        self.name_keys()
        self.start = start
        self.ascii_only = ascii_only
        if ascii_only:
            self.draw_ascii_only()

    def compose(self) -> ComposeResult:
        """Lay out the frame, without the views."""
        with Horizontal(id="top"):
            yield self.model_line
            yield self.progress_line
        with Horizontal(id="body"), Vertical(id="side"):
            yield self.tree_widget.title_line
            yield self.tree_widget
        with Horizontal(id="sentence"):
            yield Label("sentence")
            yield self.sentence_input
        yield Static("attn-tui needs a terminal of 40 × 12", id="too-small", markup=False)
        yield self.key_line
        yield self.prompt

    def on_mount(self) -> None:
        """Go on once the first frame is painted."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGHUP):
            # Without this the process would end at once and leave the terminal in its other state.
            loop.add_signal_handler(name, self._hang_up, name)
        if self.start.model is not None:
            self.model_line.show(f"opening {self.start.model} …")
        if self.start.config is not None:
            self.take_keys(self.start.config)
        self.tree_widget.focus()
        self.call_after_refresh(self._begin)

    def watch_app_focus(self, is_looked_at: bool) -> None:
        """Have somebody get the focus where who had it has gone while another window was looked at."""
        if is_looked_at and self.is_ready:
            self.fill_focus()

    def choose_focus(self, chain: Sequence[Widget]) -> Widget | None:
        """Have the active view get the focus where nobody has it; while there are no views, the tree."""
        in_view = (each for each in chain if self.is_ready and self.views.active in each.ancestors)
        return next(in_view, self.tree_widget if self.tree_widget in chain else None)

    def _hang_up(self, name: signal.Signals) -> None:
        """Leave as ``q`` does, but with the status that a shell gives to an end by a signal.

        Where the terminal is gone and nothing can be drawn any more, all the same.
        """
        status = 128 + name
        self.engine.stop()
        self.keep_state()
        self.exit(return_code=status)
        last = threading.Timer(LAST_SECONDS, os._exit, (status,))
        last.daemon = True
        last.start()

    async def _begin(self) -> None:
        """Open the model that was named, or let one be chosen, and make the views meanwhile."""
        named = self.start.model
        opening = None if named is None else self.engine.open(named, self.report)
        await self.make_views(self.start)
        if self.start.config is not None:
            self.check_config(self.start.config)
        if self.start.is_restoring:
            begin(self, self.tell_what_is_not_kept, "state")
        if opening is not None and named is not None:
            self.conductor.open(opening)
            self.engine.remember(named)
            self.set_timer(PATIENCE, self.do_early_keys)
        else:
            self.forget_leaving()
            self.choose_model(is_first=True)
            self.do_kept_keys()

    async def make_views(self, start: Start) -> None:
        """Make the views, and what decides what they show of the model that is opened next."""
        from tui.conductor import Conductor
        from tui.views import Views

        self.session = self.tree_widget.session = Session(Shown(view=start.view))
        is_comparing = self.engine.is_comparing
        views = Views(self.session, ascii_only=self.ascii_only, is_comparing=is_comparing, log_scale=start.log_scale)
        await self.screen_stack[0].query_one("#body").mount(views)
        self._views = views
        self._conductor = Conductor(self, start)

    def report(self, progress: Progress) -> None:
        """Pass on how far a download is; called on the engine thread."""
        self.post_message(Advanced(progress))

    def _sentence_is(self, progress: Progress) -> None:
        """Pass on how far a sentence is; called on the engine thread."""
        self.post_message(SentenceAdvanced(progress))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys that need the views wait for them, and those that no widget sees leave other screens be."""
        if action in NOT_OVER:
            return self.is_ready and len(self.screen_stack) == 1
        return self.is_ready or action in AT_ANY_TIME

    def _note(self, head: Head) -> tuple[str, ...]:
        """Give what the tree says beside a head, the longest first."""
        weights = self.conductor.weights if self.is_ready else None
        return () if weights is None else weights.note(head)

    @on(Tree.NodeHighlighted)
    def _node_highlighted(self, event: Tree.NodeHighlighted[Head | None]) -> None:
        """Show what the tree's cursor is on."""
        if self.is_ready and self.tree_widget.is_on(event.node):  # else the cursor has moved on already
            self.conductor.select(event.node.data)

    @on(Tree.NodeSelected)
    def _node_selected(self, event: Tree.NodeSelected[Head | None]) -> None:
        """Open or close a layer on Enter; go from a head to its view, unless it is of a model that was put away."""
        head = event.node.data
        if event.node.allow_expand:
            event.node.toggle()
        elif self.is_ready and head is not None and self.conductor.has(head):
            self.conductor.overview.enter(head)

    @on(Told)
    def _told(self, event: Told) -> None:
        """Say why a key did nothing, or what it did out of sight."""
        self.key_line.say(event.said)

    @on(HeadPicked)
    def _head_picked(self, event: HeadPicked) -> None:
        """Show the head or layer of a row, unless it is of a model that has been put away."""
        if not self.is_ready or not self.conductor.has(event.name):
            return
        if event.is_jump and event.name == self.session.shown.selected:
            self.key_line.say(f"{event.name} is selected already")
        elif event.is_jump and self.conductor.ways is not None:
            self.conductor.ways.jump(event.name)
        else:
            self.conductor.go_to(event.name)

    @on(TokenPicked)
    def _token_picked(self, event: TokenPicked) -> None:
        """Show what the logit of another token is made of; switching heads off is of that token from then on too."""
        if self.is_ready:
            self.conductor.choose_token(event.number)

    @on(PositionMoved)
    def _position_moved(self, event: PositionMoved) -> None:
        """Predict at another token."""
        if self.is_ready:
            self.conductor.step_position(event.step)

    @on(GainsFolded)
    def _gains_folded(self) -> None:
        """Show directions with the gains of norms, or without."""
        if self.is_ready:
            self.conductor.fold_gains()

    @on(Input.Submitted, "SentenceInput")  # and not what is typed into a screen that has come over this one
    def _sentence_submitted(self, event: Input.Submitted) -> None:
        """Read the sentence and look at what is shown of it, its attention unless a table is looked at."""
        if self.is_ready:
            self.conductor.sentences.submit(event.value)
            self.conductor.read(event.value)
            self.views.go_to(self._view_of_sentences())

    @on(TokenPointed)
    def _token_pointed(self, event: TokenPointed) -> None:
        """Move the map's cursor to a token of the text."""
        if self.is_ready:
            self.conductor.coloured.point(event.query, event.key)

    @on(DistanceChanged)
    def _distance_changed(self, event: DistanceChanged) -> None:
        """Show QK at another distance."""
        if self.is_ready:
            self.conductor.step_distance(event.step)

    @on(CellMoved)
    def _cell_moved(self) -> None:
        """Explain another cell of the map, where one is explained."""
        if self.is_ready:
            self.conductor.look_at_cell()

    @on(Advanced)
    def _advanced(self, event: Advanced) -> None:
        """Show how far long work has come; nothing once it is done."""
        self._show_progress(event.progress)

    def _show_progress(self, progress: Progress) -> None:
        """Show how far something is, until it is done."""
        self.progress_line.show("" if progress.finished else describe(progress))

    @on(SentenceAdvanced)
    def _sentence_advanced(self, event: SentenceAdvanced) -> None:
        """Show how far the model is, being loaded or run, and say it where its map or its table is waited for."""
        self._show_progress(self.conductor.advance(event.progress) if self.is_ready else event.progress)

    @on(GroupReady)
    def _group_ready(self, event: GroupReady) -> None:
        """Keep what the sweep has found, unless that is of a model that has been put away."""
        if not self.is_ready or event.engine is not self.engine or self.conductor.weights is None:
            return
        self.conductor.weights.learn(event.layer, event.whole_layer, event.group)
        done = event.progress.finished and event.whole_layer
        self.progress_line.show("" if done else describe(event.progress))

    def _pass_on(self, notice: str) -> None:
        """Hand a notice to the event loop; called on the engine thread."""
        self.post_message(Noticed(notice))

    @on(Noticed)
    def _noticed(self, event: Noticed) -> None:
        """Say what goes another way than was asked for."""
        self.notify(event.notice, severity="warning")

    def show_model(self, line: Text) -> None:
        """Show the model's facts at the top."""
        self.model_line.show(line)
