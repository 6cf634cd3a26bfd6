"""The largest weights of a row or a column of a map, named in a line with their tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from tui.drawing.text import fit, harmless

TOP = 5
"""Tokens that a line names at the most."""

LEAST = 0.0005
"""A weight that is named; what is less would be written as nothing."""

ITSELF = "itself"
"""Stands for the token that looks, and is looked at."""

OF_ALL = " of 1.000"
"""The sum of what a query gives to all keys, which is not said where it is as usual."""


def largest_weights(
    begin: str, tokens: Sequence[str], weights: NDArray[np.float32], width: int, own: int | None
) -> str:
    """Name as many of the largest weights as fit into a line, and say their share of the sum where that is not one.

    Where not even the largest fits its token is left out, and its number stays.

    Parameters
    ----------
    begin : what the line begins with.
    tokens, weights : along the row or the column.
    width : cells that there are.
    own : the number of the token that looks or is looked at, among ``tokens``; None where these are others.

    Examples
    --------
    >>> row = np.array([0.5, 0.3, 0.2], dtype=np.float32)
    >>> largest_weights("looks at", ("The", " cat", " sat"), row, 63, 2)
    'looks at 0 "The" 0.500, 1 " cat" 0.300; together 0.800'
    >>> [largest_weights("→", ("The", " cat"), row[:2], width, None) for width in (24, 14)]
    ['→ 0 "The" 0.500 of 0.800', '→ 0 0.500']
    """
    sizes = np.abs(np.nan_to_num(weights))
    order = [at for at in np.argsort(-sizes, kind="stable")[:TOP].tolist() if sizes[at] >= LEAST]
    names = {at: ITSELF if at == own else f"{at} {quoted(tokens[at])}" for at in order}
    whole, line = float(weights.sum()), f"{begin} nothing above {LEAST:g}"
    of = f" of {whole:.3f}"  # there is room for it in any case, lest a move that needs it changes all before it
    for count in range(len(order), 0, -1):
        named = ", ".join(f"{names[at]} {weights[at]:.3f}" for at in order[:count])
        shown = float(weights[order[:count]].sum())
        line = f"{begin} {named}{f'; together {shown:.3f}' if count > 1 else ''}"
        if cell_len(line + of) <= width:
            return line if of == OF_ALL else line + of
    return line if cell_len(line) <= width or not order else f"{begin} {order[0]} {weights[order[0]]:.3f}"


def quoted(token: str) -> str:
    """Write a token in quotation marks, cut where it is long."""
    shown = harmless(token)
    return f'"{fit(shown, 12).rstrip() if len(shown) > 12 else shown}"'
