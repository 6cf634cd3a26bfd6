"""The order of keys: as they are declared, whatever keys a person gave to some of them."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import ActiveBinding, Binding
from textual.dom import DOMNode


def in_declared_order(active: Iterable[ActiveBinding]) -> list[ActiveBinding]:
    """Sort keys by what they belong to, in the order given, then as the classes declare them, the toolkit's last.

    The toolkit puts those at the end that were given other keys.
    """
    every = list(active)
    nodes = list(dict.fromkeys(each.node for each in every))
    places = {node: _places(type(node)) for node in nodes}
    return sorted(
        every, key=lambda each: (nodes.index(each.node), places[each.node].get(each.binding.id, len(places[each.node])))
    )


def _places(kind: type[DOMNode]) -> dict[str | None, int]:
    """Give each id of a class's bindings its place, its own before those of the classes that it is made of."""
    declared = (each for base in kind.__mro__ for each in vars(base).get("BINDINGS", ()))
    names = dict.fromkeys(each.id for each in declared if isinstance(each, Binding) and each.id is not None)
    return {name: place for place, name in enumerate(names)}
