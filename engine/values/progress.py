"""How far a piece of long work has come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Work done of work known, in one unit.

    Attributes
    ----------
    activity : what is being done, in words ("spectra", "downloading gpt2").
    done, total : counted in ``unit``; total 0 means that the amount is not known.
    unit : "heads", "bytes", ...
    """

    activity: str
    done: int
    total: int
    unit: str

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.total > 0 and self.done >= self.total
