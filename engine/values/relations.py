"""Relations of a table's cells, which hold, do not hold, or cannot be told where a cell is empty."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

from engine.values.tables import Cell

Truth = bool | None
"""None where it cannot be told (Kleene 1938)."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf", re.IGNORECASE)


def any_of(truths: Iterable[Truth]) -> Truth:
    """Join by ``or``: true where one is, unknown where one may be."""
    found = set(truths)
    return True if True in found else None if None in found else False


def opposite(truth: Truth) -> Truth:
    """Turn around what is known."""
    return None if truth is None else not truth


def number(cell: Cell) -> float | None:
    """Give a cell as a number, if it is one: ``3`` of a head's name too, but no NaN."""
    if isinstance(cell, str):
        return float(cell) if _NUMBER.fullmatch(cell) else None
    return None if math.isnan(cell) else cell


def is_empty(cell: Cell) -> bool:
    """Say whether there is nothing to compare."""
    return cell == "" or (isinstance(cell, float) and math.isnan(cell))


def is_ordered(order: Callable[[float, float], bool], one: Cell, other: Cell) -> Truth:
    """Compare by size; unknown unless both are numbers."""
    left, right = number(one), number(other)
    return None if left is None or right is None else order(left, right)


def is_same(one: Cell, other: Cell, *, is_exact: bool = False, heeds_case: bool = False) -> Truth:
    """Compare as numbers where both are, else as texts, whose spaces at the ends count only where it is exact.

    Upper and lower case count where it is exact, and where they are heeded.
    """
    if is_empty(one) or is_empty(other):
        return None
    left, right = number(one), number(other)
    if left is not None and right is not None:
        return left == right
    if is_exact:
        return str(one) == str(other)
    one_text, other_text = str(one).strip(), str(other).strip()
    return one_text == other_text or (not heeds_case and one_text.casefold() == other_text.casefold())


def contains(cell: Cell, part: Cell) -> Truth:
    """Look for a text in a cell, as it is written, without regard to case."""
    return None if is_empty(cell) or is_empty(part) else str(part).casefold() in str(cell).casefold()
