"""The measures that the overview and the ranks can show, in the order in which keys go through them."""

from __future__ import annotations

from engine.values.errors import EngineError
from engine.values.table import CHANCE
from engine.values.views import HEAD_PARTS, OVERVIEW, RANK_MEASURES
from tui.state.session import Shown

_MATRICES = ("ov", "qk", "q", "k", "v", "o")

GROUPS: dict[str, tuple[str, ...]] = {
    **{matrix: tuple(name for name, (of, _) in RANK_MEASURES.items() if of.lower() == matrix) for matrix in _MATRICES},
    "patterns": tuple(name for name in HEAD_PARTS["patterns"] if not name.endswith(CHANCE)),
    "circuits": tuple(name for name in HEAD_PARTS["circuits"] if not name.endswith(CHANCE)),
}
"""Measures that belong together: of one matrix, of where a head looks, of what its circuits do."""

MEASURES = tuple(name for group in GROUPS.values() for name in group)

_RANKS = tuple(dict.fromkeys(measure for _, measure in RANK_MEASURES.values()))

NAMES = (*_RANKS, *MEASURES)
"""What a measure can be called: of all matrices of the ranks, or of all heads in the overview."""

SIGNED = frozenset({"qk_symmetry", "ov_copying", "ov_copying_residual"})
"""Measures from −1 to 1, of which zero is the middle."""

EPSILONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The steps of ε."""


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
    return {"measure": measure} | ({} if matrix is None else {"overview": f"{matrix[0].lower()}_{measure}"})


def next_measure(shown: Shown, step: int) -> dict[str, str]:
    """Give the fields that show the measure so many places on: the overview's where that is looked at, or the ranks'.

    Examples
    --------
    >>> next_measure(Shown(overview="ov_energy_rank"), -1), next_measure(Shown(view="ranks"), 1)["measure"]
    ({'overview': 'ov_overlap'}, 'numerical_rank')
    """
    if shown.view == OVERVIEW:
        return overview_fields(MEASURES[(MEASURES.index(shown.overview) + step) % len(MEASURES)])
    return measure_fields(shown, _RANKS[(_RANKS.index(shown.measure) + step) % len(_RANKS)])


def named_measure(shown: Shown, name: str) -> dict[str, str]:
    """Give the fields that show the measure of a name, which may be a part of one alone.

    Examples
    --------
    >>> named_measure(Shown(), "stable_rank")["measure"], named_measure(Shown(), "qk_stable")["overview"]
    ('stable_rank', 'qk_stable_rank')

    Raises
    ------
    EngineError : when there is no such measure, or several.
    """
    typed = name.strip().lower()
    found = [typed] if typed in NAMES else [each for each in NAMES if typed and typed in each]
    if len(found) != 1:
        some = ", ".join(found[:4]) if found else "such as qk_stable_rank or induction"
        raise EngineError(f"measure takes one name: {some}")
    return measure_fields(shown, found[0]) if found[0] in _RANKS else overview_fields(found[0])


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


def epsilon_after(epsilon: float, step: int) -> float | None:
    """Give the next larger or smaller ε; None where there is none.

    Examples
    --------
    >>> epsilon_after(0.03, 1), epsilon_after(0.001, -1)
    (0.05, None)
    """
    steps = sorted({*EPSILONS, epsilon})
    place = steps.index(epsilon) + step
    return steps[place] if 0 <= place < len(steps) else None
