"""The explorer's keys, and what each of them does: most of them ask something of the conductor."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from engine.values.views import VIEWS as TABLES
from tui.click_watch import ClickWatch
from tui.copy_actions import CopyActions
from tui.export_actions import ExportActions
from tui.key_groups import HEADS_OFF, MEASURING, MOVING, PROGRAM, SENTENCE, VIEWS
from tui.key_names import key_of
from tui.key_watch import KeyWatch
from tui.look_actions import LookActions
from tui.messages import HeadSwitched
from tui.opening import ModelActions
from tui.overview_actions import OverviewActions
from tui.pin_actions import PinActions
from tui.row_actions import RowActions
from tui.sentence_actions import SentenceActions
from tui.suspending import SuspendActions
from tui.way_actions import WayActions


class Actions(
    CopyActions,
    ExportActions,
    LookActions,
    ModelActions,
    OverviewActions,
    PinActions,
    RowActions,
    SentenceActions,
    SuspendActions,
    WayActions,
    KeyWatch,
    ClickWatch,
):
    """An application with the explorer's keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Keys that work here", id="app.help", group=PROGRAM),
        Binding("i", "sentence", "Type a sentence", id="app.sentence", group=SENTENCE),
        Binding("1", "view('spectra')", "Spectra", id="app.spectra", group=VIEWS),
        Binding("2", "view('ranks')", "Ranks", id="app.ranks", group=VIEWS),
        Binding("3", "view('attention')", "Attention", id="app.attention", group=VIEWS),
        *(
            Binding(view.key, f"view('{view.name}')", view.title, show=False, id=f"app.{view.name}", group=VIEWS)
            for view in TABLES.values()
            if view.key
        ),
        Binding("q", "quit", "Quit", id="app.quit", group=PROGRAM),
        Binding("ctrl+q,ctrl+c", "quit", "Quit", show=False, id="app.quit_too", group=PROGRAM),
        Binding(
            "ctrl+l",
            "redraw",
            "Draw the screen again",
            show=False,
            priority=True,  # over menus and lists too
            id="app.redraw",
            group=PROGRAM,
        ),
        Binding("tab", "focus_next", "Next view", show=False, id="app.next_view", group=MOVING),
        Binding("shift+tab", "focus_previous", "Previous view", show=False, id="app.previous_view", group=MOVING),
        Binding("t", "tree", "Back to the tree", show=False, id="app.tree", group=MOVING),
        Binding("escape", "leave", "Stop what runs, or back to the tree", show=False, id="app.leave", group=MOVING),
        Binding("o", "switch", "Switch the head off, or on again", show=False, id="app.switch", group=HEADS_OFF),
        Binding("O", "all_on", "Switch all heads on again", show=False, id="app.all_on", group=HEADS_OFF),
        Binding(
            "u", "off_way", "Switch heads off by zero, or by the mean", show=False, id="app.off_way", group=HEADS_OFF
        ),
        Binding("z", "zoom", "Zoom: one view, or all", show=False, id="app.zoom", group=VIEWS),
        Binding("right_square_bracket", "step_head(1)", "Next head", show=False, id="app.next_head", group=MOVING),
        Binding(
            "left_square_bracket", "step_head(-1)", "Previous head", show=False, id="app.previous_head", group=MOVING
        ),
        Binding("right_curly_bracket", "step_layer(1)", "Next layer", show=False, id="app.next_layer", group=MOVING),
        Binding(
            "left_curly_bracket", "step_layer(-1)", "Previous layer", show=False, id="app.previous_layer", group=MOVING
        ),
        Binding("s", "scale", "Logarithmic or linear scale", show=False, id="app.scale", group=MEASURING),
        Binding("b", "baseline", "Show or hide the baseline of chance", show=False, id="app.baseline", group=MEASURING),
        Binding("m", "measure(1)", "Next measure", show=False, id="app.next_measure", group=MEASURING),
        Binding("M", "measure(-1)", "Previous measure", show=False, id="app.previous_measure", group=MEASURING),
        Binding(
            "plus,equals_sign", "epsilon(1)", "Larger ε of the energy rank", show=False, id="app.more", group=MEASURING
        ),
        Binding("minus", "epsilon(-1)", "Smaller ε of the energy rank", show=False, id="app.less", group=MEASURING),
        Binding(
            "c", "check", "Check: prove the heads against the model's numbers", show=False, id="app.check", group=VIEWS
        ),
        Binding(
            "d",
            "distance",
            "QK at a distance of key and query, or without",
            show=False,
            id="app.distance",
            group=MEASURING,
        ),
        Binding("shift+right", "turn(1)", "Δ one more", show=False, id="app.farther", group=MEASURING),
        Binding("shift+left", "turn(-1)", "Δ one less", show=False, id="app.nearer", group=MEASURING),
        Binding(
            "a",
            "averaging",
            "Head, mean over heads, over layers, over both, rollout",
            show=False,
            id="app.averaging",
            group=SENTENCE,
        ),
        Binding(
            "D",
            "difference",
            "Difference of both maps: other model, or heads off",
            show=False,
            id="app.difference",
            group=SENTENCE,
        ),
    ]

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
        return active if is_of_sentence or self.conductor.overview.is_of_sentence else "attention"

    def action_read_sentence(self) -> None:
        """Leave the sentence for its map at once, and read it."""
        self.sentence_input.finish()
        if self.is_ready:
            self.views.go_to(self._view_of_sentences())
            if self.views.active is self.views.attention:
                self.screen.set_focus(self.views.attention.heatmap)

    def action_tree(self) -> None:
        """Go back to the tree, and show it where the active view had its room."""
        if self.is_ready and not self.tree_widget.display:
            self.views.zoom()
        self.screen.set_focus(self.tree_widget)

    def action_leave(self) -> None:
        """Stop what is worked out and waited for, or a file; else go a step back in the view, or to the tree."""
        if self.is_ready and self.conductor.stop():
            return
        focused = self.screen.focused
        is_in_view = self.is_ready and focused is not None and self.views.active in focused.ancestors
        if not (is_in_view and self.views.active.step_back()):
            self.action_tree()

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
        if not (self.is_ready and self.conductor.stop()):
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
        if self.conductor.overview.is_active:
            self.key_line.say(self.conductor.overview.toggle_scale())
        elif not self.views.toggle_scale():
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
        self.conductor.change_measure(step)

    def action_epsilon(self, step: int) -> None:
        """Change ε and measure again; say so where it goes no farther."""
        if self.conductor.weights is not None:
            self.key_line.say(self.conductor.weights.change_epsilon(step))

    def is_in_vain(self, name: str) -> bool:
        """Say of a binding, by its id, whether it could now only say why it does nothing, or does something else."""
        if not self.is_ready:
            return False
        outline, ways, table = self.conductor.outline, self.conductor.ways, self.views.table
        if name == "app.scale":
            return self.views.scaled is None and not self.conductor.overview.is_active
        if name == "table.all_rows":
            tables = self.conductor.tables
            return tables is not None and tables.stoppable is not None  # which is what the key stops
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
