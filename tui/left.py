"""How the parts of the explorer are looked at, in words that a file keeps, and how they begin with them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from engine.values.errors import EngineError

Left = Mapping[str, str]
"""What is looked at otherwise than at first, each thing by its name, and how."""


class Keeps(Protocol):
    """A part that can be left in some way and look so again."""

    @property
    def left(self) -> dict[str, str]:
        """What is looked at otherwise than at first; what is to come back and has not yet, as it is to be."""

    def take_up(self, what: str, said: str) -> None:
        """Look at one thing as it was left; one that is not known here is let be.

        Raises
        ------
        ValueError, EngineError : where it cannot be looked at so.
        """


def begin_with(part: Keeps, left: Left) -> None:
    """Have a part look as it was left, but for what has been changed already; what does not fit is left out."""
    changed = part.left
    for what, said in left.items():
        if what not in changed:
            with suppress(ValueError, EngineError):
                part.take_up(what, said)


def within(name: str, left: Left) -> dict[str, str]:
    """Give what a part within another one was left in, by the other's names.

    Examples
    --------
    >>> within("maps", {"scale": "log"})
    {'maps scale': 'log'}
    """
    return {f"{name} {what}": said for what, said in left.items()}


def beginning(left: Left, but: Iterable[str]) -> dict[str, str]:
    """Leave out things by the last word of their names.

    Examples
    --------
    >>> beginning({"maps scale": "log", "side": "maps"}, ["scale"])
    {'side': 'maps'}
    """
    left_out = frozenset(but)
    return {what: said for what, said in left.items() if what.rpartition(" ")[2] not in left_out}


def either(said: str, *words: str) -> str:
    """Give a word that is one of some.

    Raises
    ------
    ValueError : where it is none of them.
    """
    if said not in words:
        raise ValueError(said)
    return said
