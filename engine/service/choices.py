"""What a person may open: the demo, models opened before, those of the local Hub cache, and paths that are typed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from engine.checkpoints.json_files import settings_of
from engine.checkpoints.model_folders import DEMO, PARTS, is_model, model_at_path
from engine.demo import MODEL_DIRECTORY
from engine.store.history import recent_models
from engine.values.found_models import FoundModel, Origin, Place

SOME = 10
"""Models that are handed on at a time."""

WHOLE = ".gguf"
"""Files that are models by themselves."""

SUFFIXES = (".safetensors", WHOLE, ".pt")
"""Files that may be models."""

LOOKED_AT = 10_000
"""Entries of a folder that are looked at."""

OFFERED = 200
"""Completions that are offered."""


def found_models(revision: str | None, with_recent: bool) -> Iterator[tuple[FoundModel, ...]]:
    """Go through the demo, the models that were opened before, and those of the local Hub cache.

    A model of the cache that was opened before comes twice; the later one knows what is missing of it.
    """
    size = sum(each.stat().st_size for each in MODEL_DIRECTORY.glob("*.safetensors"))  # of weights, as of other models
    recent = recent_models() if with_recent else ()
    used = next((each.last_used for each in recent if each.name == DEMO), 0.0)
    demo = FoundModel(DEMO, Origin.DEMO, size, used, *settings_of(MODEL_DIRECTORY))
    yield (demo, *(each for each in recent if each.name != DEMO))
    from engine.checkpoints.model_folders import cached_models  # after what needs no library of the Hub

    models = cached_models(revision)
    while some := tuple(itertools.islice(models, SOME)):
        yield some


def look_up(text: str, *, is_described: bool = False) -> Place:
    """Find what a path leads to, and the folders and models that begin with it; described apart, any file is one."""
    try:
        path = Path(text).expanduser()
        kind = "folder" if path.is_dir() else "file" if path.is_file() else ""
        is_weights = is_described or path.suffix == WHOLE
        is_empty = not is_weights if kind == "file" else kind == "folder" and not is_model(path)
    except (OSError, ValueError, RuntimeError):
        return Place(text, "", ())
    model = model_at_path(text, is_described=is_described)
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
