"""Messages from the engine's thread and from views to the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from engine.values.heads import Head
    from engine.values.progress import Progress


class NewestMessage(Message):
    """A message of which only the newest matters."""

    def can_replace(self, message: Message) -> bool:
        """Replace older messages of the same kind in the queue."""
        return isinstance(message, type(self))


@dataclass
class ProgressReport(NewestMessage):
    """Long work has progressed."""

    progress: Progress


@dataclass
class SentenceProgress(NewestMessage):
    """A model is loading, or reads a sentence."""

    progress: Progress


@dataclass
class Notice(Message):
    """A line about the last key, such as why it did nothing; it goes with the next key."""

    text: str


@dataclass
class PlaceWanted(Message):
    """The user wants to go to a head, a layer, or a view by name."""

    place: Head | str


class DrawingWanted(NewestMessage):
    """A view has other room, or the map's cursor another cell."""


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
