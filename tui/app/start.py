"""What the explorer starts with: the options of the command line, the environment and the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Config:
    """The contents of a configuration file.

    Attributes
    ----------
    path : of the file.
    values : by the name of a setting; not validated.
    keys : by the id of a binding, its keys, separated by commas, or empty for no key; not validated.
    problems : what is wrong with the file apart from keys, a line each.
    """

    path: Path = Path()
    values: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def checked_keys(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Give the valid keys by id, and what is wrong with the others, a line each; imports every module with keys."""
        if not self.keys:
            return {}, ()
        from tui.app.keymap import check_keys

        keys, problems = check_keys(self.keys)
        return keys, tuple(f"{self.path}: {each}" for each in problems)

    def all_problems(self) -> tuple[str, ...]:
        """List all problems, those of keys included."""
        return (*self.problems, *self.checked_keys()[1])


@dataclass(frozen=True, slots=True)
class Start:
    """What the explorer starts with.

    Attributes
    ----------
    model : its name; None opens the list of models.
    text : the sentence to read; empty for none, None for the last one or `OPENING_SENTENCE`.
    head : the head or layer to begin at, as typed.
    epsilon : the ε of the energy rank, if one was given.
    epsilon_before : the ε of the model that was open before; a remembered ε comes first.
    log_scale : whether spectra and maps begin on the logarithmic scale; None leaves it to each view.
    config : the configuration file; an empty one where none was read.
    is_restoring : whether the last head, view, sentence, measure and theme are restored, and saved.
    keeps_history : whether earlier sentences are listed, and new ones saved.
    """

    model: str | None
    text: str | None = None
    head: str | None = None
    epsilon: float | None = None
    epsilon_before: float | None = None
    log_scale: bool | None = None
    config: Config = Config()
    is_restoring: bool = False
    keeps_history: bool = True

    @property
    def view(self) -> str:
        """The first view: the spectra of a given head, or else the overview."""
        return "overview" if self.head is None else "spectra"
