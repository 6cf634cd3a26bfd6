"""The explorer: a tree of heads, three views, a sentence. It asks the engine and draws what comes back."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.widgets import Footer, Input, Label, Static, Tree

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from tui.chooser import ChooserScreen
from tui.conductor import Conductor, Start
from tui.help_screen import HelpScreen, describe_keys
from tui.messages import Advanced, GroupReady
from tui.panes.attention import AttentionPane
from tui.panes.pane import Line, Pane
from tui.panes.ranks import RanksPane
from tui.panes.spectra import SpectraPane
from tui.status_line import describe
from tui.tree import HeadTree

WIDTHS = [(0, "-tiny"), (40, "-narrow"), (120, "-wide")]
HEIGHTS = [(0, "-flat"), (12, "-low"), (34, "-tall")]
"""From how many columns and rows on the screen has which class; the layout follows them."""


class Explorer(App[None]):
    """The application's frame: layout, keys, focus. What is shown is the conductor's."""

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
        Binding("e", "export", "Export", id="app.export"),
        Binding("q", "quit", "Quit", id="app.quit"),
        Binding("ctrl+q,ctrl+c", "quit", "Quit", show=False, id="app.quit_too"),
        Binding("t,escape", "tree", "Back to the tree", show=False, id="app.tree"),
        Binding("tab", "app.focus_next", "Next view", show=False, id="app.next"),
        Binding("shift+tab", "app.focus_previous", "Previous view", show=False, id="app.previous"),
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
        Binding("a", "averaging", "Head, or means over heads and layers", show=False, id="app.averaging"),
    ]

    def __init__(self, engine: Engine, start: Start, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.animation_level = "none"
        self.engine = engine
        self.failure = ""
        self.conductor = Conductor(self, start)
        self.tree_widget = HeadTree(self.conductor.note)
        self.spectra_pane = SpectraPane(ascii_only=ascii_only)
        self.ranks_pane = RanksPane()
        self.attention_pane = AttentionPane(ascii_only=ascii_only)
        self.model_line = Line(classes="model-line")
        self.progress_line = Line(classes="progress-line")
        self.sentence_input = Input(placeholder="i: type a sentence, Enter reads it", compact=True, id="sentence-input")
        self.active: Pane = self.spectra_pane

    def compose(self) -> ComposeResult:
        """Lay out the frame."""
        with Horizontal(id="top"):
            yield self.model_line
            yield self.progress_line
        with Horizontal(id="body"):
            yield self.tree_widget
            with Container(id="views"):
                with Vertical(id="left"):
                    yield self.spectra_pane
                    yield self.ranks_pane
                yield self.attention_pane
        with Horizontal(id="sentence"):
            yield Label("sentence")
            yield self.sentence_input
        yield Static("attn-tui needs a terminal of 40 × 12", id="too-small", markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Open the model once the first frame is on its way."""
        self._restore_terminal_on_signals()
        self._activate(self.spectra_pane)
        self.tree_widget.focus()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Open the model that was named, or let one be chosen."""
        if self.conductor.start.model is None:
            self.push_screen(ChooserScreen(self.engine), self._chosen)
        else:
            self.conductor.open(self.conductor.start.model)

    def _chosen(self, model: str | None) -> None:
        """Open the model that was chosen, or leave."""
        if model is None:
            self.exit()
        else:
            self.conductor.open(model)

    def _restore_terminal_on_signals(self) -> None:
        """Leave in order when the process is told to end, so that the terminal is not left in its other state."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(name, self.exit)

    def fail(self, message: str) -> None:
        """Leave, and say why once the terminal is back."""
        self.failure = message
        self.exit(return_code=1)

    def _fatal_error(self) -> None:
        """Leave after an error that nobody foresaw; the traceback does not go over the person's terminal."""
        self._close_messages_no_wait()

    @property
    def unforeseen(self) -> Exception | None:
        """The error that ended the explorer, if nobody foresaw it."""
        return self._exception

    def _activate(self, pane: Pane) -> None:
        """Make a view the one that ``e`` exports, and the one that a narrow terminal shows."""
        self.active = pane
        for each in (self.spectra_pane, self.ranks_pane, self.attention_pane):
            each.set_class(each is pane, "-active")
        self.query_one("#left").set_class(pane is self.attention_pane, "-empty")

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Make the view with the focus the active one."""
        pane = next((each for each in event.widget.ancestors if isinstance(each, Pane)), None)
        if pane is not None and pane is not self.active:
            self._activate(pane)

    @on(Tree.NodeHighlighted)
    def _node_highlighted(self, event: Tree.NodeHighlighted[Head | None]) -> None:
        """Show what the tree's cursor is on."""
        self.conductor.select(event.node.data)

    @on(Tree.NodeSelected)
    def _node_selected(self, event: Tree.NodeSelected[Head | None]) -> None:
        """Open or close a layer on Enter; go from a head to its view."""
        if event.node.allow_expand:
            event.node.toggle()
        else:
            self.active.focus_view()

    @on(RanksPane.Picked)
    def _row_picked(self, event: RanksPane.Picked) -> None:
        """Show the head or layer of a row."""
        self.conductor.go_to(event.name)

    @on(Input.Submitted)
    def _sentence_submitted(self, event: Input.Submitted) -> None:
        """Read the sentence and look at its attention."""
        self.conductor.read(event.value)
        self.action_view("attention")

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

    def action_help(self) -> None:
        """Show the keys that work now."""
        self.push_screen(HelpScreen(describe_keys(self, self.screen.active_bindings.values())))

    def action_sentence(self) -> None:
        """Go to the sentence."""
        self.sentence_input.focus()

    def action_tree(self) -> None:
        """Go back to the tree."""
        self.tree_widget.focus()

    def action_view(self, view: str) -> None:
        """Go to a view."""
        pane = next(each for each in self.query(Pane) if each.view == view)
        self._activate(pane)
        pane.focus_view()

    def action_zoom(self) -> None:
        """Give the active view all the room, or share it again."""
        self.query_one("#views").toggle_class("-zoomed")

    def action_step_head(self, step: int) -> None:
        """Go to the next or previous head, from any view."""
        self.conductor.step_head(step)

    def action_step_layer(self, step: int) -> None:
        """Go to the next or previous layer, from any view."""
        self.conductor.step_layer(step)

    def action_scale(self) -> None:
        """Change the scale of the active view; the ranks have none, so theirs is the spectra's."""
        (self.attention_pane if self.active is self.attention_pane else self.spectra_pane).toggle_scale()

    def action_baseline(self) -> None:
        """Show or hide the baseline."""
        self.spectra_pane.graph.toggle_baseline()

    def action_measure(self, step: int) -> None:
        """Show another measure."""
        self.conductor.change_measure(step)

    def action_epsilon(self, step: int) -> None:
        """Change ε and measure again."""
        self.conductor.change_epsilon(step)

    def action_averaging(self) -> None:
        """Show the head's map, or a mean."""
        self.conductor.change_averaging()

    async def action_quit(self) -> None:
        """Leave at once, whatever is running."""
        self.engine.stop()
        self.exit()

    async def action_export(self) -> None:
        """Write the active view's table to a CSV file and say where it is."""
        try:
            path, rows = await self.conductor.export(self.active.view)
        except EngineError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.notify(f"{rows} rows in {path}", title=f"{self.active.view} written", markup=False)

    def show_model(self, line: Text) -> None:
        """Show the model's facts at the top."""
        self.model_line.show(line)
