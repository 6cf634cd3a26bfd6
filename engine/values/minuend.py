"""What a map is subtracted from, where a difference of two maps is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.heads import MapName


@dataclass(frozen=True, slots=True)
class Minuend:
    """The map that another one is subtracted from: a difference is this one less that one.

    Attributes
    ----------
    name : a map of the same reading; None for the same map of another one: with heads switched off, where any are, or
        else of the second model.
    """

    name: MapName | None = None
