"""What goes wrong for a reason a person can act on."""

from __future__ import annotations

from typing import Self

LONGEST = 1000
"""Characters that are said of an error; names and values in files may be of any length."""


class EngineError(Exception):
    """A request that cannot be met: one line that names the thing and the next step, fit to be shown as it is."""

    def __init__(self, said: str) -> None:
        super().__init__(said if len(said) <= LONGEST else f"{said[: LONGEST // 2]} … {said[3 - LONGEST // 2 :]}")


class _WithAdvice(EngineError):
    """What is wrong, and behind it what can be done of all such things.

    Attributes
    ----------
    what : why, in few words.
    """

    ADVICE = ""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; {self.ADVICE}")
        self.what = what

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.what,)


class LayerLeftOut(_WithAdvice):
    """Of one layer nothing can be worked out; of others it can."""

    ADVICE = "no number can be computed for that layer; choose another"


class NotFinite(LayerLeftOut):
    """A layer's weights hold NaN, infinite or far too large numbers; ``what`` says which tensors, and how many."""


class Unread(LayerLeftOut):
    """A layer takes no part in reading a sentence, as one that looks at an encoder where there is none."""


class NoMap(EngineError):
    """A layer has no map of this sentence to show, for a reason of its own; others may have theirs."""


class NotFolded(_WithAdvice):
    """The gain of a norm cannot be folded into weights; without it they can be looked at."""

    ADVICE = "leave --fold-norm out"


class Superseded(EngineError):
    """A newer request for the same view has replaced this one; nobody waits for its answer any more."""


class Interrupted(Superseded):
    """More urgent work waits for the same thread; the unit that this ends is to be done again from its beginning."""
