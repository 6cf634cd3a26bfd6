"""Rows of a table as they are worked out, a unit of work at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from engine.values.heads import Head
from engine.values.progress import Lane, Progress

Cell = str | int | float | None
"""None is what is undefined, or not known yet."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that one unit of work gave.

    Attributes
    ----------
    rows : each as long as the table's columns.
    left_out : layers that have no rows, and why, in few words.
    lacking : what is empty in rows, and why, in a sentence each.
    progress : how far the table has come; None where that is not told.
    """

    rows: Sequence[tuple[Cell, ...]] = ()
    left_out: Mapping[Head, str] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    progress: Progress | None = None


Groups: TypeAlias = Iterator[RowGroup | Lane | None]
"""What a view's ``rows`` yields: groups, and between them, as `Work`, a lane to move to or None to let others go first.

So that ``values = yield from model.spectra(…)`` can stand in it.
"""
