"""How a text names a key: by what it does, so that it says the one that a person has given it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode

IN_TEXT = {"enter": "Enter", "escape": "esc"}
"""How a text writes keys that the line of keys shows by a sign."""

IN_ASCII = {"up": "Up", "down": "Down", "left": "Left", "right": "Right", "backspace": "Backspace", "enter": "Enter"}
"""How keys are written in ASCII that have a sign of their own."""

UNBOUND = "no key of "
"""Stands before the id of a binding that a person took the keys from, as what is pressed then: the toolkit must be told
a key, of each binding another one, and no terminal sends this."""


def is_bound(binding: Binding) -> bool:
    """Say whether there is a key for something."""
    return not binding.key.startswith(UNBOUND)


def key_of(app: App[Any], name: str) -> str:
    """Write the first key that a binding has now, by the binding's id; where it has none, that id.

    Raises
    ------
    KeyError : when no class that has been imported has such a binding.
    """
    keys = app._keymap.get(name) or _usual(name)
    key = keys.partition(",")[0].strip()
    if key.startswith(UNBOUND):
        return f"{name} (no key)"
    return IN_TEXT.get(key) or app.get_key_display(Binding(key, ""))


@cache
def _usual(name: str) -> str:
    """Find the keys that a binding has unless told otherwise."""
    for kind in _classes(DOMNode):
        for each in vars(kind).get("BINDINGS", ()):
            if isinstance(each, Binding) and each.id == name:
                return each.key
    raise KeyError(name)


def _classes(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    """Give all classes made of one."""
    for each in kind.__subclasses__():
        yield each
        yield from _classes(each)
