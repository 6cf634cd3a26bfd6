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
    rate : how much is done per second; None where that is not known.
    note : what is to be said beside it ("file 3 of 7", "connection lost, trying again").
    """

    activity: str
    done: int
    total: int
    unit: str
    rate: float | None = None
    note: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.total > 0 and self.done >= self.total

    @property
    def remaining(self) -> float | None:
        """Estimate the seconds that the rest takes, where the rate is known."""
        return None if not self.rate else max(self.total - self.done, 0) / self.rate
