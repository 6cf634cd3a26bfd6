"""The opening screen: the models on this machine, a field for any other name, and downloads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static

from engine.checkpoints.model_folders import clean_name
from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from tui.drawing.progress import progress_text
from tui.screens.modal import Modal
from tui.screens.model_list import FoundList, enter_does
from tui.toolkit.application import start_work
from tui.toolkit.keys import key_of
from tui.widgets.field import Field
from tui.widgets.line import Line


class ChooserScreen(Modal[tuple[Engine, ModelOutline] | None]):
    """Opens a model while the present one stays open.

    The result is the model's engine and outline, or None when nothing was chosen.

    Parameters
    ----------
    engine : finds the models on this machine and makes the engine of the chosen one.
    is_first : whether leaving this screen ends the program.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Stop, clear the field, or leave", id="chooser.leave"),
        Binding("q", "leave_at_once", "Leave, or stop", show=False, id="chooser.quit"),
        Binding("question_mark,f1", "app.help", "Help: the keys", show=False, id="chooser.help"),
        Binding("slash", "search", "New search", show=False, id="chooser.search"),
        Binding("i", "field", "To the field", show=False, id="chooser.field"),
        Binding("enter", "open", "Open", id="chooser.open", priority=True),
        Binding("down,ctrl+n", "move('cursor_down')", "Next model", show=False, id="chooser.down", priority=True),
        Binding("up,ctrl+p", "move('cursor_up')", "Previous model", show=False, id="chooser.up", priority=True),
        Binding("pagedown", "move('page_down')", "A page down", show=False, id="chooser.page_down", priority=True),
        Binding("pageup", "move('page_up')", "A page up", show=False, id="chooser.page_up", priority=True),
    ]

    closes_outside = False

    def __init__(self, engine: Engine, *, is_first: bool) -> None:
        super().__init__(name="opening a model")
        self._engine = engine
        self._is_first = is_first
        self._opening: Engine | None = None
        self._is_downloading = False
        self._refused = ""
        hint = "gpt2, somebody/model, ./folder"
        self.field = Field(leaving="screen.leave_at_once", placeholder=hint, name="field of models", id="chooser-field")
        self.list = FoundList()
        self.heading_line = Line(classes="chooser-heading")
        self.state = Static("", markup=False, id="chooser-state")

    def compose(self) -> ComposeResult:
        """Stack the field, the list, and the line about Enter; cover an explorer that has no model."""
        if self._is_first:
            yield Static("", id="chooser-cover")
        with Vertical(id="chooser", classes="box") as box:
            box.border_title = "open a model: type to search, a Hub id or a path"
            yield self.field
            yield self.heading_line
            yield self.list
            yield self.state

    @property
    def foot_keys(self) -> dict[str, str]:
        """The keys at the foot; Escape stops the opening, or else clears the field first, then leaves."""
        leaves = "Stop" if self._opening is not None else "Clear" if self.field.value else "Leave"
        goes = {"box.next": "List"} if self.focused is self.field else {"chooser.search": "Search"}
        moves = {"chooser.down": "Next", "chooser.up": "Before"}
        return {"chooser.open": "Open", "chooser.leave": leaves, **goes, **moves, "chooser.help": "Help"}

    def on_mount(self) -> None:
        """Look for models."""
        self.set_focus(self.field)
        start_work(self, self._look, "models")

    def on_resize(self) -> None:
        """Show the headings of the columns that fit."""
        self.call_after_refresh(lambda: self.heading_line.show(self.list.heading()))

    async def _look(self) -> None:
        try:
            await asyncio.wrap_future(self._engine.found_models(partial(self.call_later, self.list.add)))
        except Superseded:
            return
        except EngineError as error:
            self._say(str(error), is_error=True)
            return
        self.call_later(self.list.finish)
        self.call_later(self._explain)

    @property
    def _typed(self) -> str:
        """The typed name, without quotes and without the web address around a Hub id."""
        return clean_name(self.field.value)

    @on(Input.Changed)
    def _narrow(self) -> None:
        self.refresh_bindings()
        self._refused = ""
        self.list.narrow(self._typed)
        self._explain()

    @on(OptionList.OptionSelected)
    def action_open(self) -> None:
        """Open the model under the cursor, or the typed one."""
        if self.list.typed != self._typed.strip():  # Enter may come before the list is told of the last letters
            self.list.narrow(self._typed)
        name = self.list.name_chosen
        if name and self._opening is None:  # a click may come after Enter has begun
            self._begin(name)

    @on(OptionList.OptionHighlighted)
    def _explain(self) -> None:
        """Say what Enter would do; an error about the model under the cursor stays until the cursor moves."""
        name = self.list.name_chosen
        if self._opening is not None or (name and name == self._refused):
            return
        self._refused = ""
        self._say(enter_does(self.list.chosen, name, self._enter) if name else "looking for models …")

    @property
    def _enter(self) -> str:
        return key_of(self.app, "chooser.open")

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self.state.set_class(is_error, "-error")
        self.state.update(Text(text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow nothing once a model is open, and only leaving while one opens."""
        if not self.is_active:
            return False
        if self._opening is not None:
            return action in ("leave", "leave_at_once", "app.quit", "quit")
        return True

    def action_field(self) -> None:
        """Go to the field."""
        self.set_focus(self.field)

    def action_search(self) -> None:
        """Go to the field; typing replaces its text."""
        self.action_field()
        self.field.offer_to_replace()

    def _begin(self, name: str) -> None:
        self._opening = self._engine.another(name)
        self.field.disabled = self.list.disabled = True
        self._say(f"opening {name} …")
        start_work(self, partial(self._open, name, self._opening), "open")

    async def _open(self, name: str, engine: Engine) -> None:
        try:
            outline = await asyncio.wrap_future(engine.open(name, self._report))
        except Superseded:
            return  # stopped, or the program ends
        except EngineError as error:
            engine.close()
            if self._opening is engine:
                self._stay(str(error))
        else:
            if self._opening is engine:
                self.dismiss((engine, outline))

    def _stay(self, said: str) -> None:
        self._opening = None
        self._is_downloading = False
        self._refused = self.list.name_chosen
        self.field.disabled = self.list.disabled = False
        self.set_focus(self.field)
        self._say(" ".join(said.split()), is_error=True)

    def _report(self, progress: Progress) -> None:
        self.call_later(self._show_progress, progress)  # from another thread

    def _show_progress(self, progress: Progress) -> None:
        if self._opening is not None:
            self._is_downloading |= progress.unit == "bytes"
            stops = f"{key_of(self.app, 'chooser.leave')} stops"
            self._say(f"{progress_text(progress)}\n{stops}{', and keeps complete files' * self._is_downloading}")

    def action_leave(self) -> None:
        """Stop opening a model, or clear the field; leave an empty one."""
        if self._opening is None and self.field.value:
            self.field.value = ""
            self.set_focus(self.field)
        else:
            self.action_leave_at_once()

    def action_leave_at_once(self) -> None:
        """Stop opening a model, or leave, whatever is typed."""
        if self._opening is not None:
            self._opening.close()
            goes_on = f"; complete files are kept, {self._enter} goes on"
            self._stay(f"stopped{goes_on * self._is_downloading}")
        else:
            self.dismiss(None)
