"""How the explorer begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Configuration(Protocol):
    """What a person has set in a file."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def keys(self) -> Mapping[str, str]:
        """By the id of a binding, its keys, separated by commas, none if it is to have none; not checked yet."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the file beside keys, a line each."""

    def checked_keys(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Give the keys that can be had, by id, and what is wrong with the others, which takes a while."""


@dataclass(frozen=True, slots=True)
class Start:
    """What was asked for on the command line, or set in the environment or the configuration file.

    Attributes
    ----------
    model : its name; None lets one be chosen.
    text : the sentence to read, if any.
    head : the head or layer to begin at, as typed.
    epsilon : the ε of the energy rank; None where nobody said.
    epsilon_before : the ε of the model that was open before, for one of which none is remembered.
    log_scale : whether spectra and maps begin on the logarithmic scale; None leaves it to each.
    config : the configuration file, whose keys are taken and whose problems are shown; None where none was read.
    is_restoring : whether what was looked at last comes back, and is kept.
    keeps_history : whether sentences are kept for the next start, and those of before are there.
    """

    model: str | None
    text: str | None = None
    head: str | None = None
    epsilon: float | None = None
    epsilon_before: float | None = None
    log_scale: bool | None = None
    config: Configuration | None = None
    is_restoring: bool = False
    keeps_history: bool = True

    @property
    def view(self) -> str:
        """What is looked at first: the head that was asked for, or else the whole model."""
        return "overview" if self.head is None else "spectra"
