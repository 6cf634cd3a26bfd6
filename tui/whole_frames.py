"""When a screen is painted: once all has been handled that a key, or an answer of the engine, set off.

What one key changes goes from part to part as messages: the map's cursor moves, then its readout follows, then the text
beside it. The toolkit paints what the first of them changed at once, and the rest a sixtieth of a second later. Two
frames name the same places and colours twice, and the second comes late.
"""

from __future__ import annotations

import asyncio
import time

from textual import screen
from textual.screen import Screen, ScreenResultType
from textual.timer import Timer

LONGEST = 0.02
"""Seconds of work that what is to be painted waits for at the most; where other programs work too, they are longer."""


class WholeFrames(Screen[ScreenResultType]):
    """A screen that is painted when no part has anything left to handle."""

    _painting: Timer | None = None

    @property
    def _update_timer(self) -> Timer:
        """What paints, as often as the toolkit does; it is stopped while there is nothing to paint."""
        if self._painting is None:
            self._painting = self.set_interval(screen.UPDATE_PERIOD, self._paint, name="screen_update", pause=True)
        return self._painting

    async def _paint(self) -> None:
        """Paint what has changed, once nothing more is on its way."""
        end = time.thread_time() + LONGEST
        while self._is_being_handled and time.thread_time() < end:
            await asyncio.sleep(0)
        self._on_timer_update()

    @property
    def _is_being_handled(self) -> bool:
        """Whether any part has been told something that it has not handled yet."""
        return any(part.message_queue_size for part in (self.app, *self.app._registry))
