"""What the views share: a title above, a readout of the cell under the cursor below, and messages in between."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields
from typing import ClassVar

from textual.app import ComposeResult
from textual.widget import Widget

from engine.values.attention import Sentence
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.table import AnyTable
from engine.values.views import ring_of
from tui.drawing.levels import SCALES, Scale
from tui.drawing.titles import COMPUTING, Part, Title
from tui.state.session import Session, Shown
from tui.state.stores import Stores
from tui.toolkit.keys import key_of
from tui.toolkit.messages import DrawingWanted
from tui.widgets.line import Frame, Line


class Pane(Frame):
    """A view beside the tree.

    Parameters
    ----------
    parts : stand between the title and the readout.

    Attributes
    ----------
    session : what is shown; the pane changes it when a person asks for something else.
    stores : what is known of the open model; None before one is open.
    view : the view's name.
    has_scale : whether its scale can be changed.
    is_beside_map : whether a large terminal shows the map beside it.
    follows_cursor : whether it shows the cell under the map's cursor.
    is_of_sentence : whether it stays the active view when another sentence is typed.
    message : stands in the place of what there is to draw; empty once that is drawn.
    is_blank : whether nothing is on screen that could stay for a moment.
    is_waiting : whether it shows no answer to what is asked now, neither a value nor an error.
    is_unfinished : whether a part of the answer is missing.
    uses : the fields of `Shown` that it draws.
    asks : the stores whose answers it draws.
    """

    session: Session
    stores: Stores | None = None
    view = ""
    has_scale = False
    is_beside_map = False
    follows_cursor = False
    is_of_sentence = False
    uses: ClassVar[tuple[str, ...]] = tuple(each.name for each in fields(Shown))
    asks: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *parts: Widget) -> None:
        super().__init__(self.view, "framed pane", key=f"app.{(*ring_of(self.view), self.view)[0]}")
        self.parts = parts
        self.message = ""
        self.is_blank = True
        self.is_waiting = True
        self.is_unfinished = False
        self._drawing_key: Hashable = None
        self.readout_line = Line(classes="pane-readout")

    def compose(self) -> ComposeResult:
        """Stack the title, the parts and the readout."""
        yield self.title_line
        yield from self.parts
        yield self.readout_line

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """The keys that the line at the foot begins with: their words by the ids of their bindings."""
        return {}

    @property
    def room(self) -> int:
        """The cells of a line; before the pane is laid out, those of what it lies in."""
        around = (each.content_size.width for each in self.ancestors if isinstance(each, Widget))
        return max((self.content_size.width or next(filter(None, around), 0)) - 2, 0)

    def on_resize(self) -> None:
        """Draw again at the new size."""
        self.post_message(DrawingWanted())

    def draw_changes(self, shown: Shown, stores: Stores) -> None:
        """Draw what is shown, unless nothing that the pane draws has changed; a pane that waits always asks again.

        The switcher calls it for each view on screen after a change of the session and when a store has an answer.
        """
        wanted = self.drawing_key(shown, stores)
        if wanted != self._drawing_key:
            self.draw(shown, stores)
            self._drawing_key = None if self.is_waiting or self.is_unfinished else wanted

    def drawing_key(self, shown: Shown, stores: Stores) -> Hashable:
        """Give everything that decides what is drawn."""
        answers = tuple(stores.answers[each] for each in ("", *self.asks))
        return stores, answers, self.size, self.app.theme, tuple(getattr(shown, each) for each in self.uses)

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw what is known of what is shown; looking it up in a store asks for what is missing."""

    def show_title(self, title: Sequence[Part], state: Sequence[str] = ()) -> None:
        """Show what is drawn, and in many words and in fewer, how far it is."""
        self.title_line.show_title(Title.of(self.view, title, state=state))

    def show_drawn(self, title: Sequence[Part], state: Sequence[str] = ()) -> None:
        """Note that there is something to see, and show its title."""
        self.message, self.is_waiting, self.is_blank = "", False, False
        self.show_title(title, state)

    def show_message(self, title: Sequence[Part], message: str, *, is_waiting: bool = False) -> None:
        """Show why there is nothing to draw, or nothing yet."""
        self.message, self.is_waiting, self.is_blank = message, is_waiting, True
        for line in (*self.parts, self.readout_line):
            if isinstance(line, Line):
                line.show("")
        self.replace_by(message)
        self.show_title(title)

    def replace_by(self, message: str) -> None:
        """Show a message in the place of what was drawn."""
        raise NotImplementedError

    def show_missing(self, title: Sequence[Part], answer: object, *, is_late: bool, message: str = COMPUTING) -> None:
        """Show an error, or that an answer is on its way; what is on screen stays for a moment.

        Parameters
        ----------
        title : of the pane.
        answer : an `EngineError`; anything else is on its way.
        is_late : whether the moment has passed.
        message : shown while it is on its way.
        """
        if isinstance(answer, EngineError):
            self.show_message(title, str(answer))
        elif is_late or self.is_blank:
            self.show_message(title, message, is_waiting=True)
        else:
            self.is_waiting = True

    def show_no_sentence(self, title: Sequence[Part], shown: Shown, stores: Stores) -> None:
        """Show how to type a sentence, why the model cannot read one, or that one is read later."""
        outline, is_waiting = stores.outline, shown.waiting_text is not None
        if outline.unreadable:
            message, is_waiting = outline.unreadable, False
        elif is_waiting:
            message = "the sentence is read after the first head …"
        else:
            message = f"press {key_of(self.app, 'app.sentence')} and type a sentence"
        placement = None if stores.memory is None else stores.memory.placement
        warning = "" if placement is None else placement.refusal or placement.notice
        self.show_message(title, "\n".join(filter(None, (message, warning))), is_waiting=is_waiting)

    # --- what can be taken away

    @property
    def table_name(self) -> str:
        """The name of its table."""
        return self.view

    @property
    def subject(self) -> Head | None:
        """The head or layer that the table is of; None for the model."""
        return self.session.shown.selected

    def table_subject(self) -> str:
        """Name what the table is of, for a file's name; `EngineError` when nothing is drawn yet."""
        self.table_on_screen()
        return str(self.subject or "")

    def table_on_screen(self) -> AnyTable:
        """Give the table of what is drawn; `EngineError` when nothing is drawn yet."""
        raise NotImplementedError

    async def whole_table(self) -> AnyTable:
        """Give that table, with what is not in memory; `EngineError` when it cannot be computed again."""
        return self.table_on_screen()

    @property
    def nothing_drawn(self) -> EngineError:
        """The error that there is nothing to write yet."""
        return EngineError(f"{self.view} is still empty; nothing was written")

    @property
    def known(self) -> Stores:
        """The stores of the open model; `EngineError` when none is open."""
        if self.stores is None:
            raise EngineError("no model is open yet; nothing was written")
        return self.stores

    def step_back(self) -> bool:
        """Undo one thing before escape leaves the view; False where there is nothing to undo."""
        return False

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale, where there is one."""

    async def action_step_back(self) -> None:
        """Do what escape does anywhere: stop long work, else step back here, else go to the tree."""
        await self.app.run_action("screen.leave")

    def focus_view(self) -> None:
        """Give the focus to what the pane shows, at once, so that it gets the next key."""
        for widget in self.query("*").results():
            if widget.focusable:
                self.screen.set_focus(widget)
                return


class SentencePane(Pane):
    """A view of a sentence's attention maps, which all have one scale."""

    has_scale = True

    def sentence_of(self, shown: Shown, stores: Stores, title: Sequence[Part]) -> Sentence | None:
        """Give the sentence as the model reads it; None where there is none yet, and a message shows why."""
        maps = stores.maps
        if shown.text is None:
            self.show_no_sentence(title, shown, stores)
            return None
        sentence = maps.sentence(shown)
        if isinstance(sentence, Sentence):
            return sentence
        self.show_missing(title, sentence, is_late=maps.is_late, message="reading the sentence …")
        return None

    @property
    def scale(self) -> Scale:
        """The scale of the maps."""
        raise NotImplementedError

    def toggle_scale(self) -> None:
        """Change to the next scale, in all maps."""
        self.session.change(map_scale=SCALES[(SCALES.index(self.scale) + 1) % len(SCALES)])
