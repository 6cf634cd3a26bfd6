"""What a person may open: the demo, models opened before, those of the local Hub cache, and paths that are typed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

from engine.checkpoints.json_files import settings_of
from engine.checkpoints.model_folders import DEMO, PARTS, is_model, model_at_path
from engine.demo import MODEL_DIRECTORY
from engine.service.queue import Queue, Urgency
from engine.store.history import recent_models
from engine.values.found_models import FoundModel, Origin, Place
from engine.values.options import EngineOptions
from engine.values.progress import Lane, Work, one_unit

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


class Choices:
    """The models that can be found, and where a path that is being typed leads to.

    Parameters
    ----------
    queue : that looks.
    options : the run's; a revision in them is meant of the model that is opened first.
    named : the model that was opened first, or None while none is open.
    is_in_memory : whether that one is a module in memory, which is found nowhere else.
    """

    def __init__(self, queue: Queue, options: EngineOptions, named: str | None, *, is_in_memory: bool) -> None:
        self._queue, self._options = queue, options
        self._named, self._is_in_memory = named, is_in_memory

    def found_models(self, deliver: Callable[[tuple[FoundModel, ...]], object]) -> Future[None]:
        """Look for models that can be opened: the demo, those opened before, and those of the local Hub cache.

        Parameters
        ----------
        deliver : called with some of them at a time.
        """

        def work() -> Work[None]:
            if self._is_in_memory and self._named is not None:
                deliver((FoundModel(self._named, Origin.MEMORY),))
            revision = self._options.revision if self._named is None else None
            for some in found_models(revision, self._options.keep_recent):
                deliver(some)
                yield None

        return self._queue.submit(work, Urgency.SELECTED, Lane.WEIGHTS, "found models")

    def look_up(self, path: str, reason: str = "path") -> Future[Place]:
        """Find what a path that is being typed leads to, and what it may become.

        A newer path takes the place of an older one that was asked for the same reason.
        """
        is_described = self._options.layout is not None
        return self._queue.submit(
            lambda: one_unit(lambda: look_up(path, is_described=is_described)), Urgency.SELECTED, Lane.WEIGHTS, reason
        )


def found_models(revision: str | None, with_recent: bool) -> Iterator[tuple[FoundModel, ...]]:
    """Go through the demo, the models that were opened before, and those of the local Hub cache.

    A model of the cache that was opened before comes twice; the later one knows what is missing of it.

    Parameters
    ----------
    revision : of the models of the cache that are to be opened; the main branch unless given.
    with_recent : whether those opened before are looked for.
    """
    size = sum(each.stat().st_size for each in MODEL_DIRECTORY.glob("*.safetensors"))  # of weights, as of other models
    recent = recent_models(settings_of) if with_recent else ()
    used = next((each.last_used for each in recent if each.name == DEMO), 0.0)
    demo = FoundModel(DEMO, Origin.DEMO, size, used, *settings_of(MODEL_DIRECTORY))
    yield (demo, *(each for each in recent if each.name != DEMO))
    from engine.checkpoints.model_folders import cached_models  # after what needs no library of the Hub

    models = cached_models(revision)
    while some := tuple(itertools.islice(models, SOME)):
        yield some


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
