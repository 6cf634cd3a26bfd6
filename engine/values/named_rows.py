"""What the names of heads and layers, and the short labels of the tree, stand for in the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.values.tables import Cell

NAMING = (("layer", "head"), ("from_layer", "from_head"))
"""Columns that name a head together: the row's own, and the one that feeds it."""

PARAMETER = "name"
"""The column that says what a tensor is called, where rows are of these."""

LABEL = "label"
"""The column that says what a head does."""

SHORT_LABELS = {"previous": "prev", "first": "1st", "duplicate": "dup", "induction": "ind"}
"""Labels as the tree writes them, which is narrow."""

_LONG_LABELS: Mapping[str, str] = {short: label for label, short in SHORT_LABELS.items()}

_NAME = re.compile(
    r"(?:(?P<stack>[a-z][a-z-]*)[.: ]\s*)?(?:l(?:ayer)?\s*(?P<layer>\d{1,9}))?[\s,.]*"
    r"(?:h(?:ead)?\s*(?P<head>\d{1,9}))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Named:
    """A head, a layer, or the heads of one number in all layers, as a person names them.

    Attributes
    ----------
    stack : in lower case; empty for any.
    layer, head : their numbers; None for any.
    """

    stack: str
    layer: int | None
    head: int | None

    def test(self, columns: Mapping[str, int]) -> Callable[[Sequence[Cell]], bool] | None:
        """Make the test whether a row is of it, or says that it is fed by it; None where no column could say so.

        Parameters
        ----------
        columns : the number of each column by its name.
        """
        pairs = [
            (columns.get(layer), columns.get(head))
            for layer, head in NAMING
            if (self.layer is None or layer in columns) and (self.head is None or head in columns)
        ]
        stack, name = columns.get("stack"), columns.get(PARAMETER)
        if name is not None and not pairs and not self.stack and self.head is None:
            return lambda row: layer_in(str(row[name])) == self.layer
        if not pairs or (self.stack and stack is None):
            return None

        def is_of_it(row: Sequence[Cell]) -> bool:
            if self.stack and stack is not None and str(row[stack]).lower() != self.stack:
                return False
            return any(_is(self.layer, row, layer) and _is(self.head, row, head) for layer, head in pairs)

        return is_of_it


def _is(number: int | None, row: Sequence[Cell], place: int | None) -> bool:
    """Say whether a cell holds a number, as a number or as text; any will do for none."""
    return number is None or (place is not None and str(row[place]) == str(number))


def layer_in(name: str) -> int | None:
    """Give the number of the layer that a tensor belongs to, the first number in its name; None where there is none.

    Examples
    --------
    >>> layer_in("encoder.block.3.layer.0.wo.weight"), layer_in("lm_head.weight")
    (3, None)
    """
    return next((int(part) for part in name.split(".") if part.isdigit()), None)


def named(text: str) -> Named | None:
    """Read ``L1H0``, ``L1``, ``H0``, ``layer 1 head 0`` or ``decoder.L1H0``; None where a text is no such name.

    Examples
    --------
    >>> named("l1h0"), named("Layer 3"), named("induction")
    (Named(stack='', layer=1, head=0), Named(stack='', layer=3, head=None), None)
    """
    match = _NAME.fullmatch(text.strip())
    if match is None or not (match["layer"] or match["head"]):
        return None
    layer, head = (None if match[part] is None else int(match[part]) for part in ("layer", "head"))
    return Named((match["stack"] or "").lower(), layer, head)


def number_named(column: str, text: str) -> str:
    """Give the number that a name stands for behind a column of layers or of heads; the text where it is none.

    Examples
    --------
    >>> number_named("layer", "L1"), number_named("from_head", "h3"), number_named("head", "L1")
    ('1', '3', 'L1')
    """
    found = named(text) if any(column in pair for pair in NAMING) else None
    if found is None or found.stack:
        return text
    number, other = (found.layer, found.head) if column.endswith("layer") else (found.head, found.layer)
    return text if number is None or other is not None else str(number)


def test_of_head(column: str, text: str, columns: Mapping[str, int]) -> Callable[[Sequence[Cell]], bool | None] | None:
    """Make the test whether a column of heads is of one that is named with its layer; None where it is another text.

    It is unknown where the cell is empty.
    """
    found, pair = named(text), next((each for each in NAMING if each[1] == column and set(each) <= set(columns)), None)
    if found is None or pair is None or found.layer is None or found.head is None:
        return None
    place = columns[column]
    is_named = found.test({each: columns[each] for each in ("stack", *pair) if each in columns})
    return None if is_named is None else lambda row: None if row[place] == "" else is_named(row)


def long_label(text: str) -> str:
    """Give a label that is written as the tree does in full; any other text as it is.

    Examples
    --------
    >>> long_label("Prev"), long_label("copying")
    ('previous', 'copying')
    """
    return _LONG_LABELS.get(text.strip().lower(), text)
