"""What can be taken out of the explorer, and as what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from engine.store.export import FORMATS, format_of


class What(Enum):
    """What is written; each by the key that chooses it in the menu."""

    VIEW = "v"
    """The table of the active view, with the rows and in the order that are on screen."""
    MODEL = "w"
    """The same table of the whole model, as ``attn-tui export`` prints it."""
    MATRICES = "m"
    """The matrices of what is selected, as NumPy arrays."""
    SVG = "s"
    SCREEN = "S"
    """The whole screen, as SVG."""
    TEXT = "t"
    ANSI = "a"
    """Text with the escape sequences of its colours."""

    @property
    def is_table(self) -> bool:
        """Whether it has a format of its own choice."""
        return self in (What.VIEW, What.MODEL)

    @property
    def is_picture(self) -> bool:
        """Whether it is what the screen shows, and no numbers."""
        return self in _PICTURES


_PICTURES = {What.SVG: ".svg", What.SCREEN: ".svg", What.TEXT: ".txt", What.ANSI: ".ans"}


@dataclass(frozen=True, slots=True)
class Choice:
    """What is written, and for tables as what.

    Attributes
    ----------
    what : the thing.
    format : one of `engine.store.export.FORMATS`, or ``npz`` for the whole model's attention.
    """

    what: What = What.VIEW
    format: str = "csv"

    @property
    def ending(self) -> str:
        """What the file's name ends with."""
        if self.what is What.MATRICES:
            return ".npz"
        return _PICTURES.get(self.what, f".{self.format}")


def formats_for(what: What, view: str) -> tuple[str, ...]:
    """List the formats that one may choose between; none where there is one alone."""
    if not what.is_table:
        return ()
    return (*FORMATS, "npz") if what is What.MODEL and view == "attention" else tuple(FORMATS)


def choice_of(name: str, usual: Choice) -> Choice:
    """Say what a file of a name is to hold: by its ending a picture, text or matrices, else the table of the view.

    Examples
    --------
    >>> choice_of("a.svg", Choice()).what, choice_of("a.npz", Choice()).what, choice_of("b.jsonl", Choice()).format
    (<What.SVG: 's'>, <What.MATRICES: 'm'>, 'jsonl')
    """
    ending = Path(name).suffix
    of_endings = {".npz": What.MATRICES, ".svg": What.SVG, ".txt": What.TEXT, ".ans": What.ANSI}
    what = of_endings.get(ending, What.VIEW)
    return Choice(what, format_of(Path(name)) or usual.format)
