"""A double click is meant for one thing: its second click does nothing where something else has come meanwhile."""

from __future__ import annotations

import contextlib

from textual import events
from textual.errors import NoWidget
from textual.geometry import Offset
from textual.widget import Widget

from tui.parts import Parts


class ClickWatch(Parts):
    """An application in which nothing is clicked that was not there when a double click began.

    What the first click does may close a menu, or show another view in the place of what was clicked.
    """

    def __init__(self) -> None:
        super().__init__()
        self._began: tuple[float, Offset, Widget | None] | None = None
        self._is_late = False

    async def on_event(self, event: events.Event) -> None:
        """Hand on what the mouse does, but not a button that is pressed again over something else.

        What has been taken away stays under the mouse until the screen is laid out again, and can be asked nothing.
        """
        if isinstance(event, events.MouseEvent) and not event.is_forwarded and self._is_over_what_is_gone(event):
            return
        if isinstance(event, events.MouseDown) and not event.is_forwarded:
            self._is_late = self._has_changed(event)
        if not (self._is_late and isinstance(event, events.MouseDown | events.MouseUp)):
            await super().on_event(event)

    def _under(self, event: events.MouseEvent) -> Widget | None:
        """Give what is under the mouse."""
        with contextlib.suppress(NoWidget):
            return self.screen.get_widget_at(*event.screen_offset)[0]
        return None

    def _is_over_what_is_gone(self, event: events.MouseEvent) -> bool:
        """Say whether what is under the mouse is no part of the application any more."""
        under = self._under(event) if self.screen_stack else None
        return under is not None and not under.is_attached

    def _has_changed(self, event: events.MouseDown) -> bool:
        """Say whether a button is pressed as before, at once and at the same place, over something else."""
        before, here = self._began, event.screen_offset
        under = self._under(event)
        if before is not None and before[1] == here and event.time - before[0] <= self.CLICK_CHAIN_TIME_THRESHOLD:
            self._began = (event.time, here, before[2])
            return under is not before[2]
        self._began = (event.time, here, under)
        return False
