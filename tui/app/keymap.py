"""Every binding of the explorer by its id, and the check of a person's own keys."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import format_key

from tui.toolkit.keys import UNBOUND

PACKAGE = Path(__file__).parents[1]


class Bound(NamedTuple):
    """A binding, its default keys, and what it does."""

    id: str
    keys: tuple[str, ...]
    description: str


def classes_with_keys() -> list[type[DOMNode]]:
    """List every class of this package that has bindings: the application, its screens and its widgets."""
    return [
        each
        for module in pkgutil.walk_packages([str(PACKAGE)], "tui.")
        for each in vars(importlib.import_module(module.name)).values()
        if isinstance(each, type) and issubclass(each, DOMNode) and each.__module__ == module.name
        if any("BINDINGS" in vars(base) for base in _own(each))
    ]


def _own(kind: type[DOMNode]) -> list[type[DOMNode]]:
    """List the classes of this package that a class inherits from, itself included."""
    return [base for base in kind.__mro__ if base.__module__.startswith("tui.") and issubclass(base, DOMNode)]


def bindings_of(kind: type[DOMNode]) -> list[Binding]:
    """List the bindings of a class that this package defines, one for each key."""
    return [each for base in _own(kind) for each in Binding.make_bindings(vars(base).get("BINDINGS", ()))]


def every_binding() -> dict[str, Bound]:
    """Collect all bindings by id, sorted by the first part of the id, the application's own first.

    A key that also works in a survey is described as it works in a model.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for kind in sorted(classes_with_keys(), key=lambda kind: "survey" in kind.__module__):
        for each in bindings_of(kind):
            if each.id is not None:
                found[each.id].setdefault(each.key, each.description)
    order = sorted(found, key=lambda name: (not name.startswith("app."), name.partition(".")[0]))
    keys = {name: tuple(key for key in found[name] if not key.startswith(UNBOUND)) for name in order}
    return {name: Bound(name, keys[name], next(iter(found[name].values()))) for name in order}


def readable(key: str) -> str:
    """Write a key for the configuration file: as a character where possible, but a comma by its name."""
    sign = format_key(key)
    return sign if len(sign) == 1 and sign.isascii() and sign not in ' ,"\\' else key


def check_keys(keys: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Split the keys of a file into valid ones by id, and a line about each of the others.

    A binding with invalid keys keeps its own. When two bindings ask for one key, the first in the file gets it.
    """
    known, problems = every_binding(), list[str]()
    parts = [{each.id for each in bindings_of(kind) if each.id is not None} for kind in classes_with_keys()]
    anywhere = {name for name in known if name.startswith("app.")}
    valid: dict[str, str] = {}
    taken = {name: bound.keys for name, bound in known.items() if name not in keys}
    for name, written in keys.items():
        if name not in known:
            problems.append(f"no binding is called {name}; attn-tui config --example lists all")
            continue
        own = known[name].keys
        chosen = tuple(each.key for each in Binding.make_bindings([Binding(written, "", "")])) if written else ()
        beside = anywhere if name in anywhere else {one for part in parts if name in part for one in part - anywhere}
        clashes = (
            (key, other)
            for other in sorted(beside & taken.keys())
            for key in sorted({*chosen} & {*taken[other]} - ({*own} & {*known[other].keys}))
        )
        if clash := next(clashes, None):
            key, other = clash
            said = f"{readable(key)} is taken by {other} ({known[other].description})"
            problems.append(f"{name}: {said}; it keeps {' '.join(map(readable, own)) or 'no key'}")
        else:
            valid[name] = ",".join(chosen)
        taken[name] = own if clash else chosen
    return valid, problems
