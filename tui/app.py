"""The explorer's frame: layout, keys, focus. What is shown in it is the conductor's.

The frame is painted before NumPy is imported, and torch long after: what
needs them is made once the frame is on screen.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Label, Static, Tree

from engine.values.errors import EngineError, Superseded
from engine.values.views import CIRCUITS, VIEWS
from tui.frame import Frame
from tui.key_line import KeyLine
from tui.messages import (
    Advanced,
    CellMoved,
    DistanceChanged,
    GroupReady,
    HeadPicked,
    HeadSwitched,
    Noticed,
    PositionMoved,
    TokenPicked,
)
from tui.panes.line import Line
from tui.sentence_input import SentenceInput
from tui.start import Start
from tui.status_line import describe
from tui.tree import HeadTree

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.heads import Head
    from engine.values.progress import Progress
    from tui.conductor import Conductor
    from tui.views import Views

WIDTHS = [(0, "-tiny"), (40, "-narrow"), (120, "-wide")]
HEIGHTS = [(0, "-flat"), (12, "-low"), (34, "-tall")]
"""From how many columns and rows on the screen has which class; the layout follows them."""


LAST_SECONDS = 3.0
"""How long the program may take to leave after a signal told it to."""


class Explorer(Frame):
    """The application.

    Parameters
    ----------
    engine : what answers.
    start : what was asked for.
    ascii_only : whether only ASCII characters are drawn.
    started : called once the first head is on screen.
    """

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "attn-tui"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Keys", id="app.help"),
        Binding("i", "sentence", "Sentence", id="app.sentence"),
        Binding("1", "view('spectra')", "Spectra", id="app.spectra"),
        Binding("2", "view('ranks')", "Ranks", id="app.ranks"),
        Binding("3", "view('attention')", "Attention", id="app.attention"),
        *(
            Binding(view.key, f"view('{view.name}')", view.title, show=view is CIRCUITS, id=f"app.{view.name}")
            for view in VIEWS.values()
            if view.key
        ),
        Binding("e", "export", "Export", id="app.export"),
        Binding("q", "quit", "Quit", id="app.quit"),
        Binding("ctrl+q,ctrl+c", "quit", "Quit", show=False, id="app.quit_too"),
        Binding("ctrl+l", "redraw", "Draw the screen again", show=False, id="app.redraw"),
        Binding("t", "tree", "Back to the tree", show=False, id="app.tree"),
        Binding("escape", "leave", "Stop switching heads off; or back to the tree", show=False, id="app.leave"),
        Binding("O", "all_on", "Switch all heads on again", show=False, id="app.all_on"),
        Binding("u", "off_way", "Switch heads off by zero, or by their mean", show=False, id="app.off_way"),
        Binding("z", "zoom", "One view, or all", show=False, id="app.zoom"),
        Binding("right_square_bracket", "step_head(1)", "Next head", show=False, id="app.next_head"),
        Binding("left_square_bracket", "step_head(-1)", "Previous head", show=False, id="app.previous_head"),
        Binding("right_curly_bracket", "step_layer(1)", "Next layer", show=False, id="app.next_layer"),
        Binding("left_curly_bracket", "step_layer(-1)", "Previous layer", show=False, id="app.previous_layer"),
        Binding("s", "scale", "Logarithmic or linear scale", show=False, id="app.scale"),
        Binding("b", "baseline", "Show or hide the baseline of chance", show=False, id="app.baseline"),
        Binding("m", "measure(1)", "Next measure", show=False, id="app.next_measure"),
        Binding("M", "measure(-1)", "Previous measure", show=False, id="app.previous_measure"),
        Binding("plus,equals_sign", "epsilon(1)", "Larger ε of the energy rank", show=False, id="app.more"),
        Binding("minus", "epsilon(-1)", "Smaller ε of the energy rank", show=False, id="app.less"),
        Binding("c", "check", "Check the heads against the model", show=False, id="app.check"),
        Binding("d", "distance", "QK at a distance of key and query, or without", show=False, id="app.distance"),
        Binding("shift+right", "turn(1)", "Δ one more", show=False, id="app.farther"),
        Binding("shift+left", "turn(-1)", "Δ one less", show=False, id="app.nearer"),
        Binding("a", "averaging", "Head, means over heads and layers, rollout", show=False, id="app.averaging"),
        Binding("D", "difference", "Differences from the other model's map", show=False, id="app.difference"),
    ]

    def __init__(
        self, engine: Engine, start: Start, *, ascii_only: bool = False, started: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self.started = started
        self.engine = engine
        engine.listen(self._pass_on)
        self.failure = ""
        self.tree_widget = HeadTree(self._note)
        self.model_line = Line(classes="model-line")
        self.progress_line = Line(classes="progress-line")
        self.sentence_input = SentenceInput(placeholder="i: type a sentence, Enter reads it", compact=True)
        self._start = start
        self._ascii_only = ascii_only
        self._views: Views | None = None
        self._conductor: Conductor | None = None

    @property
    def views(self) -> Views:
        """The views, once the first frame is painted."""
        assert self._views is not None, "the views are made after the first frame"
        return self._views

    @property
    def conductor(self) -> Conductor:
        """What decides what is shown, once the first frame is painted."""
        assert self._conductor is not None, "the conductor is made after the first frame"
        return self._conductor

    @property
    def is_ready(self) -> bool:
        """Whether the views are there."""
        return self._conductor is not None

    def compose(self) -> ComposeResult:
        """Lay out the frame, without the views."""
        with Horizontal(id="top"):
            yield self.model_line
            yield self.progress_line
        with Horizontal(id="body"):
            yield self.tree_widget
        with Horizontal(id="sentence"):
            yield Label("sentence")
            yield self.sentence_input
        yield Static("attn-tui needs a terminal of 40 × 12", id="too-small", markup=False)
        yield KeyLine()

    def on_mount(self) -> None:
        """Go on once the first frame is painted."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGHUP):
            # Without this the process would end at once and leave the terminal in its other state.
            loop.add_signal_handler(name, self._hang_up, name)
        if self._start.model is not None:
            self.model_line.show(f"opening {self._start.model} …")
        self.tree_widget.focus()
        self.call_after_refresh(self._begin)

    def _hang_up(self, name: signal.Signals) -> None:
        """Leave as ``q`` does; where the terminal is gone and nothing can be drawn any more, all the same."""
        self.engine.stop()
        self.exit()
        last = threading.Timer(LAST_SECONDS, os._exit, (128 + name,))
        last.daemon = True
        last.start()

    async def _begin(self) -> None:
        """Open the model that was named, or let one be chosen, and make the views meanwhile."""
        named = self._start.model
        opening = None if named is None else self.engine.open(named, self.report)
        from tui.conductor import Conductor
        from tui.views import Views

        views = Views(ascii_only=self._ascii_only)
        await self.query_one("#body").mount(views)
        self._views = views
        self._conductor = Conductor(self, self._start)
        if opening is not None:
            self._conductor.open(opening)
            return
        from tui.chooser import ChooserScreen

        self.screen.add_class("-choosing")
        await self.push_screen(ChooserScreen(self.engine), self._chosen)

    def _chosen(self, model: str | None) -> None:
        """Open the model that was chosen, or leave."""
        if model is None:
            self.exit()
        else:
            self.screen_stack[0].remove_class("-choosing")
            self.model_line.show(f"opening {model} …")
            self.conductor.open(self.engine.open(model, self.report))

    def report(self, progress: Progress) -> None:
        """Pass on how far a download is; called on the engine thread."""
        self.post_message(Advanced(progress))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys that need the views wait for them."""
        return self.is_ready or action in ("quit", "tree", "leave", "sentence", "help")

    def fail(self, message: str) -> None:
        """Leave, and say why once the terminal is back."""
        self.failure = message
        self.exit(return_code=1)

    def _note(self, head: Head) -> str:
        """Give what the tree says beside a head."""
        return self.conductor.note(head) if self.is_ready else ""

    @on(Tree.NodeHighlighted)
    def _node_highlighted(self, event: Tree.NodeHighlighted[Head | None]) -> None:
        """Show what the tree's cursor is on."""
        if self.is_ready and self.tree_widget.is_on(event.node):  # else the cursor has moved on already
            self.conductor.select(event.node.data)

    @on(Tree.NodeSelected)
    def _node_selected(self, event: Tree.NodeSelected[Head | None]) -> None:
        """Open or close a layer on Enter; go from a head to its view."""
        if event.node.allow_expand:
            event.node.toggle()
        elif self.is_ready:
            self.views.active.focus_view()

    @on(HeadPicked)
    def _head_picked(self, event: HeadPicked) -> None:
        """Show the head or layer of a row."""
        self.conductor.go_to(event.name)

    @on(HeadSwitched)
    def _head_switched(self, event: HeadSwitched) -> None:
        """Switch a head off or on."""
        if self.is_ready:
            self.conductor.switch(event.head)

    @on(TokenPicked)
    def _token_picked(self, event: TokenPicked) -> None:
        """Show what the logit of another token is made of; switching heads off is of that token from then on too."""
        self.conductor.choose_token(event.number)

    @on(PositionMoved)
    def _position_moved(self, event: PositionMoved) -> None:
        """Predict at another token."""
        self.conductor.step_position(event.step)

    @on(Input.Submitted)
    def _sentence_submitted(self, event: Input.Submitted) -> None:
        """Read the sentence and look at what is shown of it, its attention unless a table is looked at."""
        if self.is_ready:
            self.conductor.read(event.value)
            self.views.go_to(self._view_of_sentences())

    @on(DistanceChanged)
    def _distance_changed(self, event: DistanceChanged) -> None:
        """Show QK at another distance."""
        self.conductor.change_distance(event.step)

    @on(CellMoved)
    def _cell_moved(self) -> None:
        """Explain another cell of the map, where one is explained."""
        if self.is_ready:
            self.conductor.look_at_cell()

    @on(Advanced)
    def _advanced(self, event: Advanced) -> None:
        """Show how far long work has come; nothing once it is done."""
        self.progress_line.show("" if event.progress.finished else describe(event.progress))

    @on(GroupReady)
    def _group_ready(self, event: GroupReady) -> None:
        """Keep what the sweep has found."""
        self.conductor.learn(event.layer, event.whole_layer, event.group)
        done = event.progress.finished and event.whole_layer
        self.progress_line.show("" if done else describe(event.progress))

    def _pass_on(self, notice: str) -> None:
        """Hand a notice to the event loop; called on the engine thread."""
        self.post_message(Noticed(notice))

    @on(Noticed)
    def _noticed(self, event: Noticed) -> None:
        """Say what goes another way than was asked for."""
        self.notify(event.notice, severity="warning", markup=False)

    def action_help(self) -> None:
        """Show the keys that work now."""
        from tui.help_screen import HelpScreen, describe_keys

        self.clear_notifications()
        sections = describe_keys(self, self.screen.active_bindings.values())
        self.push_screen(HelpScreen(sections, self.conductor.marks))

    def action_check(self) -> None:
        """Prove the heads against the model's own numbers."""
        from tui.check_screen import CheckScreen

        self.push_screen(CheckScreen(self.engine))

    def action_sentence(self) -> None:
        """Go to the sentence."""
        self.sentence_input.focus()

    def _view_of_sentences(self) -> str:
        """Name the view that is looked at where it is of the sentence, else the attention."""
        active = self.views.active.view
        return active if active in VIEWS and "text" in VIEWS[active].needs else "attention"

    def action_read_sentence(self) -> None:
        """Leave the sentence for its map at once, and read it."""
        self.sentence_input.finish()
        if self.is_ready:
            self.views.go_to(self._view_of_sentences())
            if self.views.active is self.views.attention:
                self.screen.set_focus(self.views.attention.heatmap)

    def action_tree(self) -> None:
        """Go back to the tree."""
        self.tree_widget.focus()

    def action_leave(self) -> None:
        """Stop what is worked out head by head, or else go back to the tree."""
        if not (self.is_ready and self.conductor.stop()):
            self.action_tree()

    def action_all_on(self) -> None:
        """Switch all heads on again."""
        self.conductor.switch_on()

    def action_off_way(self) -> None:
        """Switch heads off by their mean, or by zero."""
        self.conductor.change_off()

    def action_view(self, view: str) -> None:
        """Go to a view."""
        self.conductor.look_at(view)

    def action_zoom(self) -> None:
        """Give the active view all the room, or share it again."""
        self.views.zoom()

    def action_step_head(self, step: int) -> None:
        """Go to the next or previous head, from any view."""
        self.conductor.step_head(step)

    def action_step_layer(self, step: int) -> None:
        """Go to the next or previous layer, from any view."""
        self.conductor.step_layer(step)

    def action_scale(self) -> None:
        """Change the scale of the active view."""
        self.views.toggle_scale()

    def action_baseline(self) -> None:
        """Show or hide the baseline."""
        self.views.spectra.graph.toggle_baseline()

    def action_measure(self, step: int) -> None:
        """Show another measure."""
        self.conductor.change_measure(step)

    def action_epsilon(self, step: int) -> None:
        """Change ε and measure again."""
        self.conductor.change_epsilon(step)

    def action_distance(self) -> None:
        """Show QK at a distance, or without positions."""
        self.conductor.toggle_distance()

    def action_turn(self, step: int) -> None:
        """Change the distance."""
        self.conductor.change_distance(step)

    def action_averaging(self) -> None:
        """Show the head's map, or a mean."""
        self.conductor.change_averaging()

    def action_difference(self) -> None:
        """Show what another model's map is different in, or the map again."""
        self.conductor.change_difference()

    async def action_quit(self) -> None:
        """Leave at once, whatever is running."""
        self.engine.stop()
        self.exit()

    def action_export(self) -> None:
        """Write the active view's table to a CSV file, which may take long, and say where it is."""
        self.clear_notifications()
        self.run_worker(self._export(self.views.active.view), group="export")

    async def _export(self, view: str) -> None:
        """Write a view's table to a CSV file and say where it is."""
        try:
            path, rows = await self.conductor.export(view)
        except Superseded:
            return
        except EngineError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.notify(f"{rows} rows in {path}", title=f"{view} written", markup=False)

    def show_model(self, line: Text) -> None:
        """Show the model's facts at the top."""
        self.model_line.show(line)
