"""Short labels of heads whose attention clearly goes to one kind of token."""

from __future__ import annotations

import math
from collections.abc import Mapping

LABELS = {
    "to_previous": "previous",
    "to_first": "first",
    "to_self": "self",
    "to_next": "next",
    "duplicate": "duplicate",
    "induction": "induction",
}
"""What a head is called that attends mostly to one kind of token, by the measure."""

CLEAR = 0.5
"""The share of what lies between chance and everything that makes a score clear: most of what a head has to give."""

RESTING = "first"
"""Where heads rest that find nothing of theirs (Vig & Belinkov 2019, Xiao et al. 2024); it names those alone."""


def label_of(scores: Mapping[str, float], chances: Mapping[str, float]) -> str:
    """Label a head by the measure that stands farthest above chance, if that is clear; else give nothing.

    A head that rests on the first token until a token comes again is named for what it does then.

    Of a score s and its chance c the share ``(s − c) / (1 − c)`` is compared: 0 is uniform attention, and 1 attention
    to nothing else (as Cohen's kappa corrects agreement for chance, 1960).

    Parameters
    ----------
    scores, chances : by the names of `LABELS`; not a number, or left out, where a measure is not defined.

    Examples
    --------
    >>> label_of({"to_previous": 0.7, "to_first": 0.2}, {"to_previous": 0.1, "to_first": 0.1})
    'previous'
    >>> label_of({"to_previous": 0.6}, {"to_previous": 0.25})
    ''
    >>> label_of({"to_first": 0.8, "induction": 0.6}, {"to_first": 0.1, "induction": 0.1})
    'induction'
    """
    shares = {
        LABELS[name]: (score - chances[name]) / (1 - chances[name])
        for name, score in scores.items()
        if name in LABELS and math.isfinite(score) and chances[name] < 1
    }
    clear = {label: share for label, share in shares.items() if share >= CLEAR}
    return max(clear, key=lambda label: (label != RESTING, clear[label]), default="")
