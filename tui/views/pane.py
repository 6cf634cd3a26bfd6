"""What the views have in common: a title above, a line below that reads out what is under the cursor."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import ClassVar

from textual.widget import Widget

from tui.state.session import Session, Shown
from tui.state.stores import Stores
from tui.widgets.line import Framed, Line


class Pane(Framed):
    """A view beside the tree.

    Attributes
    ----------
    session : which holds what is shown, and is told what a person wants to see.
    stores : what is known of the open model; None before one is open.
    view : what the view is called.
    has_scale : whether it draws on a scale that can be changed.
    is_beside_map : whether a large terminal shows the map beside it.
    follows_cursor : whether it is of the cell under the map's cursor.
    is_of_sentence : whether it stays the view that is looked at when another sentence is typed.
    is_stopped : whether what is lacking of it will not come by itself.
    is_waiting : whether nothing of what it is to show has come yet, nor why it will not; a line says so in its place,
        unless what was there before stays for a moment.
    uses : the fields of `Shown` that it draws.
    asks : the stores of which it draws answers.
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

    def __init__(self) -> None:
        super().__init__(self.view, "framed pane", key=f"app.{self.view}")
        self.is_waiting = True
        self.is_unfinished = False
        self.is_stopped = False
        self._drawn_of: Hashable = None
        self.readout_line = Line(classes="pane-readout")

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """The words of the keys that the line at the foot begins with, by their bindings' ids."""
        return {}

    @property
    def room(self) -> int:
        """The cells of a line, those that are likely where the pane has not been laid out; 0 while none is."""
        around = (each.content_size.width for each in self.ancestors if isinstance(each, Widget))
        return max((self.content_size.width or next(filter(None, around), 0)) - 2, 0)

    def draw_changes(self, shown: Shown, stores: Stores) -> None:
        """Draw what is shown, unless nothing of what it draws has changed; while it waits it asks anew in any case.

        It is called for each view on screen when something else is shown, and when a store has an answer.
        """
        wanted = self.drawn_of(shown, stores)
        if wanted != self._drawn_of:
            self.draw(shown, stores)
            self._drawn_of = None if self.is_waiting or self.is_unfinished else wanted

    def drawn_of(self, shown: Shown, stores: Stores) -> Hashable:
        """Give all that decides what is drawn."""
        answers = tuple(stores.answers[each] for each in ("", *self.asks))
        return stores, answers, self.size, self.app.theme, tuple(getattr(shown, each) for each in self.uses)

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw what is shown of what is known; what is not known yet is asked for by the store that lacks it."""

    def step_back(self) -> bool:
        """Take back one thing before escape leads out of the view; False where there is none."""
        return False

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale, where there is one."""

    async def action_step_back(self) -> None:
        """Do what escape does anywhere: stop work that goes on, then take a step back here, then go to the tree."""
        await self.app.run_action("screen.leave")

    def focus_view(self) -> None:
        """Put the focus on what the pane shows, at once, so that the next key goes there however fast it comes."""
        for widget in self.query("*").results():
            if widget.focusable:
                self.screen.set_focus(widget)
                return
