"""The measures that the overview can show, in the order in which its keys go through them."""

from __future__ import annotations

from engine.values.table import CHANCE
from engine.values.views import HEAD_PARTS, RANK_MEASURES
from tui.state.session import Shown

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


def overview_fields(overview: str) -> dict[str, str]:
    """Give the fields that show a measure in the overview; one of a matrix is shown beside the heads in the tree too.

    Examples
    --------
    >>> overview_fields("qk_stable_rank")
    {'overview': 'qk_stable_rank', 'measure': 'stable_rank'}
    >>> overview_fields("entropy")
    {'overview': 'entropy'}
    """
    measure = RANK_MEASURES.get(overview)
    return {"overview": overview} if measure is None else {"overview": overview, "measure": measure[1]}


def measure_fields(shown: Shown, measure: str) -> dict[str, str]:
    """Give the fields that show a measure in the ranks; an overview of a matrix shows the same measure of that matrix.

    Examples
    --------
    >>> measure_fields(Shown(overview="qk_energy_rank"), "stable_rank")
    {'measure': 'stable_rank', 'overview': 'qk_stable_rank'}
    """
    matrix = RANK_MEASURES.get(shown.overview)
    return {"measure": measure} if matrix is None else {
        "measure": measure, "overview": f"{matrix[0].lower()}_{measure}"
    }  # fmt: skip


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
