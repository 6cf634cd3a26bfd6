"""Names of columns in no more cells than their numbers need: on two lines, or short beside what they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from engine.values.table import CHANCE

NARROW = 12
"""Cells up to which a name stays on one line."""

Title = tuple[str, str]
"""The upper line, mostly empty, and the lower one."""


def titles(columns: Sequence[str], cells: Sequence[int] | None = None) -> tuple[Title, ...]:
    """Write the names of columns; what chance gives for the column before is called just that.

    Parameters
    ----------
    columns : the names.
    cells : how wide each column's cells are where there is little room, so that no name is wider without need.

    Examples
    --------
    >>> titles(["layer", "qk_identity_distance", "qk_identity_distance_chance"])
    (('', 'layer'), ('qk_identity_', 'distance'), ('', 'chance'))
    >>> titles(["from_layer"], [1]), titles(["from_layer"], [10])
    ((('from_', 'layer'),), (('', 'from_layer'),))
    """
    before = ["", *columns]
    return tuple(
        ("", CHANCE.lstrip("_")) if name == f"{last}{CHANCE}" else _on_two_lines(name, room)
        for last, name, room in zip(before, columns, cells or [NARROW] * len(columns), strict=False)
    )


def _on_two_lines(name: str, room: int) -> Title:
    """Break a long name after one of its words, where that makes it narrowest."""
    places = [place + 1 for place, character in enumerate(name[:-1]) if character == "_"]
    if cell_len(name) <= room or not places:
        return "", name
    place = min(places, key=lambda place: max(place, len(name) - place))
    return name[:place], name[place:]
