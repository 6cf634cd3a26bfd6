"""Messages from the engine's thread and from views to the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from engine.values.heads import Head
    from engine.values.progress import Progress


@dataclass
class ProgressReport(Message):
    """Long work has progressed; only the newest report matters."""

    progress: Progress

    def can_replace(self, message: Message) -> bool:
        """Replace older reports in the queue."""
        return isinstance(message, ProgressReport)


@dataclass
class SentenceProgress(Message):
    """A model is loading, or reads a sentence; only the newest report matters."""

    progress: Progress

    def can_replace(self, message: Message) -> bool:
        """Replace older reports in the queue."""
        return isinstance(message, SentenceProgress)


@dataclass
class Notice(Message):
    """A line about the last key, such as why it did nothing; it goes with the next key."""

    text: str


@dataclass
class CellMoved(Message):
    """The map's cursor has moved; only its newest place matters."""

    def can_replace(self, message: Message) -> bool:
        """Replace older moves in the queue."""
        return isinstance(message, CellMoved)


@dataclass
class TokenPointed(Message):
    """The user moved to a token of the text; the map's cursor follows, as query or as key."""

    query: int | None
    key: int | None


@dataclass
class PlaceWanted(Message):
    """The user wants to go to a head, a layer, or a view by name."""

    place: Head | str


@dataclass
class RoomChanged(Message):
    """The size of a view of several heads has changed; only the newest matters."""

    def can_replace(self, message: Message) -> bool:
        """Replace older changes in the queue."""
        return isinstance(message, RoomChanged)


@dataclass
class ConditionWanted(Message):
    """The user typed a condition in place of a measure's name; it filters the table of heads."""

    text: str


@dataclass
class HeadEntered(Message):
    """The user opens a head from the overview or the table of heads."""

    head: Head


@dataclass
class NumbersToggled(Message):
    """The user shows or hides numbers in the cells of all maps."""

    is_numbered: bool
