"""What a column of a table holds, for files that say so: whole numbers, numbers, text."""

from __future__ import annotations

import re
from enum import Enum

from engine.values.tables import Cell


class Kind(Enum):
    """What the cells of a column are."""

    WHOLE = "whole numbers"
    NUMBER = "numbers"
    TEXT = "text"
    TOKEN = "text of tokens"
    """Where an empty cell is a token that is written as nothing, and not a cell without a value."""


_WHOLE = re.compile(
    r"layer|from_layer|from_head|rows|cols|index|last_index|query|key|parameters|bytes|place|position|rank|rank_other|token_id"
    r"|(\w+[._])?(energy|numerical)_rank(_change)?|rank_(q|k|v|o|qk|ov)"
    r"|(qk|ov)_(image_in_kernel|factors_lost)"
)
_TEXT = {
    "stack", "head", "matrix", "kind", "side", "end", "note", "name", "shape", "dtype", "tied_to",
    "term", "label", "part", "off", "identity", "verdict", "query_tokens", "key_tokens",
}  # fmt: skip
_TOKENS = {"token", "at", "query_token", "key_token"}

OWN_WORDS = frozenset({"stack", "head", "matrix", "kind", "side", "end", "label", "part", "identity", "verdict"})
"""Columns of texts that no model brings along: each holds one of a few words."""


def kind_of(column: str) -> Kind:
    """Say what a column holds, by its name.

    Examples
    --------
    >>> [kind_of(name).value for name in ("layer", "head", "k_energy_rank_change", "ov.energy_rank", "weight")]
    ['whole numbers', 'text', 'whole numbers', 'whole numbers', 'numbers']
    """
    if column in _TEXT:
        return Kind.TEXT
    if column in _TOKENS:
        return Kind.TOKEN
    return Kind.WHOLE if _WHOLE.fullmatch(column) else Kind.NUMBER


def value_of(cell: Cell, kind: Kind) -> Cell | None:
    """Give a cell as a value of its column's kind; None for an empty one.

    Among whole numbers and numbers a text that is none stays a text, such as ``mean`` in the place of a layer.

    Examples
    --------
    >>> [value_of("3", Kind.WHOLE), value_of("mean", Kind.WHOLE), value_of("", Kind.TEXT), value_of("", Kind.TOKEN)]
    [3, 'mean', None, '']
    """
    if cell == "" and kind is not Kind.TOKEN:
        return None
    if kind is Kind.WHOLE and isinstance(cell, str) and cell.isdecimal():
        return int(cell)
    return cell
