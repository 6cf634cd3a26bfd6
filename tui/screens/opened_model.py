"""A model that a person has chosen and that is open by now."""

from __future__ import annotations

from dataclasses import dataclass

from engine.service.engine import Engine
from engine.values.outline import ModelOutline


@dataclass(frozen=True)
class Opened:
    """A model that has been opened.

    Attributes
    ----------
    name : as it was asked for.
    engine : its own.
    outline : what is known of it.
    """

    name: str
    engine: Engine
    outline: ModelOutline
