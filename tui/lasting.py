"""A message that can be shown at any time, for a moment at least."""

from __future__ import annotations

from dataclasses import dataclass, fields

from textual.notifications import Notification

MOMENT = 0.01
"""Seconds."""


@dataclass
class Lasting(Notification):
    """A message whose time may be over just when it is shown.

    The toolkit looks whether a message is over, and then sets a timer for the time that it has left. Where that is
    less than none by then, the timer never ends and nothing else goes on.
    """

    @classmethod
    def of(cls, notification: Notification) -> Lasting:
        """Make it of one of the toolkit's."""
        return cls(**{field.name: getattr(notification, field.name) for field in fields(notification)})

    @property
    def time_left(self) -> float:
        """The time that it has left, always some."""
        return max(super().time_left, MOMENT)

    @property
    def has_expired(self) -> bool:
        """Whether its time is over."""
        return super().time_left <= 0
