"""What was typed and opened before, kept from one start to the next in files that may be damaged or gone without harm.

Sentences are lines of JSON, the oldest first; models are one list, the last one first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.store.files import replaced_file, state_directory
from engine.values.found_models import GONE, FoundModel, Origin
from engine.values.outline import ModelOutline

MOST_SENTENCES = 500
"""That are kept."""

MOST_BYTES = 1_000_000
"""Of the file of sentences; the oldest go first, and one larger than that is not kept."""

KEPT = 30
"""Models that are remembered."""

LONGEST = 2**20
"""Bytes beyond which a list of models is not of this program."""


def history_file() -> Path:
    """Say where sentences are kept between runs."""
    return state_directory() / "sentences.jsonl"


class SentenceStore:
    """The file of sentences, if there is one; every method may wait for the disk, so none belongs on the event loop.

    Another program's sentences are not lost: what is in the file is read again before it is written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self) -> tuple[str, ...]:
        """Read the sentences, the oldest first; a line that is no sentence is left out, and no file holds none."""
        if self._path is None:
            return ()
        try:
            if self._path.stat().st_size > 4 * MOST_BYTES:
                return ()  # nothing of ours
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()
        return tuple(filter(None, map(_sentence, text.split("\n"))))[-MOST_SENTENCES:]

    def add(self, text: str) -> None:
        """Keep a sentence as the newest one.

        Raises
        ------
        OSError : when the file cannot be written; it is then as it was.
        """
        self._write([*(each for each in self.load() if each != text), text])

    def remove(self, text: str) -> None:
        """Keep a sentence no longer.

        Raises
        ------
        OSError : as in `add`.
        """
        self._write(each for each in self.load() if each != text)

    def _write(self, sentences: Iterable[str]) -> None:
        """Write the newest sentences that there is room for, for this person's eyes alone."""
        if self._path is None:
            return
        lines = [json.dumps(each, ensure_ascii=False).encode(errors="replace") + b"\n" for each in sentences]
        lines = lines[-MOST_SENTENCES:]
        while sum(map(len, lines)) > MOST_BYTES:
            lines.pop(0)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(self._path) as partial:
            partial.touch(mode=0o600)
            partial.write_bytes(b"".join(lines))


def _sentence(line: str) -> str:
    try:
        found = json.loads(line)
    except ValueError:
        return ""
    return found if isinstance(found, str) and found.strip() else ""


def recent_file() -> Path:
    """Say where the list of models is."""
    return state_directory() / "recent.json"


def recent_models() -> tuple[FoundModel, ...]:
    """List the models that were opened before, the last one first, and say of folders and files that are gone."""
    found = [model for each in _read() if (model := _understood(each)) is not None]
    return tuple(sorted({model.name: model for model in found}.values(), key=lambda model: -model.last_used)[:KEPT])


def remember(name: str, outline: ModelOutline) -> None:
    """Put a model at the head of the list; a disk that cannot be written to is no reason to stop."""
    first = outline.stack_layers(outline.stacks[0])
    with suppress(OSError):
        place, path = Path(name).expanduser(), recent_file()
        name = str(place.resolve()) if place.exists() else name
        entry = {
            "name": name, "size": outline.stored_bytes, "last_used": time.time(), "model_type": outline.model_type,
            "layers": len(first), "heads": first[0].heads,
        }  # fmt: skip
        entries = [entry, *(each for each in _read() if each.get("name") != name)][:KEPT]
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


def _understood(entry: dict[str, Any]) -> FoundModel | None:
    """Take an entry as it was written; None where it is spoilt."""
    try:
        name, model_type = str(entry["name"]), str(entry["model_type"])
        size, layers, heads = (int(entry[key]) for key in ("size", "layers", "heads"))
        missing = GONE if Path(name).is_absolute() and not Path(name).exists() else ""
        return FoundModel(name, Origin.RECENT, size, float(entry["last_used"]), model_type, layers, heads, missing)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
