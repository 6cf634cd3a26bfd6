"""The order of keys: as they are declared, and of what has several as it names them, or as a person has."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import ActiveBinding, Binding
from textual.dom import DOMNode


def in_declared_order(active: Iterable[ActiveBinding]) -> list[ActiveBinding]:
    """Sort keys by what they belong to, in the order given, then as the classes declare them, the toolkit's last.

    The toolkit puts those at the end that were given other keys. Of these the first in the file stays the first.
    """
    every = list(active)
    nodes = list(dict.fromkeys(each.node for each in every))
    places = {node: _places(type(node)) for node in nodes}
    return sorted(every, key=lambda each: (nodes.index(each.node), *_place(each, places[each.node])))


def _place(each: ActiveBinding, places: dict[str, tuple[int, str]]) -> tuple[int, int]:
    """Say which of a class's bindings one is, and which of its keys."""
    name, key = each.binding.id or "", each.binding.key
    place, keys = places.get(name, (len(places), ""))
    given = each.node.app._keymap.get(name)
    return place, (keys if given is None else f",{given},").find(f",{key},")


def _places(kind: type[DOMNode]) -> dict[str, tuple[int, str]]:
    """Give each id of a class's bindings its place, its own before those of the classes it is made of, and its keys."""
    declared = [each for base in kind.__mro__ for each in vars(base).get("BINDINGS", ()) if isinstance(each, Binding)]
    keys: dict[str, str] = {}
    for each in declared:
        if each.id is not None:
            keys.setdefault(each.id, f",{each.key},")
    return {name: (place, keys[name]) for place, name in enumerate(keys)}
