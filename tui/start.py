"""How the explorer begins."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """What was asked for on the command line.

    Attributes
    ----------
    model : its name; None lets one be chosen.
    text : the sentence to read, if any.
    head : the head or layer to begin at, as typed.
    epsilon : the ε of the energy rank.
    keeps_history : whether sentences are kept for the next start, and those of before are there.
    """

    model: str | None
    text: str | None = None
    head: str | None = None
    epsilon: float = 0.01
    keeps_history: bool = True
