"""The measures that the overview can show, in the order in which its keys go through them."""

from __future__ import annotations

from engine.values.table import CHANCE
from engine.values.views import HEAD_PARTS, RANK_MEASURES

_MATRICES = ("ov", "qk", "q", "k", "v", "o")

GROUPS: dict[str, tuple[str, ...]] = {
    **{
        matrix: tuple(name for name, (of, _) in RANK_MEASURES.items() if of.lower() == matrix) for matrix in _MATRICES
    },
    "patterns": tuple(name for name in HEAD_PARTS["patterns"] if not name.endswith(CHANCE)),
    "circuits": tuple(name for name in HEAD_PARTS["circuits"] if not name.endswith(CHANCE)),
}  # fmt: skip
"""Measures that belong together: of one matrix, of where a head looks, of what its circuits do."""

MEASURES = tuple(name for group in GROUPS.values() for name in group)


def measure_after(measure: str, step: int) -> str:
    """Give the measure so many places on.

    Examples
    --------
    >>> measure_after("ov_energy_rank", 1), measure_after("ov_energy_rank", -1)
    ('ov_numerical_rank', 'ov_overlap')
    """
    return MEASURES[(MEASURES.index(measure) + step) % len(MEASURES)]


def group_after(measure: str, step: int) -> str:
    """Give the same measure of a matrix so many groups on, or the first measure of the group where it has none such.

    Examples
    --------
    >>> group_after("ov_stable_rank", 1), group_after("o_stable_rank", 1), group_after("entropy", -1)
    ('qk_stable_rank', 'entropy', 'o_energy_rank')
    """
    names = list(GROUPS)
    here = next(name for name, group in GROUPS.items() if measure in group)
    there = names[(names.index(here) + step) % len(names)]
    same = f"{there}_{RANK_MEASURES[measure][1]}" if measure in RANK_MEASURES else ""
    return same if same in GROUPS[there] else GROUPS[there][0]
