"""Paths that are being typed: what is there, and what they may become."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from engine.checkpoints.names import PARTS, is_model, meant_instead
from engine.values.found import Place

WHOLE = ".gguf"
"""Files that are models by themselves."""

SUFFIXES = (".safetensors", WHOLE, ".pt")
"""Files that may be models."""

LOOKED_AT = 10_000
"""Entries of a folder that are looked at."""

OFFERED = 200
"""Completions that are offered."""


def look_up(text: str, *, is_described: bool = False) -> Place:
    """Find what a path leads to, and the folders and models that begin with it.

    Parameters
    ----------
    is_described : whether the heads of what is opened are described apart, so that any file of weights can be.
    """
    try:
        path = Path(text).expanduser()
        kind = "folder" if path.is_dir() else "file" if path.is_file() else ""
        is_weights = is_described or path.suffix == WHOLE
        is_empty = not is_weights if kind == "file" else kind == "folder" and not is_model(path)
    except (OSError, ValueError, RuntimeError):
        return Place(text, "", ())
    model = meant_instead(text, is_described=is_described)
    return Place(text, kind, _completions(text, is_described=is_described), model, is_empty)


def _completions(text: str, *, is_described: bool) -> tuple[str, ...]:
    """List what a path may become; within a model's folder no part of the model, unless its heads are described."""
    if text == "~":
        return ("~/",)
    head, slash, tail = text.rpartition("/")
    folder = Path(head + slash).expanduser() if slash else Path()
    try:
        no_parts = not is_described and is_model(folder)
        with os.scandir(folder) as entries:
            begun = [
                each
                for each in itertools.islice(entries, LOOKED_AT)
                if each.name.startswith(tail) and (tail or not each.name.startswith("."))
            ]
            found = [
                f"{head}{slash}{each.name}{'/' if each.is_dir() else ''}"
                for each in begun
                if each.is_dir() or (each.name.endswith(SUFFIXES) and not (no_parts and each.name.endswith(PARTS)))
            ]
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found)[:OFFERED])
