"""Errors that a person can act on."""

from __future__ import annotations

from typing import Self

LONGEST = 1000
"""The most characters of a message, as names and values in files may have any length."""


class EngineError(Exception):
    """A request that cannot be met: one line to show, which names the thing and the next step."""

    def __init__(self, said: str) -> None:
        super().__init__(said if len(said) <= LONGEST else f"{said[: LONGEST // 2]} … {said[3 - LONGEST // 2 :]}")


class _WithAdvice(EngineError):
    """An error whose class knows the next step; ``what`` is the message without it."""

    ADVICE = ""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; {self.ADVICE}")
        self.what = what

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.what,)


class LayerLeftOut(_WithAdvice):
    """Nothing can be computed for one layer; other layers may be sound."""

    ADVICE = "no number can be computed for that layer; choose another"


class NotFinite(LayerLeftOut):
    """A layer's weights hold NaN, infinite or far too large numbers; ``what`` says which tensors, and how many."""


class Unread(LayerLeftOut):
    """A layer does not run on a sentence, such as cross-attention without an encoder."""


class NoMap(EngineError):
    """One layer has no map of this sentence; other layers may have theirs."""


class NotFolded(_WithAdvice):
    """The gain of a norm cannot be folded into the weights."""

    ADVICE = "leave --fold-norm out"


class Unreachable(EngineError):
    """The Hub does not answer now; it may a moment later."""


class Superseded(EngineError):
    """A newer request for the same view has replaced this one."""


class Interrupted(Superseded):
    """More urgent work waits for the same thread; the work that this ends begins again later."""
