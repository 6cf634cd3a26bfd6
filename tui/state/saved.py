"""What was looked at last, kept in small files: one for each model, one for the theme, one for what was exported."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from engine.store.files import state_directory

MODELS = 100
"""Models that are remembered; of more, those not looked at for longest are forgotten."""

LONGEST = 20_000
"""Characters of a sentence that is remembered."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """How a model was left; what is not known is empty.

    Attributes
    ----------
    model : its name, as in the file's own words.
    head : the head or layer, with its stack: ``decoder.L5H1``.
    view : the active view.
    text : the sentence.
    measure : of the ranks.
    epsilon : of the energy rank; 0 where it was not changed from what was asked for.
    overview : the measure that the overview shows.
    pins : the pinned heads, each with its stack, commas between them.
    """

    model: str = ""
    head: str = ""
    view: str = ""
    text: str = ""
    measure: str = ""
    epsilon: float = 0.0
    overview: str = ""
    pins: str = ""


def model_key(model: str, revision: str | None) -> str:
    """Name a model so that it is the same from any folder.

    Examples
    --------
    >>> model_key("gpt2", "main")
    'gpt2@main'
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        if Path(model).exists():
            model = str(Path(model).resolve())
    return model if revision is None else f"{model}@{revision}"


def place_of(key: str) -> Path:
    """Say where a model's file is."""
    return state_directory() / "models" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def recall(key: str) -> Remembered:
    """Read how a model was left; of a file that is not there, or not as it should be, what can be used."""
    said = _read(place_of(key))
    known = {
        each.name: said[each.name]
        for each in fields(Remembered)
        if isinstance(said.get(each.name), (float, int) if each.name == "epsilon" else str)
    }
    found = Remembered(**known)
    return found if 0 <= found.epsilon < 1 else replace(found, epsilon=0.0)


def remember(key: str, state: Remembered) -> None:
    """Write how a model is left; where that cannot be written, it is not remembered."""
    place = place_of(key)
    _write(place, asdict(state))
    with contextlib.suppress(OSError):
        kept = sorted(place.parent.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in kept[MODELS:]:
            path.unlink(missing_ok=True)


def theme_file() -> Path:
    """Say where the theme is kept."""
    return state_directory() / "theme.json"


def recall_theme() -> str | None:
    """Give the theme that was chosen last, if one was."""
    name = _read(theme_file()).get("theme")
    return name if isinstance(name, str) else None


def remember_theme(name: str) -> None:
    """Keep a theme that was chosen."""
    _write(theme_file(), {"theme": name})


def trouble() -> str:
    """Say why nothing can be kept, where that is so."""
    folder = state_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"nothing of this is remembered: {folder} cannot be written: {error.strerror or error}"


def _read(path: Path) -> dict[str, Any]:
    """Read a file, or nothing where that cannot be done."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _write(path: Path, said: dict[str, Any]) -> None:
    """Write a file that is complete or as it was, and that nobody else can read; another process may do the same."""
    partial = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
                json.dump(said, stream)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
