"""Sentences and models of earlier starts, in files that may be damaged or missing without harm.

Sentences are lines of JSON, the oldest first; models are one list, the latest first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.store.files import replaced_file, state_directory
from engine.values.outline import GONE, FoundModel, ModelOutline, Origin

MOST_SENTENCES = 500
"""Sentences that are kept."""

MOST_BYTES = 1_000_000
"""Bytes that the file of sentences may have; the oldest sentences are dropped first."""

MOST_MODELS = 30
"""Models that are remembered."""


def history_file() -> Path:
    """Return the file of sentences."""
    return state_directory() / "sentences.jsonl"


class SentenceStore:
    """The file of sentences, if there is one; its methods wait for the disk, so the event loop must not call them.

    The file is read again before it is written, so that sentences of other programs are not lost.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self) -> tuple[str, ...]:
        """Read the sentences, the oldest first; lines that are no sentences are skipped."""
        if self._path is None:
            return ()
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()
        return tuple(filter(None, map(_parse_sentence, text.split("\n"))))[-MOST_SENTENCES:]

    def add(self, text: str) -> None:
        """Add a sentence as the newest one; `OSError` when the file cannot be written, which leaves it unchanged."""
        self._write([*(each for each in self.load() if each != text), text])

    def remove(self, text: str) -> None:
        """Remove a sentence; `OSError` as in `add`."""
        self._write(each for each in self.load() if each != text)

    def _write(self, sentences: Iterable[str]) -> None:
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


def _parse_sentence(line: str) -> str:
    try:
        found = json.loads(line)
    except ValueError:
        return ""
    return found if isinstance(found, str) and found.strip() else ""


def recent_file() -> Path:
    """Return the file with the list of models."""
    return state_directory() / "recent.json"


def recent_models() -> tuple[FoundModel, ...]:
    """List the models that were opened before, the latest first, and mark those whose folder or file is gone."""
    return tuple(model for each in _read_models() if (model := _parse_model(each)) is not None)


def remember_model(outline: ModelOutline) -> None:
    """Put a model first in the list, unless the disk cannot be written to."""
    first = outline.stack_layers(outline.stacks[0])
    with suppress(OSError):
        place, path = Path(outline.name).expanduser(), recent_file()
        name = str(place.resolve()) if place.exists() else outline.name
        entry = {
            "name": name, "size": outline.stored_bytes, "model_type": outline.model_type,
            "layers": len(first), "heads": first[0].heads,
        }  # fmt: skip
        entries = [entry, *(each for each in _read_models() if each.get("name") != name)][:MOST_MODELS]
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as partial:
            partial.write_text(json.dumps(entries, indent=1), encoding="utf-8")


def _read_models() -> list[dict[str, Any]]:
    try:
        entries = json.loads(recent_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    return [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []


def _parse_model(entry: dict[str, Any]) -> FoundModel | None:
    try:
        name, model_type = str(entry["name"]), str(entry["model_type"])
        size, layers, heads = (int(entry[key]) for key in ("size", "layers", "heads"))
        missing = GONE if Path(name).is_absolute() and not Path(name).exists() else ""
        return FoundModel(name, Origin.RECENT, size, model_type, layers, heads, missing)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
