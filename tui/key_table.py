"""All of the explorer's keys, made from the bindings themselves, for documentation."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode
from textual.keys import format_key

import tui

Keys = tuple[tuple[str, ...], str]
"""Keys that do the same, and what they do."""

WRITTEN = {"pageup": "PgUp", "pagedown": "PgDn", "escape": "Esc", "enter": "Enter", "tab": "Tab"}
"""How keys are written that the toolkit abbreviates by a sign."""


def key_table() -> list[tuple[str, list[Keys]]]:
    """List the keys by where they work: a word that their ids begin with, and what each does."""
    table: dict[str, dict[str, Keys]] = {}
    for binding in bindings():
        assert binding.id is not None
        place, _, _ = binding.id.partition(".")
        keys, _ = table.setdefault(place, {}).get(binding.id, ((), ""))
        table[place][binding.id] = ((*keys, _written(binding.key)), binding.description)
    places = sorted(table, key=lambda place: (place != "app", place))
    return [("anywhere" if place == "app" else place, list(table[place].values())) for place in places]


def bindings() -> Iterator[Binding]:
    """Give every binding that has an id and belongs to a class of this package, one for each key."""
    for kind in _classes():
        for of_key in BindingsMap(kind.__dict__.get("BINDINGS", ())).key_to_bindings.values():
            yield from (binding for binding in of_key if binding.id is not None)


def _classes() -> list[type[DOMNode]]:
    """Find the classes that may have keys."""
    found: dict[str, type[DOMNode]] = {}
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, DOMNode) and kind.__module__.startswith("tui."):
                found[f"{kind.__module__}.{name}"] = kind
    return list(found.values())


def _written(key: str) -> str:
    """Write a key as a person knows it."""
    return WRITTEN.get(key) or format_key(key)
