"""The explorer: its frame, its keys, and what each of them does. What is shown is in the session.

The frame is painted before NumPy is imported, and torch long after: what
needs them is made once the frame is on screen.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.actions import ActionParseResult, parse
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.containers import Horizontal, Vertical
from textual.dom import DOMNode
from textual.widget import Widget
from textual.widgets import Input, Label, Static, Tree

from engine.store.files import write_log
from engine.values.errors import EngineError, Superseded
from engine.values.heads import parse_head
from engine.values.table import RANK_COLUMNS
from engine.values.views import HEADS, OVERVIEW, Scope
from engine.values.views import VIEWS as TABLES
from tui.app.look_actions import LookActions
from tui.app.suspending import SuspendActions
from tui.drawing.numbers import ways_to_say
from tui.screens.prompt import Prompt
from tui.sentence_input import SentenceInput
from tui.start import Start
from tui.state.overview_measures import next_measure
from tui.state.session import Averaging, Session, Shown
from tui.status_line import describe
from tui.toolkit.key_groups import (
    COMPARING,
    HEADS_OFF,
    MEASURING,
    MOVING,
    NOT_OVER,
    PROGRAM,
    SENTENCE,
    TAKING_AWAY,
    VIEWS,
)
from tui.toolkit.keys import key_of
from tui.toolkit.messages import (
    Advanced,
    CellMoved,
    ConditionWanted,
    DistanceChanged,
    GainsFolded,
    GroupReady,
    HeadEntered,
    HeadPicked,
    HeadSwitched,
    Noticed,
    PairRefused,
    PositionMoved,
    RoomChanged,
    SentenceAdvanced,
    TokenPicked,
    TokenPointed,
    Told,
)
from tui.toolkit.tasks import begin
from tui.tree import HeadTree
from tui.widgets.key_line import KeyLine
from tui.widgets.line import Line

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.heads import Head
    from engine.values.outline import ModelOutline
    from engine.values.progress import Progress
    from tui.app.conductor import Conductor
    from tui.app.restoring import Restoring
    from tui.export.clipboard import Copied
    from tui.export.files import Choice, ExportFiles
    from tui.screens.chooser import Opened
    from tui.sentences import Sentences
    from tui.views.pane import Pane
    from tui.views.switcher import Views

STEPS = ("step_head", "step_layer")
"""Actions that go on from a head to another one."""

TO_A_VIEW = ("maps", "compare", "difference", "text", "overview")
"""Actions that lead to a view of the head, or of its layer, whatever they are given."""

WIDTHS = [(0, "-tiny"), (40, "-narrow"), (120, "-wide")]
HEIGHTS = [(0, "-flat"), (12, "-low"), (34, "-tall")]
"""From how many columns and rows on the screen has which class; the layout follows them."""

PATIENCE = 0.5
"""Seconds for which keys wait for the model once the views are there; one that is downloaded takes longer."""

LAST_SECONDS = 3.0
"""How long the program may take to leave after a signal told it to."""


def _key(
    name: str,
    keys: str,
    action: str,
    description: str,
    group: Binding.Group,
    *,
    is_shown: bool = False,
    is_first: bool = False,
) -> Binding:
    """Bind keys to an action of the explorer: shown in the line of keys or not, before all widgets or after them."""
    return Binding(keys, action, description, show=is_shown, priority=is_first, id=f"app.{name}", group=group)


def _commands() -> type[Provider]:
    """Import the palette's commands when it is opened first."""
    from tui.screens.palette import Commands

    return Commands


def _clipboard_hint() -> str:
    """Say what stands between this program and the clipboard."""
    if os.environ.get("TMUX"):
        return "in tmux this takes: set -g set-clipboard on"
    return "GNU screen keeps it for itself; tmux passes it on" if os.environ.get("STY") else ""


