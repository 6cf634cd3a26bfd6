"""The main screen: the tree, the views and the lines around them, with the keys that work everywhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Label, Static, Tree

from engine.store.files import write_log
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, Off, head_text
from engine.values.progress import DONE, Progress
from engine.values.views import VIEWS
from tui.drawing.facts import model_line
from tui.drawing.progress import progress_bar, progress_text
from tui.screens.prompt import Prompt
from tui.state.places import head_after, layer_after
from tui.state.sentences import Sentences
from tui.state.session import ALL_ON, Session, Shown, say_off, switch_heads
from tui.toolkit.application import beginning_of, start_work
from tui.toolkit.keys import HEADS, MOVING, PROGRAM, SENTENCE, TAKING_AWAY, key_of, shared_key
from tui.toolkit.messages import Notice, ProgressReport, SentenceProgress
from tui.toolkit.screen import TerminalScreen
from tui.views.guide import Guide
from tui.views.sentence_input import SentenceInput
from tui.views.tree import HeadTree
from tui.widgets.key_line import KeyLine
from tui.widgets.line import Frame, TopLine

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.attention import Sentence
    from engine.values.outline import ModelOutline
    from tui.app.start import Start
    from tui.export.files import Choice, ExportFiles
    from tui.state.stores import Stores
    from tui.views.switcher import Views


LAYOUTS = {"-framed": (100, 30), "-shared": (120, 34), "-broad": (150, 34), "-thirds": (200, 44)}
"""The columns and rows from which on parts have frames, views share the room, the tree writes words in full, and the
overview stands beside the other views."""

SUBJECTS = frozenset({"selected", "view", "text", "off", "pins"})
"""The fields of `Shown` whose change clears the message at the foot."""


class MainScreen(TerminalScreen, inherit_bindings=False):
    """Shows one model after the other; each has a session and views of its own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        shared_key("copy_selected", "ctrl+c,super+c", "screen.copy_text", "Copy selected text, or quit", TAKING_AWAY),
        shared_key("sentence", "i", "sentence", "Type a sentence", SENTENCE),
        shared_key("next_view", "tab", "app.focus_next", "Next panel", MOVING),
        shared_key("previous_view", "shift+tab", "app.focus_previous", "Previous panel", MOVING),
        shared_key("tree", "", "tree", "Back to the tree", MOVING),
        shared_key("leave", "escape", "leave", "Back, stop, or close", MOVING),
        shared_key("switch", "space", "switch", "Switch the head off or on", HEADS),
        shared_key("all_on", "O", "all_on", "Switch all heads on", HEADS),
        shared_key("by_mean", "", "by_mean", "Ablate by the mean, or by zero", HEADS),
        shared_key("next_head", "right_square_bracket", "step_head(1)", "Next head", MOVING),
        shared_key("previous_head", "left_square_bracket", "step_head(-1)", "Previous head", MOVING),
        shared_key("next_layer", "right_curly_bracket", "step_layer(1)", "Next layer", MOVING),
        shared_key("previous_layer", "left_curly_bracket", "step_layer(-1)", "Previous layer", MOVING),
        shared_key("copy_cell", "y", "copy('cell')", "Copy the cell", TAKING_AWAY),
        shared_key("copy_row", "Y", "copy('row')", "Copy the row", TAKING_AWAY),
        shared_key("copy_view", "", "copy('view')", "Copy the whole view", TAKING_AWAY),
        shared_key("export", "e", "export", "Export", TAKING_AWAY),
        shared_key("pin", "P", "pin", "Pin the head, or unpin it", HEADS),
        shared_key("sentences", "S", "sentences", "Earlier sentences", SENTENCE),
        shared_key("jump", "colon", "jump", "Go to, or do, anything by name", MOVING, is_first=True),
        shared_key("search", "slash", "search", "Find", MOVING),
        shared_key("palette", "ctrl+p", "command_palette", "List all commands", PROGRAM, is_first=True),
    ]

    def __init__(self, sentences: Sentences) -> None:
        super().__init__(id="_default")
        self.sentences = sentences
        self.session = Session()
        self.tree_widget = HeadTree()
        self.top_line = TopLine()
        self.guide = Guide()
        self.key_line = KeyLine()
        self.key_line.leaves_out = lambda name: self._views is not None and self._views.has_no_effect(name)
        self.prompt = Prompt()
        self.sentence_input = SentenceInput(sentences)
        self._views: Views | None = None
        self._exporting: ExportFiles | None = None
        self._clipboard_hint = _clipboard_hint()

    def compose(self) -> ComposeResult:
        """Lay out the first frame; what it does not show is mounted with the views."""
        yield self.top_line
        with Horizontal(id="body"), Frame("side", title_line=self.tree_widget.title_line, key="app.tree"):
            yield self.tree_widget.title_line
            yield self.tree_widget
        with Horizontal(id="sentence"):
            yield Label("sentence")
            yield self.sentence_input
        yield Static("attn-tui needs a terminal of 40 × 12", id="too-small", markup=False)
        yield self.key_line

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout before the parts are told their sizes."""
        width, height = event.size
        self.update_classes(
            {name: width >= columns and height >= rows for name, (columns, rows) in LAYOUTS.items()}, animate=False
        )
        if self._views is not None:
            self._views.share_room()
        self.guide.fit_height()
        self.call_after_refresh(self.draw_guide)

    # --- the open model

    @property
    def is_ready(self) -> bool:
        """Whether the views exist."""
        return self._views is not None

    @property
    def views(self) -> Views:
        """The views; they exist once the first frame is painted, but not while the model is changed."""
        assert self._views is not None, "the views are made after the first frame"
        return self._views

    @property
    def stores(self) -> Stores | None:
        """The stores of the open model, if one is open."""
        return None if self._views is None else self._views.stores

    async def make_views(self, engine: Engine, start: Start) -> None:
        """Make the views of the next model, and remove those of the previous one with its pending work."""
        from tui.views.switcher import Views

        before, self._views, self._exporting = self._views, None, None
        scale: Literal["linear", "log"] = "linear" if start.log_scale is False else "log"
        map_scale = None if start.log_scale is None else scale
        self.session = Session(Shown(view=start.view, map_scale=map_scale, spectra_scale=scale))
        views = Views(self.session, is_comparing=engine.is_comparing)
        with self.app.batch_update():
            if before is not None:
                before.workers.cancel_node(before)  # pending work would find no views
                if before.stores is not None:
                    before.stores.close()
                self.prompt.close()
                self.set_focus(self.tree_widget)
                self.sentence_input.show_read("", None)
                self.top_line.show("")
                views.set_class(before.has_class("-zoomed"), "-zoomed")
                await before.remove()
            else:
                await self.mount(self.guide, after=self.top_line)
                await self.mount(self.prompt)
            await self.query_one("#body").mount(views)
        self._views = views
        self.refresh_bindings()  # their keys work from now on
        self.tree_widget.follow(self.session)
        self.session.follow(self._follow)
        await self.sentence_input.show_tokens(engine)

    def show_model(self, engine: Engine, outline: ModelOutline) -> Stores:
        """Show the tree of a model whose headers have been read, and make its stores."""
        from tui.state.stores import Stores

        stores = Stores(engine, outline, self._draw_soon, self.report)
        self.views.open(stores)
        stores.maps.has_read = self._has_read
        self.top_line.show(model_line(outline))
        self.tree_widget.fill(stores)
        for note in outline.notes:
            self.notify(note, severity="warning")
        return stores

    def _follow(self, changed: frozenset[str]) -> None:
        if changed & SUBJECTS:
            self.key_line.clear_message()
        if "selected" in changed and self.stores is not None:
            self.draw_guide()
            if self.session.shown.selected is None:
                start_work(self.views, self.measure_memory, "memory")

    def _draw_soon(self) -> None:
        self.views.draw_soon()
        self.tree_widget.refresh_notes()
        self.call_later(self.draw_guide)

    def draw_guide(self) -> None:
        """Fill the lines for the first minute with what is known by now."""
        if self.stores is not None and (head := self.guide.follow(self.stores, self.session.shown.selected)):
            self.session.change(selected=head)

    async def measure_memory(self) -> None:
        """Measure the memory that the model needs and that is free, for the model's page."""
        stores = self.stores
        assert stores is not None
        with suppress(EngineError):  # reported by what needs the model
            stores.memory = await asyncio.wrap_future(stores.engine.memory())
            stores.arrived()

    def _has_read(self, sentence: Sentence) -> None:
        """List a sentence that was read; the first one also loads the model, so label its heads."""
        if sentence.text == self.session.shown.text:
            self.sentences.add(sentence.text)
            self.sentence_input.show_read(sentence.text, sentence)
        if self.stores is not None and not self.stores.is_labelled:
            start_work(self.views, self._label, "labels")

    async def _label(self) -> None:
        """If this fails, the next sentence tries again."""
        stores = self.stores
        assert stores is not None
        try:
            stores.labels = await asyncio.wrap_future(stores.engine.labels(self.report))
            stores.is_labelled = True
        except EngineError:
            self.report(DONE)
        stores.arrived()

    def report(self, progress: Progress) -> None:
        """Pass on the progress of long work; may be called on any thread."""
        self.post_message(ProgressReport(progress))

    @on(SentenceProgress)
    def _advance(self, event: SentenceProgress) -> None:
        """Show the progress of loading a model or reading a sentence."""
        self.show_progress(event.progress if self.stores is None else self.stores.progress_of(event.progress))

    @on(ProgressReport)
    def _show_report(self, event: ProgressReport) -> None:
        self.show_progress(event.progress)

    @on(Notice)
    def _show_notice(self, event: Notice) -> None:
        self.key_line.show_message(event.text)

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of long work, and nothing once it is done."""
        bar = progress_bar(progress) if self.has_class("-framed") else ""
        self.top_line.progress = "" if progress.finished else f"{bar} {progress_text(progress)}".lstrip()

    # --- the focus

    @property
    def parts_with_keys(self) -> Sequence[Widget]:
        """The tree, the views, and the single views that always exist."""
        if self._views is None:
            return ()
        views = self._views
        return self.tree_widget, views, views.ranks, views.spectra, views.attention

    @property
    def parts_with_focus(self) -> Sequence[Widget]:
        """The active view and the tree."""
        return (self.tree_widget,) if self._views is None else (self._views.active, self.tree_widget)

    def set_focus(self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False) -> None:
        """Move the focus; a view with the focus becomes the active one."""
        super().set_focus(widget, scroll_visible, from_app_focus)
        if self._views is not None and self.focused is not None:
            self._views.activate_focused(self.focused)

    def on_screen_resume(self) -> None:
        """Show the keys of this screen again."""
        self.key_line.follow(self)

    @property
    def foot_keys(self) -> dict[str, str]:
        """The keys at the foot that work in any view; where there is little room, the first ones."""
        return {
            "app.next_view": "Next panel",
            "app.next_head": "Head",
            "app.sentence": "Sentence",
            "app.jump": "Go to",
            "app.switch": "Off",
            "app.next_measure": "Measure",
            "app.export": "Export",
            "app.zoom": "Share room" if self.has_class("-zoomed") else "All room",
            "app.search": "Find",
            "app.back": "Back",
            "app.overview": "All heads",
            "app.pin": "Pin",
            "app.maps": "Layer maps",
            "app.text": "Text",
            "app.palette": "Commands",
        }

    # --- heads and layers

    @on(Tree.NodeHighlighted)
    def _node_highlighted(self, event: Tree.NodeHighlighted[Head | None]) -> None:
        """Select what the tree's cursor is on, unless the cursor has moved on already."""
        if self.stores is not None and event.node is self.tree_widget.cursor_node:
            self.session.change(selected=event.node.data)

    @on(Tree.NodeSelected)
    def _node_selected(self, event: Tree.NodeSelected[Head | None]) -> None:
        """Open or close a layer on Enter, or go from a head to its view; the node may be of a closed model."""
        if event.node.allow_expand:
            event.node.toggle()
        elif event.node.data is not None and event.node is self.tree_widget.cursor_node and self.stores is not None:
            self.views.enter(event.node.data)

    def action_step_head(self, step: int) -> None:
        """Go to the next or previous head, across layers."""
        self.views.take_row(is_step=True)
        if self.stores and (head := head_after(self.stores.outline, self.session.shown.selected, step)):
            self.session.change(selected=head)

    def action_step_layer(self, step: int) -> None:
        """Go to the same head of the next or previous layer."""
        self.views.take_row(is_step=True)
        if self.stores:
            self.session.change(selected=layer_after(self.stores.outline, self.session.shown.selected, step))

    def action_search(self) -> None:
        """Ask which token to find if a map has the focus, or else search the tree."""
        from tui.screens.questions import FindToken, Search
        from tui.widgets.heatmap import Heatmap

        if isinstance(self.focused, Heatmap) and self.focused.pooled is not None:
            self.prompt.ask(FindToken(self.focused))
        elif self.stores is not None:
            self.prompt.ask(Search(self.views, self.tree_widget))

    def action_filter(self, text: str = "") -> None:
        """Ask which rows of the active view to show; a text given is the answer."""
        from tui.screens.questions import FilterRows
        from tui.views.table_view import TablePane

        if isinstance(pane := self.views.active, TablePane):
            question = FilterRows(pane)
            self.prompt.ask(question, text or question.text)
            if text:
                self.prompt.action_submit()

    def action_jump(self) -> None:
        """Ask where to go or what to do."""
        from tui.screens.questions import WhereTo

        if self.stores is not None:
            self.prompt.ask(WhereTo(self.views, self.tree_widget))

    def action_command_palette(self) -> None:
        """Offer every command by its name."""
        from tui.screens.palette import Palette

        self.app.push_screen(Palette(self, self._views))

    def _lacks_row(self) -> bool:
        """Say whether the keys for the head of a row have none; show why not."""
        self.views.overview.settle()
        rows = self.views.rows_with_heads
        if rows is not None and rows.head_here is None:
            self.key_line.show_message(rows.why_no_head)
            return True
        return False

    def action_switch(self) -> None:
        """Switch the head of the row under the cursor, or the selected one, off or on, and say which heads are off."""
        if self.stores is None or self._lacks_row():
            return
        head, off = self.views.row_head or self.session.shown.selected, self.session.shown.off
        key = key_of(self, "app.switch")
        if head is None:
            said = f"only heads can be switched off; choose one, then press {key}"
        elif head.is_layer:
            said = f"{head} is a layer; type :off {head} for all its heads, or choose one and press {key}"
        else:
            self.switch_off(switch_heads(off, [head], is_off=head not in off.heads))
            said = say_off(self.session.shown.off, self.stores.outline.stacks, key_of(self, "app.all_on"))
        self.key_line.show_message(said)

    def switch_off(self, off: Off) -> None:
        """Change which heads are off."""
        self.session.switch_off(off, is_comparing=self.views.is_comparing)

    def action_all_on(self) -> None:
        """Switch all heads on again."""
        off = self.session.shown.off
        self.switch_off(replace(off, heads=()))
        self.key_line.show_message("" if off.heads else ALL_ON)

    def action_by_mean(self) -> None:
        """Switch between ablation by the mean over the sentence's tokens and by zero; say so if no head is off."""
        off = self.session.shown.off
        self.switch_off(replace(off, by_mean=not off.by_mean))
        if not off.heads:
            way = "zero" if off.by_mean else "its mean"
            self.key_line.show_message(f"no head is off; {key_of(self, 'app.switch')} switches one off, now by {way}")

    def action_pin(self) -> None:
        """Pin or unpin the head of the row under the cursor, or the selected one."""
        if self.stores is None or self._lacks_row():
            return
        head = self.views.row_head or self.session.shown.selected
        if refusal := self.session.toggle_pin(head, key_of(self, "app.pin")):
            self.notify(refusal)
        elif head is not None:
            name, *pins = (head_text(each, self.stores.outline.stacks) for each in (head, *self.session.shown.pins))
            pinned = ", ".join(pins)
            still = f"{pinned} still pinned" if pinned else "none is pinned"
            is_pinned = f"{pinned} pinned; {key_of(self, 'app.compare')} compares"
            self.key_line.show_message(is_pinned if name in pins else f"{name} unpinned; {still}")

    def action_stop_or_view(self, view: str) -> None:
        """Stop the running computation, or else go to a view."""
        if not self._stop():
            self.views.action_view(view)

    def action_tree(self) -> None:
        """Go back to the tree; a zoomed view gives it its room back."""
        if self.is_ready and not self.tree_widget.display:
            self.views.action_zoom()
        self.set_focus(self.tree_widget)

    def action_leave(self) -> None:
        """Stop the running computation or export; else go a step back in the view, or to the tree."""
        is_in_view = self.is_ready and self.focused is not None and self.views.active in self.focused.ancestors
        if not (self._stop() or (is_in_view and self.views.active.step_back())):
            self.action_tree()

    def _stop(self) -> bool:
        """Stop a table that is being computed or a file that is being written; False where there is none."""
        is_stopped = self.stores is not None and self.stores.tables.stop_work()
        return is_stopped or (self._exporting is not None and self._exporting.stop())

    # --- the sentence and its maps

    def action_sentence(self) -> None:
        """Go to the sentence; typing replaces it, unless a key moves the cursor first."""
        self.sentence_input.begin()
        self.set_focus(self.sentence_input)

    def action_leave_sentence(self) -> None:
        """Go back from the sentence to what had the focus."""
        self.sentence_input.restore()
        self.leave_field()

    def action_read_sentence(self) -> None:
        """Read the sentence, and go to its map at once."""
        self.read_sentence(self.sentence_input.value)
        if self.views.active is self.views.attention:
            self.set_focus(self.views.attention.heatmap)

    def read_sentence(self, text: str) -> None:
        """Read a sentence, and show its attention unless the active view depends on it."""
        self.sentence_input.finish(text)
        self.sentences.submit(text)
        self.read(text)
        active = self.views.active
        is_of_sentence = active.is_of_sentence or (active.view in VIEWS and "text" in VIEWS[active.view].options)
        self.views.go_to(active.view if is_of_sentence else "attention")

    def read(self, text: str) -> None:
        """Have the model read a sentence; before a model is open, keep the sentence for it."""
        from engine.values.attention import Sentence

        self.sentence_input.show_read(text, None)
        if self.stores is None:
            self.session.change(waiting_text=text)
            return
        is_read_again = text == self.session.shown.text
        self.session.change(text=text, waiting_text=None, position=None, token=None, against=None)
        if is_read_again:
            self.stores.maps.read_again()
        if isinstance(sentence := self.stores.maps.sentence(self.session.shown), Sentence):
            self._has_read(sentence)  # known from before

    def action_sentences(self) -> None:
        """List the sentences; a chosen one is read at once."""
        from tui.screens.sentences_screen import SentencesScreen

        def take(text: str | None) -> None:
            if text is not None:
                self.read_sentence(text)

        self.app.push_screen(SentencesScreen(self.sentences), take)

    # --- taking away

    @property
    def exporting(self) -> ExportFiles:
        """What there is to write of the open model; made when it is first asked for, as its imports take a while."""
        from tui.export.files import ExportFiles

        if self._exporting is None:
            assert self.stores is not None
            self._exporting = ExportFiles(self.views, self.stores)
        return self._exporting

    def action_copy(self, what: str) -> None:
        """Copy the cell under the active view's cursor, the row, or the table that the view draws."""
        self.app.clear_notifications()
        start_work(self, partial(self._copy, what), "copy")

    async def _copy(self, what: str) -> None:
        from tui.export import clipboard

        try:
            text, description = await getattr(clipboard, f"copied_{what}")(self.views.active)
        except Superseded:
            return
        except EngineError as error:
            self.notify(str(error), severity="error")
            return
        self.app.copy_to_clipboard(text)
        hint, self._clipboard_hint = self._clipboard_hint, ""
        self.notify("\n".join(filter(None, (description, beginning_of(text), hint))), title="copied")

    async def action_export(self) -> None:
        """Open the export menu; keys wait until it is open."""
        from tui.screens.export_screen import ExportScreen

        def take(chosen: tuple[Choice, Path, bool] | None) -> None:
            if chosen is not None:
                start_work(self, partial(self._export, *chosen), "export", is_alone=False)

        self.app.clear_notifications()
        if self.stores is None:
            self.key_line.show_message("no model is open yet")
            return
        await self.app.push_screen(ExportScreen(self.exporting), take)

    async def _export(self, choice: Choice, path: Path, may_replace: bool) -> None:
        description = self.exporting.describe(choice.what)
        try:
            written = await self.exporting.write(choice, path, may_replace=may_replace)
        except Superseded:
            self.notify("nothing of the file is left", title="stopped")
        except EngineError as error:
            self.notify(str(error), severity="error")
        except Exception as error:  # a failed export must not end the explorer
            self.notify(write_log(error), severity="error")
        else:
            self.notify(written, title=f"{description}: written")


def _clipboard_hint() -> str:
    if os.environ.get("TMUX"):
        return "in tmux this takes: set -g set-clipboard on"
    return "GNU screen keeps it for itself; tmux passes it on" if os.environ.get("STY") else ""
