"""Every binding of the explorer by its id, and which of the keys that a person chose for some can be had."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys, format_key

MODIFIERS = {"ctrl", "shift", "alt", "meta", "super", "hyper"}
"""What can stand before a key, with a plus sign."""

TWICE = "gg"
"""What two quick presses of g come as."""

_NAMED = {key.value.rpartition("+")[2] for key in Keys} | {TWICE}
"""The keys without a sign."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A binding that can be given other keys.

    Attributes
    ----------
    id : names it.
    keys : that it has unless told otherwise.
    description : what it does.
    """

    id: str
    keys: tuple[str, ...]
    description: str


def classes_with_keys() -> list[type[DOMNode]]:
    """Find every class of this package that keys belong to: the application, its screens and its widgets."""
    import tui

    return [
        each
        for module in pkgutil.walk_packages(tui.__path__, "tui.")
        for each in vars(importlib.import_module(module.name)).values()
        if isinstance(each, type) and issubclass(each, DOMNode) and each.__module__ == module.name
        if any("BINDINGS" in vars(base) for base in _own(each))
    ]


def _own(kind: type[DOMNode]) -> list[type[DOMNode]]:
    """List those classes of this package that a class is made of."""
    return [base for base in kind.__mro__ if base.__module__.startswith("tui.") and issubclass(base, DOMNode)]


def bindings_of(kind: type[DOMNode]) -> list[Binding]:
    """List the bindings that a class has from this package, one for each key."""
    return [each for base in _own(kind) for each in Binding.make_bindings(vars(base).get("BINDINGS", ()))]


def every_binding() -> dict[str, Bound]:
    """Collect all bindings by id, in the order of the ids' first parts: the application's own first."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for kind in classes_with_keys():
        for each in bindings_of(kind):
            if each.id is not None:
                found[each.id][each.key] = each.description
    order = sorted(found, key=lambda name: (not name.startswith("app."), name.partition(".")[0]))
    return {name: Bound(name, tuple(found[name]), next(iter(found[name].values()))) for name in order}


def readable(key: str) -> str:
    """Write a key as one would look for it: a sign by itself, but a comma, which separates keys, by its name.

    Examples
    --------
    >>> readable("question_mark"), readable("comma"), readable("ctrl+q"), readable("left")
    ('?', 'comma', 'ctrl+q', 'left')
    """
    sign = format_key(key)
    return sign if len(sign) == 1 and sign.isascii() and sign not in ' ,"\\' else key


def is_key(key: str) -> bool:
    """Say whether there is a key of a name, as the toolkit writes it.

    Examples
    --------
    >>> is_key("ctrl+n"), is_key("question_mark"), is_key("f5"), is_key("ctrl+nonsense"), is_key("Esc")
    (True, True, True, False, False)
    """
    *modifiers, last = key.split("+")
    return set(modifiers) <= MODIFIERS and (last in _NAMED or len(format_key(last)) == 1)


def check_keys(keys: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Choose which keys of a file can be had, and say what is wrong with the others, a line each.

    A binding whose keys cannot be had keeps its own. Of two that are given the same key the first in the file has it.
    """
    known = every_binding()
    wanted: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, written in keys.items():
        pressed = tuple(each.key for each in Binding.make_bindings([Binding(written, "", "")] if written else []))
        if name not in known:
            same_end = [each for each in known if each.partition(".")[2] == name.rpartition(".")[2]]
            near = difflib.get_close_matches(name, same_end or known, 1, 0.0 if same_end else 0.75)
            hint = f"did you mean {near[0]}?" if near else "attn-tui config --example lists all"
            problems.append(f"no binding is called {name}; {hint}")
        elif unknown := [key for key in pressed if not is_key(key)]:
            how = "keys are written n, N, ?, f5, ctrl+n, shift+left, escape, pagedown"
            problems.append(f"{name}: {', '.join(unknown)} is no key; {how}; it keeps {_own_keys(known[name])}")
        else:
            wanted[name] = pressed
    while clash := _first_clash(known, wanted):
        name, other, key = clash
        del wanted[name]
        taken = f"{readable(key)} is taken by {other} ({known[other].description})"
        problems.append(f"{name}: {taken}; it keeps {_own_keys(known[name])}")
    return {name: ",".join(pressed) for name, pressed in wanted.items()}, problems


def _own_keys(bound: Bound) -> str:
    """Write the keys that a binding has unless told otherwise."""
    return " ".join(map(readable, bound.keys))


def _first_clash(known: Mapping[str, Bound], wanted: Mapping[str, tuple[str, ...]]) -> tuple[str, str, str] | None:
    """Find an id that may not have a key, the other id of the same class that has it, and the key.

    Of two in the file the second may not; what the first such loses can then be had by those that follow.
    """
    together: dict[str, set[str]] = defaultdict(set)
    for kind in classes_with_keys():
        names = {each.id for each in bindings_of(kind) if each.id is not None}
        for name in names & wanted.keys():
            together[name] |= names
    seen: set[str] = set()
    for name, keys in wanted.items():
        seen.add(name)
        for other in sorted(together[name] - {name}):
            if other not in wanted or other in seen:
                usual = {*known[name].keys} & {*known[other].keys}
                if shared := {*keys} & {*wanted.get(other, known[other].keys)} - usual:
                    return name, other, min(shared)
    return None


def bindings() -> Iterator[Binding]:
    """Give every binding that has an id, one for each key, class by class."""
    for kind in classes_with_keys():
        own = Binding.make_bindings(vars(kind).get("BINDINGS", ()))
        yield from (each for each in own if each.id is not None)
