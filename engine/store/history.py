"""Sentences that were typed before, kept on disk from one start to the next: a line of JSON each, the oldest first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from engine.store.directories import state_directory
from engine.store.files import replaced_file

MOST_SENTENCES = 500
"""That are kept."""

MOST_BYTES = 1_000_000
"""Of the file; the oldest sentences go first, and one larger than that is not kept."""


def history_file() -> Path:
    """Say where sentences are kept between runs."""
    return state_directory() / "sentences.jsonl"


class SentenceStore:
    """The file of sentences; every method may wait for the disk, so none belongs on the event loop.

    Another program's sentences are not lost: what is in the file is read again before it is written.

    Parameters
    ----------
    path : of the file; None keeps nothing.
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
        before = self.load()
        if text in before:
            self._write([each for each in before if each != text])

    def _write(self, sentences: Iterable[str]) -> None:
        """Write the newest sentences that there is room for, for this person's eyes alone."""
        if self._path is None:
            return
        lines = [json.dumps(each, ensure_ascii=False).encode("utf-8", errors="replace") for each in sentences]
        kept: list[bytes] = []
        for line in reversed(lines[-MOST_SENTENCES:]):
            if sum(map(len, kept)) + len(kept) + len(line) + 1 > MOST_BYTES:
                break
            kept.append(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(self._path) as partial:
            partial.touch(mode=0o600)
            partial.write_bytes(b"".join(line + b"\n" for line in reversed(kept)))


def _sentence(line: str) -> str:
    """Read one line; nothing where it holds no sentence."""
    try:
        found = json.loads(line)
    except ValueError:
        return ""
    return found if isinstance(found, str) and found.strip() else ""
