"""The models that were opened before: a short list on disk, which may be damaged, unwritable or gone without harm."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.store.directories import state_directory
from engine.store.files import replaced_file
from engine.values.found_models import GONE, FoundModel, Origin
from engine.values.outline import ModelOutline

Describe = Callable[[Path], tuple[str, int, int]]

KEPT = 30
"""Models that are remembered."""

LONGEST = 2**20
"""Bytes beyond which the file is not of this program."""


def recent_file() -> Path:
    """Say where the list is."""
    return state_directory() / "recent.json"


def recent_models(describe: Describe = lambda folder: ("", 0, 0)) -> tuple[FoundModel, ...]:
    """List the models that were opened before, the last one first, and say of folders and files that are gone.

    Parameters
    ----------
    describe : gives the type, layers and heads of the model in a folder, where the list does not have them.
    """
    found = [model for each in _read() if (model := _understood(each, describe)) is not None]
    return tuple(sorted({model.name: model for model in found}.values(), key=lambda model: -model.last_used)[:KEPT])


def remember(name: str, outline: ModelOutline) -> None:
    """Put a model at the head of the list; a disk that cannot be written to is no reason to stop."""
    place = Path(name).expanduser()
    try:
        name = str(place.resolve()) if place.exists() else name
    except OSError:
        return
    first = outline.stack_layers(outline.stacks[0])
    entry = {
        "name": name, "size": outline.stored_bytes, "last_used": time.time(), "model_type": outline.model_type,
        "layers": len(first), "heads": first[0].heads,
    }  # fmt: skip
    entries = [entry, *(each for each in _read() if each.get("name") != name)][:KEPT]
    path = recent_file()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as partial:
            partial.write_text(json.dumps(entries, indent=1), encoding="utf-8")


def _read() -> list[dict[str, Any]]:
    """Read the list as it is on disk; what cannot be read counts as empty."""
    path = recent_file()
    try:
        entries = json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size < LONGEST else []
    except (OSError, ValueError, RecursionError):
        return []
    return [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []


def _understood(entry: dict[str, Any], describe: Describe) -> FoundModel | None:
    """Take an entry as far as it makes sense; None where it names no model."""
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        return None
    size, layers, heads = (
        number if isinstance(number := entry.get(key), int) and number >= 0 else 0
        for key in ("size", "layers", "heads")
    )
    used, model_type = entry.get("last_used"), entry.get("model_type")
    last_used = float(used) if isinstance(used, int | float) and 0 <= used < 2**40 else 0.0
    model_type = model_type if isinstance(model_type, str) else ""
    missing = ""
    if Path(name).is_absolute():
        try:
            missing = "" if Path(name).exists() else GONE
        except OSError:
            missing = "it cannot be read"
        if not missing and not layers:
            model_type, layers, heads = describe(Path(name))
    return FoundModel(name, Origin.RECENT, size, last_used, model_type, layers, heads, missing)
