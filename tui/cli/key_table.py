"""All of the explorer's keys, made from the bindings themselves, for documentation."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode

import tui

WRITTEN = {"pageup": "PgUp", "pagedown": "PgDn", "escape": "Esc", "enter": "Enter", "tab": "Tab"}
"""How keys are written that the toolkit abbreviates by a sign."""


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
