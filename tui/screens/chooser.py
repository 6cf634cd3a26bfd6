"""The opening screen: the models on this machine, a field for any other, and the download of what is not here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, OptionList, Static

from engine.checkpoints.model_folders import clean_name
from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.found_models import FoundModel, Place
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from tui.drawing.progress import describe
from tui.screens.modal import Box, Modal
from tui.screens.model_list import FoundList, beginning, enter_does
from tui.toolkit.application import begin
from tui.toolkit.keys import key_of
from tui.toolkit.messages import Advanced
from tui.widgets.field import Field
from tui.widgets.line import Line


@dataclass(frozen=True)
class Opened:
    """A model that has been opened.

    Attributes
    ----------
    name : as it was asked for.
    engine : its own.
    outline : what is known of it.
    """

    name: str
    engine: Engine
    outline: ModelOutline


class ModelField(Field):
    """One line, whose cursor does not blink: that would be written again and again."""

    leaving = "screen.leave_at_once"

    def __init__(self) -> None:
        super().__init__(
            placeholder="gpt2, somebody/model, ./folder",
            compact=True,
            select_on_focus=False,
            name="field of models",
            id="chooser-field",
        )

    @property
    def foot_keys(self) -> dict[str, str]:
        """What can be done with what is typed; how the field is left depends on whether anything is."""
        return {
            "chooser.open": "Open",
            "chooser.leave": "Clear" if self.value else "Leave",
            "chooser.complete": "Complete",
            "chooser.down": "Next",
            "chooser.up": "Before",
            "chooser.help": "Help",
        }

    @property
    def typed(self) -> str:
        """What is typed, without quotes or the address that it was pasted in."""
        return clean_name(self.value)


KEYS: list[BindingType] = [
    Binding("escape", "leave", "Stop, back to the field, clear it, or leave", id="chooser.leave"),
    Binding("q", "leave_at_once", "Leave, or stop", show=False, id="chooser.quit"),
    Binding("ctrl+q,ctrl+c", "app.quit", "Quit", show=False, id="chooser.quit_too"),
    Binding("ctrl+t", "app.next_theme", "Next theme", show=False, id="chooser.next_theme"),
    Binding("question_mark,f1", "app.help", "Help: the keys", show=False, id="chooser.help"),
    Binding("slash", "search", "New search", show=False, id="chooser.search"),
    Binding("i", "field", "To the field", show=False, id="chooser.field"),
    Binding(
        "tab",
        "complete",
        "Complete the path or name, or to the list",
        show=False,
        id="chooser.complete",
        priority=True,
    ),
    Binding("shift+tab", "field", "To the field", show=False, id="chooser.field_back", priority=True),
    Binding("enter", "open", "Open", id="chooser.open", priority=True),
    Binding("down,ctrl+n", "move('cursor_down')", "Next model", show=False, id="chooser.down", priority=True),
    Binding("up,ctrl+p", "move('cursor_up')", "Previous model", show=False, id="chooser.up", priority=True),
    Binding("pagedown", "move('page_down')", "A page down", show=False, id="chooser.page_down", priority=True),
    Binding("pageup", "move('page_up')", "A page up", show=False, id="chooser.page_up", priority=True),
]
"""What its list and its field have besides are keys of theirs."""


class ChooserScreen(Modal[Opened | None]):
    """Opens a model, beside the one that is open already where there is one; its result is None when it is left.

    Parameters
    ----------
    engine : of the model that is open, or one with none.
    is_first : whether the program is left with this screen.
    trouble : what was wrong with what was chosen before.
    named : what has been typed elsewhere, and is to be opened at once.
    """

    BINDINGS: ClassVar[list[BindingType]] = KEYS

    foot_keys: ClassVar[dict[str, str]] = {"chooser.leave": "Stop"}

    closes_outside = False

    class Found(Message):
        """Models have been found; sent from the engine thread."""

        def __init__(self, models: tuple[FoundModel, ...]) -> None:
            self.models = models
            super().__init__()

    def __init__(self, engine: Engine, *, is_first: bool, trouble: str = "", named: str = "") -> None:
        super().__init__(name="opening a model")
        self._engine = engine
        self._is_first = is_first
        self._opening: Engine | None = None
        self._is_downloading = False
        self._refused = ""
        self._place: Place | None = None
        self.field = ModelField()
        self._named = named
        self.list = FoundList()
        self.heading_line = Line(classes="chooser-heading")
        self._trouble = Static(trouble, markup=False, id="chooser-trouble")
        self._trouble.display = bool(trouble)
        self.state = Static("", markup=False, id="chooser-state")

    def compose(self) -> ComposeResult:
        """Stack the field, the list, and what Enter would do; over an explorer without a model, which says nothing."""
        if self._is_first:
            yield Static("", id="chooser-cover")
        with Box("open a model: type to search, a Hub id or a path", "chooser"):
            yield self.field
            yield self.heading_line
            yield self.list
            yield self._trouble
            yield self.state

    def on_mount(self) -> None:
        """Look for models."""
        self.set_focus(self.field)
        begin(self, self._look, "models")
        if self._named:
            with self.prevent(Input.Changed):
                self.field.value = self._named
            self.list.narrow(self.field.typed)
            self._begin(self.field.typed)

    def on_resize(self) -> None:
        """Name the columns that there is room for."""
        self.call_after_refresh(lambda: self.heading_line.show(self.list.heading()))

    async def _look(self) -> None:
        """List what the engine finds, as it comes."""
        try:
            await asyncio.wrap_future(self._engine.found_models(lambda some: self.post_message(self.Found(some))))
        except Superseded:
            return
        except EngineError as error:
            self._say(str(error), "error")
            return
        self.call_later(self._finish)

    def _finish(self) -> None:
        """Say of what was opened before that it is gone, now that all is found."""
        self.list.finish()
        self._explain()

    def on_chooser_screen_found(self, message: Found) -> None:
        """List more models."""
        self.list.add(message.models)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Filter at once; find out what a path leads to."""
        event.stop()
        self.refresh_bindings()
        self._place, self._refused = None, ""
        self.list.narrow(self.field.typed)
        self._explain()
        if self.field.typed:
            begin(self, partial(self._look_up, self.field.typed), "path")

    async def _look_up(self, text: str) -> None:
        """Learn what is at a path, while it is still the one that is typed."""
        try:
            place = await asyncio.wrap_future(self._engine.look_up(text))
        except EngineError:
            return
        if self.field.typed == text:
            self._place = place
            if self._opening is None:
                self.list.learn(place)
                self._explain()

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        """Say what Enter would do with another model."""
        if self._opening is None:
            self._explain()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        """Open the model that was clicked, if all of it is there."""
        event.stop()
        model, place = self.list.chosen, self._place
        if not model.missing if model is not None else place is not None and bool(place.kind or place.model):
            self.action_open()
        elif self._opening is None:
            self._say(f"a click does not download; {self._does(self.list.name_chosen)}")

    def _explain(self) -> None:
        """Say what Enter would do."""
        name = self.list.name_chosen
        if name and name == self._refused:
            return  # what is wrong with it stays until another is looked at
        self._refused = ""
        self._say(self._does(name) if name else "looking for models …")

    def _does(self, name: str) -> str:
        """Say what Enter would do with what is chosen."""
        complete, names = key_of(self.app, "chooser.complete"), self.list.names_begun(name)
        return enter_does(self.list.chosen, name, self._place, self._enter, complete, names)

    @property
    def _enter(self) -> str:
        """The key that opens a model."""
        return key_of(self.app, "chooser.open")

    def _say(self, text: str, kind: str = "") -> None:
        """Write below the list."""
        self.state.set_class(kind == "error", "-error")
        self.state.update(Text(text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Do nothing any more once a model has been opened, and while one opens nothing but leave."""
        if not self.is_active:
            return False
        if self._opening is not None:
            return action in ("leave", "leave_at_once", "app.quit", "quit")
        return True

    def action_field(self) -> None:
        """Go to the field."""
        self.set_focus(self.field)

    def action_search(self) -> None:
        """Go to the field, where what is typed takes the place of what stands there."""
        self.action_field()
        self.field.offer_to_replace()

    def action_move(self, way: str) -> None:
        """Move the list's cursor, wherever the focus is."""
        getattr(self.list, f"action_{way}")()

    async def action_complete(self) -> None:
        """Complete the path or name that is typed; where nothing follows it, go to the list, or back."""
        text = self.field.typed
        if self.focused is not self.field:
            self.set_focus(self.field)
        elif not text:
            self.set_focus(self.list)
        else:
            begin(self, partial(self._complete, text), "complete")

    async def _complete(self, text: str) -> None:
        """Put into the field what all paths and listed names have in common that begin with what is typed."""
        try:
            place = await asyncio.wrap_future(self._engine.look_up(text, "completion"))
        except EngineError:
            return
        names = self.list.names_begun(text)
        common = beginning((*place.completions, *names))
        if self.field.typed != text:
            return
        if len(common) > len(text):
            self.field.value = common
            self.field.cursor_position = len(common)
        elif not place.completions and (names or "/" not in text):
            self.set_focus(self.list)

    def action_open(self) -> None:
        """Open what the list's cursor is on; for a path that is of a model elsewhere, that."""
        name = self.list.name_chosen
        if self.list.chosen is None and self._place is not None:
            name = self._place.model or name
        if name and self._opening is None:  # a click may come after Enter has begun
            self._begin(name)

    def _begin(self, name: str) -> None:
        """Open a model."""
        self._opening = self._engine.another(name)
        self._wait_for_it(True)
        self._say(f"opening {name} …")
        begin(self, partial(self._open, name, self._opening), "open")

    async def _open(self, name: str, engine: Engine) -> None:
        """Open a model; where that fails, say why and stay."""
        try:
            outline = await asyncio.wrap_future(engine.open(name, self._report))
        except Superseded:
            return  # it has been stopped, or the program is being left
        except EngineError as error:
            engine.close()
            if self._opening is engine:
                self._stay(str(error))
        else:
            if self._opening is engine:
                self.dismiss(Opened(name, engine, outline))

    def _stay(self, said: str) -> None:
        """Let another model be chosen."""
        self._opening = None
        self._is_downloading = False
        self._refused = self.list.name_chosen
        self._wait_for_it(False)
        self._say(" ".join(said.split()), "error")

    def _wait_for_it(self, waits: bool) -> None:
        """Take no other choice while a model opens, and begin with the field again when it does not."""
        self.field.disabled = self.list.disabled = waits
        if not waits:
            self.set_focus(self.field)

    def _report(self, progress: Progress) -> None:
        """Pass on how far a download is; called on the engine thread."""
        self.post_message(Advanced(progress))

    @on(Advanced)
    def _advanced(self, event: Advanced) -> None:
        """Show how far a download is, unless it has been stopped."""
        event.stop()
        if self._opening is not None:
            self._is_downloading |= event.progress.unit == "bytes"
            stops = f"{key_of(self.app, 'chooser.leave')} stops"
            self._say(f"{describe(event.progress)}\n{stops}{', and keeps complete files' * self._is_downloading}")

    def action_leave(self) -> None:
        """Stop opening a model, or else go one step back: from the list to the field, from what is typed to nothing."""
        if self._opening is None and self.focused is self.list:
            self.set_focus(self.field)
        elif self._opening is None and self.field.value:
            self.field.value = ""
        else:
            self.action_leave_at_once()

    def action_leave_at_once(self) -> None:
        """Stop opening a model; or leave, whatever is typed."""
        if self._opening is not None:
            self._opening.close()
            goes_on = f"; complete files are kept, {self._enter} goes on"
            self._stay(f"stopped{goes_on * self._is_downloading}")
        else:
            self.dismiss(None)
