"""Paths that are being typed: what is there, and what they may become."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from engine.values.found import Place

SUFFIXES = (".safetensors", ".gguf", ".pt")
"""Files that may be models."""

LOOKED_AT = 10_000
"""Entries of a folder that are looked at."""

OFFERED = 200
"""Completions that are offered."""


def look_up(text: str) -> Place:
    """Find what a path leads to, and the folders and models that begin with it."""
    try:
        path = Path(text).expanduser()
        kind = "folder" if path.is_dir() else "file" if path.is_file() else ""
    except (OSError, ValueError, RuntimeError):
        return Place(text, "", ())
    return Place(text, kind, _completions(text))


def _completions(text: str) -> tuple[str, ...]:
    """List what a path may become."""
    head, slash, tail = text.rpartition("/")
    folder = Path(head + slash).expanduser() if slash else Path()
    try:
        with os.scandir(folder) as entries:
            begun = [
                each
                for each in itertools.islice(entries, LOOKED_AT)
                if each.name.startswith(tail) and (tail or not each.name.startswith("."))
            ]
            found = [
                f"{head}{slash}{each.name}{'/' if each.is_dir() else ''}"
                for each in begun
                if each.is_dir() or each.name.endswith(SUFFIXES)
            ]
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found)[:OFFERED])
