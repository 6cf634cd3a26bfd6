"""Why a cell of a table has nothing in it, as far as the table tells."""

from __future__ import annotations

from collections.abc import Mapping

from engine.values.table import CHANCE, Cell

_OF_EIGENVALUES = ("qk_positive_mass", "qk_negative_mass", "ov_copying", "ov_copying_residual")
"""The measures of circuits that take eigenvalues."""


def why_empty(column: str, row: Mapping[str, Cell], *, is_growing: bool = False) -> str:
    """Say why there is nothing in a column of a row.

    Parameters
    ----------
    column : the empty one.
    row : all its cells by their columns.
    is_growing : whether more of the table is on its way.

    Examples
    --------
    >>> why_empty("qk_symmetry", {"stack": "cross", "head": 0, "qk_symmetry": None})
    'not defined across stacks'
    >>> [why_empty("b_chance", {"stack": "decoder", "b": value, "b_chance": None}) for value in (2.0, None)]
    ['chance is not known for it', 'not defined here']
    >>> why_empty("ov_copying", {"stack": "decoder", "head": "all", "ov_copying": None})
    'it takes eigenvalues, which are worked out of the selected layer'
    >>> why_empty("label", {"label": None, "induction": 0.1, "note": None}), why_empty("note", {"note": None})
    ('no pattern of the head is clear', 'there is nothing to note')
    """
    measure = column.removesuffix(CHANCE)
    if is_growing:
        return "computing …"
    if column == "note":
        return "there is nothing to note"
    if note := row.get("note"):
        return str(note)
    if column == "label" and row.get("induction") is not None:
        return "no pattern of the head is clear"
    if column != measure and row.get(measure) is not None:
        return "chance is not known for it"
    if row.get("stack") == "cross" and measure.startswith(("qk_", "ov_")):
        return "not defined across stacks"
    has_none = all(row.get(each) is None for each in _OF_EIGENVALUES)
    if row.get("head") == "all" and measure in _OF_EIGENVALUES and has_none:
        return "it takes eigenvalues, which are worked out of the selected layer"
    if measure == "ov_copying":
        return "no unembedding is known of this stack, or eigenvalues are zero, or rounding decides them"
    if measure in _OF_EIGENVALUES:
        return "not defined, as all eigenvalues are zero, or rounding decides them"
    return "not defined here"
