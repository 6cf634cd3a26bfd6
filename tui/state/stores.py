"""What is known of the open model: one store for each kind of answer that views show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.outline import ModelOutline


@dataclass
class Stores:
    """What views draw beside what is shown; made anew for each model that is opened.

    Attributes
    ----------
    engine : who answers.
    outline : of the model.
    arrived : called, on any thread, when a store has an answer that it did not have: all views on screen are drawn.
    """

    engine: Engine
    outline: ModelOutline
    arrived: Callable[[], None]
