"""The ways in which the explorer is begun among keys at random: with what model, second model, sentence and theme."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.tui.monkey_hands import SENTENCES
from tests.tui.painted_explorer import PaintedExplorer
from tui.app.start import Start
from tui.toolkit.themes import OWN

SHORT = SENTENCES[:3]
"""Sentences to begin with."""


@dataclass(frozen=True)
class Beginning:
    """How the explorer is begun.

    Attributes
    ----------
    model : which is opened; by its name on the command line, or chosen on the opening screen.
    is_named : whether it is on the command line.
    other : a second model beside it, if any.
    text : a sentence, if any.
    theme : its name; None for the usual one.
    ascii_only, uses_cache, is_restoring : as they are asked for.
    """

    model: str
    is_named: bool
    other: str | None
    text: str | None
    theme: str | None
    ascii_only: bool
    uses_cache: bool
    is_restoring: bool

    @classmethod
    def by_chance(cls, chance: random.Random, model: str, models: Sequence[str]) -> Beginning:
        """Draw how to begin with a model."""
        is_named = chance.random() < 0.85
        others = (model, model, *models) if is_named else (model,)  # a pair that is refused could be chosen for ever
        return cls(
            model,
            is_named,
            other=chance.choice(others) if chance.random() < 0.2 else None,
            text=chance.choice((None, None, *SHORT)),
            theme=chance.choice((None, None, *OWN)),
            ascii_only=chance.random() < 0.2,
            uses_cache=chance.random() < 0.5,
            is_restoring=chance.random() < 0.5,
        )

    def __str__(self) -> str:
        """Write it as it would be typed."""
        said = [self.model if self.is_named else "", self.other and f"--vs {self.other}", self.theme]
        kinds = ("--ascii", self.ascii_only), ("--no-cache", not self.uses_cache), ("--fresh", not self.is_restoring)
        return " ".join(filter(None, ("attn-tui", *said, *(kind for kind, holds in kinds if holds))))

    def explorer(self) -> PaintedExplorer:
        """Make the explorer."""
        engine = Engine(EngineOptions(use_cache=self.uses_cache, other=self.other))
        start = Start(self.model if self.is_named else None, text=self.text, is_restoring=self.is_restoring)
        app = PaintedExplorer(engine, start, ascii_only=self.ascii_only)
        app.use_theme(self.theme)
        return app

    def is_refused(self, said: str) -> bool:
        """Say whether the program may end saying so: that two models cannot be compared."""
        return self.other not in (None, self.model) and "compare" in said
