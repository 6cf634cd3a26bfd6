"""What the engine thread and the views post to the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from engine.values.heads import Head
    from engine.values.progress import Progress


@dataclass
class ProgressReport(Message):
    """Long work has come further; only the newest such message matters."""

    progress: Progress

    def can_replace(self, message: Message) -> bool:
        """Let a newer report stand for an older one that has not been handled yet."""
        return isinstance(message, ProgressReport)


@dataclass
class SentenceProgress(Message):
    """A model is being loaded, or reads a sentence, for long; only how far that is now matters."""

    progress: Progress

    def can_replace(self, message: Message) -> bool:
        """Let a newer report stand for an older one that has not been handled yet."""
        return isinstance(message, SentenceProgress)


@dataclass
class Notice(Message):
    """A key could do nothing, or nothing that is in view: a line that says so, until the next key."""

    text: str


@dataclass
class CellMoved(Message):
    """The map's cursor is on another cell; only where it is now matters."""

    def can_replace(self, message: Message) -> bool:
        """Let a newer move stand for an older one that has not been handled yet."""
        return isinstance(message, CellMoved)


@dataclass
class TokenPointed(Message):
    """A person moved to a token of the text: the map's cursor is to be on it, as a query or as a key."""

    query: int | None
    key: int | None


@dataclass
class PlaceWanted(Message):
    """A person wants to go to a head, a layer, or a view by its name."""

    place: Head | str


@dataclass
class RoomChanged(Message):
    """A view of several heads has got another size; only the size that it has now matters."""

    def can_replace(self, message: Message) -> bool:
        """Let a newer change stand for an older one that has not been handled yet."""
        return isinstance(message, RoomChanged)


@dataclass
class ConditionWanted(Message):
    """A person has typed a condition where measures are named; it filters the table of all heads."""

    text: str


@dataclass
class HeadEntered(Message):
    """A person wants to go from the overview, or the table of all heads, into a head."""

    head: Head


@dataclass
class NumbersToggled(Message):
    """A person wants weights written into the cells of maps, of all of them, or of none."""

    is_numbered: bool