class Explorer(LookActions, SuspendActions):
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
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands}

    BINDINGS: ClassVar[list[BindingType]] = [
        _key("help", "question_mark", "help", "Keys that work here", PROGRAM, is_shown=True),
        _key("sentence", "i", "sentence", "Type a sentence", SENTENCE, is_shown=True),
        _key("spectra", "1", "view('spectra')", "Spectra", VIEWS, is_shown=True),
        _key("ranks", "2", "view('ranks')", "Ranks", VIEWS, is_shown=True),
        _key("attention", "3", "view('attention')", "Attention", VIEWS, is_shown=True),
        *(_key(view.name, view.key, f"view('{view.name}')", view.title, VIEWS) for view in TABLES.values() if view.key),
        _key("quit", "q", "quit", "Quit", PROGRAM, is_shown=True),
        _key("quit_too", "ctrl+q,ctrl+c", "quit", "Quit", PROGRAM),
        _key("redraw", "ctrl+l", "redraw", "Draw the screen again", PROGRAM, is_first=True),
        _key("next_view", "tab", "focus_next", "Next view", MOVING),
        _key("previous_view", "shift+tab", "focus_previous", "Previous view", MOVING),
        _key("tree", "t", "tree", "Back to the tree", MOVING),
        _key("leave", "escape", "leave", "Stop what runs, or back to the tree", MOVING),
        _key("switch", "o", "switch", "Switch the head off, or on again", HEADS_OFF),
        _key("all_on", "O", "all_on", "Switch all heads on again", HEADS_OFF),
        _key("off_way", "u", "off_way", "Switch heads off by zero, or by the mean", HEADS_OFF),
        _key("zoom", "z", "zoom", "Zoom: one view, or all", VIEWS),
        _key("next_head", "right_square_bracket", "step_head(1)", "Next head", MOVING),
        _key("previous_head", "left_square_bracket", "step_head(-1)", "Previous head", MOVING),
        _key("next_layer", "right_curly_bracket", "step_layer(1)", "Next layer", MOVING),
        _key("previous_layer", "left_curly_bracket", "step_layer(-1)", "Previous layer", MOVING),
        _key("scale", "s", "scale", "Logarithmic or linear scale", MEASURING),
        _key("baseline", "b", "baseline", "Show or hide the baseline of chance", MEASURING),
        _key("next_measure", "m", "measure(1)", "Next measure", MEASURING),
        _key("previous_measure", "M", "measure(-1)", "Previous measure", MEASURING),
        _key("more", "plus,equals_sign", "epsilon(1)", "Larger ε of the energy rank", MEASURING),
        _key("less", "minus", "epsilon(-1)", "Smaller ε of the energy rank", MEASURING),
        _key("check", "c", "check", "Check: prove the heads against the model's numbers", VIEWS),
        _key("distance", "d", "distance", "QK at a distance of key and query, or without", MEASURING),
        _key("farther", "shift+right", "turn(1)", "Δ one more", MEASURING),
        _key("nearer", "shift+left", "turn(-1)", "Δ one less", MEASURING),
        _key("averaging", "a", "averaging", "Head, mean over heads, over layers, over both, rollout", SENTENCE),
        _key("difference", "D", "difference", "Difference of both maps: other model, or heads off", SENTENCE),
        _key("models", "B", "models", "Open another model", PROGRAM),
        _key("copy_cell", "y", "copy_cell", "Copy the cell under the cursor", TAKING_AWAY),
        _key("copy_row", "Y", "copy_row", "Copy the row", TAKING_AWAY),
        _key("copy_view", "ctrl+y", "copy_view", "Copy the whole view, tab separated", TAKING_AWAY),
        _key("export", "e", "export", "Export: take away tables, matrices, pictures", TAKING_AWAY, is_shown=True),
        _key("overview", "w", "overview", "All heads: overview or table; again: the other", VIEWS),
        _key("pin", "P", "pin", "Pin the head to compare it, or unpin it", COMPARING),
        _key("compare", "C", "compare", "Compare pinned heads: spectra, maps, difference", COMPARING),
        _key("maps", "A", "maps", "Layer maps: all heads of the layer", COMPARING),
        _key("sentences", "S", "sentences", "Earlier sentences", SENTENCE),
        _key("text", "T", "text", "The sentence as coloured text", SENTENCE),
        _key("jump", "g,colon", "jump", "Go to a head, a layer or a view, or do what is named", MOVING, is_first=True),
        _key("search", "slash", "search", "Search in the tree", MOVING),
        _key("next_match", "n", "match(1)", "Next match", MOVING),
        _key("previous_match", "N", "match(-1)", "Previous match", MOVING),
        _key("back", "H,backspace,ctrl+o,alt+left", "visited(-1)", "Back to where you were", MOVING),
        _key("forward", "L,alt+right", "visited(1)", "Forward again", MOVING),
        _key("palette", "ctrl+p", "command_palette", "Every command, by name", PROGRAM, is_first=True),
    ]

    def __init__(
        self, engine: Engine, start: Start, *, ascii_only: bool = False, started: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._started = started
        self.engine = engine
        engine.listener = self._pass_on
        engine.watcher = self._sentence_is
        self.tree_widget = HeadTree(self._note)
        self.model_line = Line(classes="model-line")
        self.progress_line = Line(classes="progress-line")
        self.key_line = KeyLine()
        self.key_line.leaves_out = self.is_in_vain
        self.prompt = Prompt()
        self.sentence_input = SentenceInput()
        self.name_keys()
        self.start = start
        self.sentences: Sentences | None = None
        self._clipboard_hint = _clipboard_hint()
        self._conductor: Conductor | None = None
        self._awaits_model = False
        self._restoring: Restoring | None = None
        self._exporting: ExportFiles | None = None
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
            self._awaits_model = True
            self._first_look.open(opening, self.start.head)
            self.engine.remember(named)
            self.set_timer(PATIENCE, self._do_keys_for_model)
        else:
            self.choose_model(is_first=True)
            self.do_held_keys()

    async def make_views(self, start: Start) -> None:
        """Make the views, and what decides what they show of the model that is opened next."""
        from tui.app.conductor import Conductor
        from tui.app.first_look import FirstLook
        from tui.app.restoring import Restoring
        from tui.export.files import ExportFiles
        from tui.sentences import Sentences
        from tui.views.switcher import Views

        self.session = self.tree_widget.session = Session(Shown(view=start.view))
        is_comparing = self.engine.is_comparing
        views = Views(self.session, is_comparing=is_comparing, log_scale=start.log_scale)
        await self.screen_stack[0].query_one("#body").mount(views)
        self._views = views
        # They are of the person, and stay when another model is opened.
        self.sentences = self.sentences or Sentences(self, keeps=start.keeps_history)
        self._conductor = Conductor(self, self.sentences)
        self._restoring = Restoring(self, self._conductor, start)
        self._exporting = ExportFiles(self, self._conductor)
        self._first_look = FirstLook(
            self,
            self._conductor,
            self._restoring,
            self._exporting,
            opened=self._do_keys_for_model,
            started=self._tell_started,
        )
        self.is_ready = True

    @property
    def holds_keys(self) -> bool:
        """Whether keys wait for the views, or for the model that is about to be there."""
        return not self.is_ready or self._awaits_model

    def _do_keys_for_model(self) -> None:
        """Do the keys that waited for the model."""
        self._awaits_model = False
        self.do_held_keys()

    def _tell_started(self) -> None:
        """Tell that the first head of the first model is on screen."""
        started, self._started = self._started, lambda: None
        started()

    @property
    def conductor(self) -> Conductor:
        """What decides what is shown, once the first frame is painted."""
        assert self._conductor is not None, "the conductor is made after the first frame"
        return self._conductor

    @property
    def exporting(self) -> ExportFiles:
        """What writes files, once the first frame is painted."""
        assert self._exporting is not None, "files are written after the first frame"
        return self._exporting

    @property
    def is_idle(self) -> bool:
        """Whether a model is open and nothing more is awaited from the engine."""
        is_answered = self.is_ready and self._first_look.is_swept and self.views.is_drawn
        return is_answered and all(worker.is_finished for worker in self.workers)

    def on_unmount(self) -> None:
        """Keep no thread beyond the screens: it would keep the explorer, and with it the model."""
        if self.sentences is not None:
            self.sentences.close()

    def keep_state(self) -> None:
        """Keep what is looked at for the next start, if that is wanted."""
        if self._restoring is not None and self.is_ready:
            self._restoring.finish()
        if self.sentences is not None:
            self.sentences.keep_draft()

    def _sentence_is(self, progress: Progress) -> None:
        """Pass on how far a sentence is; called on the engine thread."""
        self.post_message(SentenceAdvanced(progress))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys that no widget sees leave other screens be."""
        return action not in NOT_OVER or len(self.screen_stack) == 1

    def _note(self, head: Head) -> tuple[str, ...]:
        """Give what the tree says beside a head, the longest first."""
        stores, shown = self.views.stores if self.is_ready else None, self.session.shown
        if stores is None:
            return ()
        rows = stores.spectra.measures([head], shown.epsilon).get(head, {})
        place = RANK_COLUMNS.index(shown.measure)
        values = (rows[matrix][place] for matrix in ("QK", "OV") if matrix in rows)
        numbers = [value for value in values if not isinstance(value, str)]
        return ways_to_say(numbers, stores.labels.short(head))

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
            self.conductor.enter(head)

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
        elif event.is_jump and self.ways is not None:
            self.ways.jump(event.name)
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
            self.conductor.step_position(event.step, event.here)

    @on(GainsFolded)
    def _gains_folded(self) -> None:
        """Show directions with the gains of norms, or without."""
        if self.is_ready:
            self.conductor.fold_gains()

    @on(TokenPointed)
    def _token_pointed(self, event: TokenPointed) -> None:
        """Move the map's cursor to a token of the text."""
        if self.is_ready:
            self.conductor.point(event.query, event.key)

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
        if not self.is_ready or event.engine is not self.engine or self.views.stores is None:
            return
        self.views.stores.spectra.put(event.layer, event.whole_layer, event.group)
        done = event.progress.finished and event.whole_layer
        self.progress_line.show("" if done else describe(event.progress))

    def _pass_on(self, notice: str) -> None:
        """Hand a notice to the event loop; called on the engine thread."""
        self.post_message(Noticed(notice))

    @on(Noticed)
    def _noticed(self, event: Noticed) -> None:
        """Say what goes another way than was asked for."""
        self.notify(event.notice, severity="warning")

    def action_help(self) -> None:
        """Show the keys that work now; one of two models does where there are two."""
        from tui.screens.help_screen import HelpScreen, describe_keys

        self.clear_notifications()
        of_two = {f"view('{view.name}')" for view in TABLES.values() if "vs" in view.needs}
        left_out = frozenset() if self.engine.is_comparing else of_two
        active = (each for each in self.screen.active_bindings.values() if each.binding.action not in left_out)
        sections = describe_keys(self, active)
        marks = self.conductor.marks if self.is_ready else ()  # while another model takes the place of the present one
        self.push_screen(HelpScreen(sections, marks, self.misconfigured))

    def action_check(self) -> None:
        """Prove the heads against the model's own numbers."""
        from tui.screens.check_screen import CheckScreen

        self.push_screen(CheckScreen(self.engine))

    def action_sentence(self) -> None:
        """Go to the sentence, at once: what is typed next takes its place, unless a key for the cursor comes first."""
        self.sentence_input.begin()
        self.screen.set_focus(self.sentence_input)

    def _view_of_sentences(self) -> str:
        """Name the view that is looked at where it is of the sentence, or can be; else the attention."""
        pane, active = self.views.active, self.views.active.view
        is_of_sentence = pane.is_of_sentence or (active in TABLES and "text" in TABLES[active].options)
        return active if is_of_sentence else "attention"

    def action_read_sentence(self) -> None:
        """Leave the sentence for its map at once, and read it."""
        self.read_sentence(self.sentence_input.value)
        if self.views.active is self.views.attention:
            self.screen.set_focus(self.views.attention.heatmap)

    def read_sentence(self, text: str) -> None:
        """Read a sentence and look at what is shown of it, its attention unless a table is looked at."""
        self.sentence_input.finish(text)
        self.conductor.sentences.submit(text)
        self.conductor.read(text)
        self.views.go_to(self._view_of_sentences())

    def action_tree(self) -> None:
        """Go back to the tree, and show it where the active view had its room."""
        if self.is_ready and not self.tree_widget.display:
            self.views.zoom()
        self.screen.set_focus(self.tree_widget)

    def action_leave(self) -> None:
        """Stop what is worked out and waited for, or a file; else go a step back in the view, or to the tree."""
        if self._stop():
            return
        focused = self.screen.focused
        is_in_view = self.is_ready and focused is not None and self.views.active in focused.ancestors
        if not (is_in_view and self.views.active.step_back()):
            self.action_tree()

    def _stop(self) -> bool:
        """Stop a table that is worked out and waited for, or a file that is written; False where there is none."""
        return self.is_ready and (self.conductor.stop() or self.exporting.stop())

    def action_switch(self) -> None:
        """Switch the selected head off, or on again."""
        if self.conductor.is_open and (refusal := self.conductor.off.switch(self.session.shown.selected)):
            self.notify(refusal)

    @on(HeadSwitched)
    def _switch_row(self, event: HeadSwitched) -> None:
        """Switch a row's head off, or on again, and say what is off: the tree, which shows it, may have no room."""
        if self.is_ready and self.conductor.has(event.name):
            off = self.conductor.off
            self.key_line.say(off.switch(event.name) or off.said)

    def action_all_on(self) -> None:
        """Switch all heads on again."""
        self.key_line.say(self.conductor.off.switch_on())

    def action_off_way(self) -> None:
        """Switch heads off by their mean, or by zero."""
        self.key_line.say(self.conductor.off.change_way())

    def action_view(self, view: str) -> None:
        """Go to a view."""
        self.conductor.look_at(view)

    def action_stop_or_view(self, view: str) -> None:
        """Stop what is worked out, or else go to a view."""
        if not self._stop():
            self.action_view(view)

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
        """Change the scale of the active view; say where none is in view."""
        if not self.views.toggle_scale():
            self.key_line.say("nothing in view has a scale; spectra and maps of a head or a layer have one")

    def action_baseline(self) -> None:
        """Show or hide the baseline; say where there is none in view."""
        if not self.views.toggle_baseline():
            if self.views.active is self.views.spectra:
                self.key_line.say("only the spectra of a head or a layer have a line of chance")
            else:
                self.key_line.say(f"spectra alone have a line of chance: {key_of(self, 'app.spectra')} shows them")

    def action_measure(self, step: int) -> None:
        """Show another measure."""
        self.session.change(**next_measure(self.session.shown, step))

    def action_epsilon(self, step: int) -> None:
        """Change ε and measure again; say so where it goes no farther."""
        self.key_line.say(self.conductor.change_epsilon(step))

    def is_in_vain(self, name: str) -> bool:
        """Say of a binding, by its id, whether it could now only say why it does nothing, or does something else."""
        if not self.is_ready:
            return False
        outline, ways, table = self.conductor.outline, self.ways, self.views.table
        if name == "app.scale":
            return self.views.scaled is None
        if name == "table.all_rows":
            stores = self.conductor.stores
            return stores is not None and stores.tables.stoppable is not None  # which is what the key stops
        if name == "table.switch":
            return table is not None and table.is_on_row_of_no_head
        refuses_distance = name == "app.distance" and outline is not None and bool(outline.no_rotation)
        if name == "table.fold" and outline is not None:
            return not (outline.has_known_norms or self.session.shown.folds)  # what is folded can be left out again
        return refuses_distance or (name == "app.back" and (ways is None or not ways.has_before))

    def action_distance(self) -> None:
        """Show QK at a distance, or without positions."""
        self.conductor.toggle_distance()

    def action_turn(self, step: int) -> None:
        """Change the distance."""
        self.conductor.step_distance(step)

    def action_averaging(self) -> None:
        """Show the head's map, or a mean; say which where no map is in view."""
        if self.views.active.view == "compare":
            self.key_line.say(f"heads are compared one by one; means are of the map, {key_of(self, 'app.attention')}")
            return
        said = self.conductor.change_averaging()
        if not (self.views.attention.display or self.views.active.view == "text"):
            self.key_line.say(f"{said}: {key_of(self, 'app.attention')} shows the map")

    def action_difference(self) -> None:
        """Show what another model's map is different in, or the map again."""
        self.conductor.change_difference()

    async def action_quit(self) -> None:
        """Leave at once, whatever is running."""
        self.engine.stop()
        self.keep_state()
        self.exit()

    def action_models(self) -> None:
        """Let another model be chosen, over the present one."""
        if self.conductor.is_open:
            self.choose_model(is_first=False)

    def choose_model(self, *, is_first: bool, trouble: str = "", named: str = "") -> None:
        """Show the opening screen, with what was wrong before; what is chosen there, or named, is opened there, too."""
        from tui.screens.chooser import ChooserScreen

        self.clear_notifications()
        self.push_screen(ChooserScreen(self.engine, is_first=is_first, trouble=trouble, named=named), self._chosen)

    def action_open_named(self, named: str) -> None:
        """Open another model by its name."""
        self.choose_model(is_first=False, named=named)

    @on(PairRefused)
    def _pair_refused(self, event: PairRefused) -> None:
        """Leave where both models were named; where the first was chosen here, let another one be chosen."""
        if self.start.model is not None:
            self.fail(event.why)
        else:
            begin(self, partial(self._choose_again, event.why), "change model", is_alone=False)

    async def _choose_again(self, why: str) -> None:
        """Put the model away that was chosen, and go back to where it was."""
        await self._put_away(self.start)
        self.tree_widget.clear()
        self.tree_widget.title_line.name_measure("")
        self.model_line.show("")
        self.choose_model(is_first=True, trouble=why)
        self._do_keys_for_model()

    def _chosen(self, opened: Opened | None) -> None:
        """Put the model that was opened in the place of the present one; without one, leave where there is none."""
        if opened is not None:
            begin(self, partial(self._change_to, opened), "change model", is_alone=False)
        elif not self.conductor.is_open:
            self.exit()

    async def _change_to(self, opened: Opened) -> None:
        """Put the present model away, and begin with another."""
        start = self._start_with(opened)
        view = self.views.active.view
        is_in_tree = self.screen_stack[0].focused is self.tree_widget
        await self._put_away(start, opened.engine)
        opening: Future[ModelOutline] = Future()
        opening.set_result(opened.outline)
        self._awaits_model = True
        self._first_look.open(opening, start.head)
        self._return_to(view, self.views, is_in_tree)
        self.fill_focus()
        self.refresh_bindings()
        await self._remember(opened)

    async def _put_away(self, start: Start, engine: Engine | None = None) -> None:
        """Put the present model away with everything that shows it; another engine may take the place of its own.

        Views and what decides about them are made anew, so that nothing of the old model can be left in them.
        """
        while len(self.screen_stack) > 1:
            self.pop_screen()  # a box is about the old model, whose views would be painted beneath it
        if self._restoring is not None:
            self._restoring.close()
        self.conductor.close()
        self.is_ready = False  # keys that need the views wait for the new ones
        self.ways = None
        self.engine.close()
        self.engine = engine or self.engine
        self.prompt.close()
        self.screen_stack[0].set_focus(self.tree_widget)
        self.sentence_input.show_read("", None)
        is_zoomed = self.views.has_class("-zoomed")
        with self.batch_update():
            await self.views.remove()
            await self.make_views(start)
        self.views.set_class(is_zoomed, "-zoomed")  # as the screen is

    def _return_to(self, view: str, views: Views, is_in_tree: bool) -> None:
        """Look at the view that was looked at before, where the model has it."""
        pane = next((each for each in views.panes if each.view == view), None)
        needs_two = view in TABLES and "vs" in TABLES[view].needs and not self.engine.is_comparing
        if pane is not None and is_in_tree:
            self.session.change(view=view)
        elif pane is not None or (view in TABLES and not needs_two):
            self.conductor.show_view(view)

    async def _remember(self, opened: Opened) -> None:
        """Have the model listed among those that were opened before."""
        try:
            await asyncio.wrap_future(opened.engine.remember(opened.name))
        except EngineError:
            return  # the list is a convenience

    def _start_with(self, opened: Opened) -> Start:
        """Say how to begin: as the command line asked where it named no model, else with the present sentence."""
        if self.conductor.is_open:
            present = self.conductor
            return replace(
                self.start,
                model=opened.name,
                text=present.text,
                head=None,
                epsilon=None,
                epsilon_before=self.session.shown.epsilon,
            )
        start = replace(self.start, model=opened.name)
        if start.head is None:
            return start
        try:
            opened.outline.layer(parse_head(start.head, opened.outline.stacks))
        except EngineError as error:
            self.notify(str(error), severity="warning")
            return replace(start, head=None)
        return start

    def action_copy_cell(self) -> None:
        """Copy the cell under the active view's cursor."""
        from tui.export.clipboard import copied_cell

        self._copy(copied_cell)

    def action_copy_row(self) -> None:
        """Copy the row under the active view's cursor."""
        from tui.export.clipboard import copied_row

        self._copy(copied_row)

    def action_copy_view(self) -> None:
        """Copy the table that the active view draws."""
        from tui.export.clipboard import copied_view

        self._copy(copied_view)

    def _copy(self, find: Callable[[Pane, Conductor], Awaitable[Copied]]) -> None:
        """Copy what may have to be waited for."""
        self.clear_notifications()
        begin(self, partial(self._send, find), "copy")

    async def _send(self, find: Callable[[Pane, Conductor], Awaitable[Copied]]) -> None:
        """Hand text to the terminal, and say what; whether the terminal took it nobody can know."""
        try:
            copied = await find(self.views.active, self.conductor)
        except Superseded:
            return
        except EngineError as error:
            self.notify(str(error), severity="error")
            return
        self.copy_to_clipboard(copied.text)
        hint, self._clipboard_hint = self._clipboard_hint, ""
        self.notify("\n".join(filter(None, (copied.says, copied.beginning, hint))), title="copied")

    async def action_export(self, name: str = "") -> None:
        """Offer what can be written, or write it under a name; keys that come at once wait for it."""
        from tui.screens.export_screen import ExportScreen

        self.clear_notifications()
        await self.push_screen(ExportScreen(self.exporting, name), self._export_chosen)

    def _export_chosen(self, chosen: tuple[Choice, Path, bool] | None) -> None:
        """Write what was chosen."""
        if chosen is not None:
            begin(self, partial(self._export, *chosen), "export", is_alone=False)

    async def _export(self, choice: Choice, path: Path, may_replace: bool) -> None:
        """Write a file and say what is in it and where it is."""
        says = self.exporting.says(choice.what)
        try:
            written = await self.exporting.write(choice, path, may_replace=may_replace)
        except Superseded:
            self.notify("nothing of the file is left", title="stopped")
        except EngineError as error:
            self.notify(str(error), severity="error")
        except Exception as error:  # a file that could not be made is no reason to lose what is on screen
            self.notify(write_log(error), severity="error")
        else:
            self.notify(written, title=f"{says}: written")

    def action_overview(self) -> None:
        """Go to the map of all heads, or their table if that was looked at last; from each to the other."""
        self.conductor.look_at(OVERVIEW)

    @on(ConditionWanted)
    def _condition_wanted(self, event: ConditionWanted) -> None:
        """Show the heads of which a condition is true, in their table."""
        from tui.views.rows import RowsPane  # for which the first frame does not wait

        if self.is_ready:
            self.conductor.show_view(HEADS.name)
            if isinstance(self.views.active, RowsPane):
                self.views.active.call_after_refresh(self.views.active.filter_by, event.text)

    @on(HeadEntered)
    def _head_entered(self, event: HeadEntered) -> None:
        """Go into a head, from a place that counts as visited, unless it is of a model that has been put away."""
        if not self.is_ready or not self.conductor.has(event.head):
            return
        if self.ways is not None:
            self.ways.leave()
        self.conductor.enter(event.head)

    @on(RoomChanged)
    def _room_changed(self) -> None:
        """Draw several heads with the detail that there is room for now."""
        if self.is_ready:
            self.views.draw_soon()

    def action_pin(self) -> None:
        """Pin the selected head, or unpin it."""
        if self.conductor.is_open:
            self.conductor.pin()

    def action_compare(self) -> None:
        """Show the pinned heads beside each other, or the next thing of them."""
        if self.conductor.is_open:
            self.conductor.compare()

    def action_maps(self) -> None:
        """Show all heads of the selected layer as small maps."""
        if self.conductor.is_open:
            self.views.go_to("maps")

    def action_open_map(self, view: str) -> None:
        """Show the selected head's map in large, from where escape leads back to the view that it was opened from."""
        self.views.attention.opened_from = view
        self.session.change(averaging=Averaging.NOTHING)
        self.conductor.look_at(self.views.attention.view)

    """The view of which it was said last that its rows lead to no head, and the head that stayed selected."""

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key does; one about a head that works anywhere is of the head under a map's or table's cursor."""
        if default_namespace is self and self.is_ready:
            if (head := self.views.overview.settle()) is not None:
                self.conductor.go_to(head)
            _, name, parameters = parse(action) if isinstance(action, str) else action
            view = str(parameters[0]) if name == "view" else ""
            is_of_head = name == "view" and (view not in TABLES or TABLES[view].scope is not Scope.MODEL)
            if name in STEPS or name in TO_A_VIEW or is_of_head:
                self.conductor.take_row(is_step=name in STEPS, view=view)
        return await super().run_action(action, default_namespace, namespaces)

    def action_sentences(self) -> None:
        """List the sentences; the one that is chosen is shown at once."""
        self._list_sentences(is_finding=False)

    def action_find_sentence(self) -> None:
        """Find an earlier sentence by its words; the one that is chosen is read at once."""
        self._list_sentences(is_finding=True)

    def _list_sentences(self, *, is_finding: bool) -> None:
        """Show the list."""
        from tui.screens.sentences_screen import SentencesScreen

        def take(text: str | None) -> None:
            if text is not None:
                self.read_sentence(text)

        screen = SentencesScreen(self.conductor.sentences, is_finding=is_finding)
        self.push_screen(screen, take)

    def action_text(self) -> None:
        """Show the sentence as coloured text, or its map again."""
        self.conductor.toggle_text()

    @on(SentenceInput.Looked)
    @on(Input.Changed, "SentenceInput")
    def _sentence_looked_at(self) -> None:
        """Show how what is typed is cut into tokens."""
        if self.is_ready:
            self.conductor.sentences.look()

    def action_jump(self) -> None:
        """Ask where to go."""
        from tui.screens.questions import WhereTo

        if self.ways is not None:
            self.prompt.ask(WhereTo(self, self.conductor, self.ways))

    def action_command_palette(self) -> None:
        """Offer every command by its name."""
        from tui.screens.palette import Palette
        from tui.state.places import example

        self.push_screen(Palette("L0H0" if self.ways is None else str(example(self.ways.outline))))

    def action_search(self) -> None:
        """Ask what to search in the tree."""
        from tui.screens.questions import Search

        if self.ways is not None:
            self.prompt.ask(Search(self, self.conductor, self.ways))

    def action_match(self, step: int) -> None:
        """Go on to the next match of the search, or back to the one before."""
        if self.ways is not None:
            self.key_line.say(self.ways.go_on(step))

    def action_visited(self, step: int) -> None:
        """Go back to the place visited before, or forward again."""
        if self.ways is not None and not self.ways.step(step):
            self.key_line.say("nothing to go back to" if step < 0 else "nothing to go forward to")
