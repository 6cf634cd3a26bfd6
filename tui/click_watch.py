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
        """Hand on a button of the mouse, but not one that is pressed again over something else."""
        if isinstance(event, events.MouseDown) and not event.is_forwarded:
            self._is_late = self._has_changed(event)
        if not (self._is_late and isinstance(event, events.MouseDown | events.MouseUp)):
            await super().on_event(event)

    def _has_changed(self, event: events.MouseDown) -> bool:
        """Say whether a button is pressed as before, at once and at the same place, over something else."""
        before, here = self._began, event.screen_offset
        under: Widget | None = None
        with contextlib.suppress(NoWidget):
            under = self.screen.get_widget_at(*here)[0]
        if before is not None and before[1] == here and event.time - before[0] <= self.CLICK_CHAIN_TIME_THRESHOLD:
            self._began = (event.time, here, before[2])
            return under is not before[2]
        self._began = (event.time, here, under)
        return False
