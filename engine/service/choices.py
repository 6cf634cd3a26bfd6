"""Models to choose from: the demo, recent ones, those of the local Hub cache, and typed paths."""

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

MODELS_AT_ONCE = 10

GGUF = ".gguf"
"""The suffix of files that are models by themselves."""

SUFFIXES = (".safetensors", GGUF, ".pt")
"""The suffixes of files that may be models."""

MOST_ENTRIES = 10_000
"""Entries of a folder to look at."""

MOST_COMPLETIONS = 200


def found_models(revision: str | None, with_recent: bool) -> Iterator[tuple[FoundModel, ...]]:
    """Yield the demo, recent models, and those of the local Hub cache.

    A recent model of the cache comes twice; the later one says which of its files are missing.
    """
    size = sum(each.stat().st_size for each in MODEL_DIRECTORY.glob("*.safetensors"))
    recent = recent_models() if with_recent else ()
    used = next((each.last_used for each in recent if each.name == DEMO), 0.0)
    demo = FoundModel(DEMO, Origin.DEMO, size, used, *settings_of(MODEL_DIRECTORY))
    yield (demo, *(each for each in recent if each.name != DEMO))
    from engine.checkpoints.model_folders import cached_models  # late, as it imports huggingface_hub

    models = cached_models(revision)
    while some := tuple(itertools.islice(models, MODELS_AT_ONCE)):
        yield some


def look_up(text: str, *, is_described: bool = False) -> Place:
    """Look up a typed path: what is there, and its completions; with a layout (``is_described``), any file will do."""
    try:
        path = Path(text).expanduser()
        kind = "folder" if path.is_dir() else "file" if path.is_file() else ""
        is_weights = is_described or path.suffix == GGUF
        is_empty = not is_weights if kind == "file" else kind == "folder" and not is_model(path)
    except (OSError, ValueError, RuntimeError):
        return Place(text, "", ())
    model = model_at_path(text, is_described=is_described)
    return Place(text, kind, _completions(text, is_described=is_described), model, is_empty)


def _completions(text: str, *, is_described: bool) -> tuple[str, ...]:
    """List folders and files that begin with a path; weights beside a configuration only with a layout."""
    if text == "~":
        return ("~/",)
    head, slash, tail = text.rpartition("/")
    folder = Path(head + slash).expanduser() if slash else Path()
    try:
        no_parts = not is_described and is_model(folder)
        with os.scandir(folder) as entries:
            begun = [
                each
                for each in itertools.islice(entries, MOST_ENTRIES)
                if each.name.startswith(tail) and (tail or not each.name.startswith("."))
            ]
            found = [
                f"{head}{slash}{each.name}{'/' if each.is_dir() else ''}"
                for each in begun
                if each.is_dir() or (each.name.endswith(SUFFIXES) and not (no_parts and each.name.endswith(PARTS)))
            ]
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found)[:MOST_COMPLETIONS])
