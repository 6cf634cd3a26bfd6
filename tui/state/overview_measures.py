"""The measures of the overview and the ranks, in the order in which keys go through them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.values.errors import EngineError
from engine.values.table import CHANCE, RANK_COLUMNS, Cell, Table
from engine.values.views import HEAD_PARTS, HEADS, RANK_MEASURES, Query, parts_of
from tui.state.session import Shown

if TYPE_CHECKING:
    from tui.state.stores import Stores
    from tui.state.tables import TableKey

_MATRICES = ("qk", "ov", "q", "k", "v", "o")

GROUPS: dict[str, tuple[str, ...]] = {
    **{matrix: tuple(name for name, (of, _) in RANK_MEASURES.items() if of.lower() == matrix) for matrix in _MATRICES},
    "patterns": tuple(name for name in HEAD_PARTS["patterns"] if not name.endswith(CHANCE)),
    "circuits": tuple(name for name in HEAD_PARTS["circuits"] if not name.endswith(CHANCE)),
}
"""Measures that belong together: of one matrix, of patterns, of circuits."""

MEASURES = tuple(name for group in GROUPS.values() for name in group)

RANKS = tuple(dict.fromkeys(measure for _, measure in RANK_MEASURES.values()))
"""The measures of singular values, without a matrix."""

NAMES = (*RANKS, *MEASURES)
"""The names of all measures: those of the ranks, without a matrix, and those of the overview."""

SIGNED = frozenset({"qk_symmetry", "ov_copying", "ov_copying_residual"})
"""Measures from −1 to 1, with zero in the middle."""

_COUNTS = ("energy_rank", "numerical_rank")

LOGARITHMIC = frozenset(name for name, (_, measure) in RANK_MEASURES.items() if measure not in _COUNTS)
"""Measures whose usual scale is logarithmic, as one head may be far above the others."""

EPSILONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The steps of ε."""


def overview_fields(overview: str) -> dict[str, str]:
    """Give the fields that show a measure in the overview; the tree and the ranks follow if it is one of a matrix.

    Examples
    --------
    >>> overview_fields("qk_stable_rank")
    {'mapped': 'qk', 'measure': 'stable_rank'}
    >>> overview_fields("entropy")
    {'mapped': 'entropy'}
    """
    if overview not in RANK_MEASURES:
        return {"mapped": overview}
    matrix, measure = RANK_MEASURES[overview]
    return {"mapped": matrix.lower(), "measure": measure}


def named_measure(name: str) -> dict[str, str]:
    """Give the fields that show a measure by its name or an unambiguous part of it.

    Examples
    --------
    >>> named_measure("stable_rank"), named_measure("qk_stable")
    ({'measure': 'stable_rank'}, {'mapped': 'qk', 'measure': 'stable_rank'})

    Raises
    ------
    EngineError : when there is no such measure, or several.
    """
    typed = name.strip().lower()
    found = [typed] if typed in NAMES else [each for each in NAMES if typed and typed in each]
    if len(found) > 1:
        raise EngineError(f"measure takes one name: {', '.join(found[:4])}")
    if not found:
        raise EngineError(f"there is no measure '{typed}'; name one, such as qk_stable_rank or induction")
    return {"measure": found[0]} if found[0] in RANKS else overview_fields(found[0])


def next_group(measure: str) -> str:
    """Give the same measure of the next matrix, or the first measure of a group that lacks it.

    Examples
    --------
    >>> next_group("ov_stable_rank"), next_group("o_stable_rank"), next_group("entropy")
    ('q_stable_rank', 'entropy', 'qk_symmetry')
    """
    names = list(GROUPS)
    here = next(name for name, group in GROUPS.items() if measure in group)
    there = names[(names.index(here) + 1) % len(names)]
    same = f"{there}_{RANK_MEASURES[measure][1]}" if measure in RANK_MEASURES else ""
    return same if same in GROUPS[there] else GROUPS[there][0]


def epsilon_after(epsilon: float, step: int) -> float | None:
    """Give the next larger or smaller ε; None at the end.

    Examples
    --------
    >>> epsilon_after(0.03, 1), epsilon_after(0.001, -1)
    (0.05, None)
    """
    steps = sorted({*EPSILONS, epsilon})
    place = steps.index(epsilon) + step
    return steps[place] if 0 <= place < len(steps) else None


def table_of(measure: str, text: str | None) -> TableKey:
    """Give the part of the table of all heads with a measure: circuits, or patterns (of the sentence)."""
    (part,) = parts_of((measure,))
    return HEADS.name, Query(text=(text or None) if part == "patterns" else None, parts=(part,))


def by_spread(stores: Stores, shown: Shown) -> tuple[str, ...]:
    """Order the measures by how much the model's heads differ in them; measures not known yet come last.

    Condition numbers count by their logarithms: a single one of 10⁸ would hide the others.
    """
    heads = [head for layer in stores.outline.layers for head in layer.head_names()]
    measured = stores.spectra.measures(heads, shown.epsilon).values()
    spreads: dict[str, float] = {}
    for name, (matrix, measure) in RANK_MEASURES.items():
        place = RANK_COLUMNS.index(measure)
        spreads[name] = spread((rows[matrix][place] for rows in measured if matrix in rows), "condition" in name)
    for name in set(MEASURES) - spreads.keys():
        if isinstance(found := stores.tables.peek(table_of(name, shown.text)), Table):
            spreads[name] = spread(found.frame[name])
    return tuple(sorted(MEASURES, key=lambda name: -spreads.get(name, 0.0)))


def spread(cells: Iterable[Cell], is_logarithmic: bool = False) -> float:
    """Give the standard deviation of numbers over their root mean square: 0 if they are equal, 1 at most.

    Examples
    --------
    >>> spread([3.0, 3.0, None, ""]), round(spread([1, 3]), 2), round(spread([1.0, 1000.0], True), 2)
    (0.0, 0.45, 0.71)
    """
    import numpy as np  # late, so that the first frame does not wait for it

    values = np.array([cell for cell in cells if isinstance(cell, int | float)], dtype=np.float64)
    values = values[np.isfinite(values)]
    if is_logarithmic:
        values = np.log(values[values > 0])
    size = float(np.sqrt(np.mean(values**2))) if values.size else 0.0
    return float(np.std(values)) / size if size else 0.0
