"""The models that a person may open, found bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

from engine.checkpoints.config_file import settings_of
from engine.checkpoints.names import DEMO
from engine.demo import MODEL_DIRECTORY
from engine.service.recent import recent_models
from engine.values.found import FoundModel, Origin

SOME = 10
"""Models that are handed on at a time."""


def found_models(revision: str | None, with_recent: bool) -> Iterator[tuple[FoundModel, ...]]:
    """Go through the demo, the models that were opened before, and those of the local Hub cache.

    A model of the cache that was opened before comes twice; the later one knows what is missing of it.

    Parameters
    ----------
    revision : of the models of the cache that are to be opened; the main branch unless given.
    with_recent : whether those opened before are looked for.
    """
    size = sum(each.stat().st_size for each in MODEL_DIRECTORY.glob("*.safetensors"))  # of weights, as of other models
    recent = recent_models() if with_recent else ()
    used = next((each.last_used for each in recent if each.name == DEMO), 0.0)
    demo = FoundModel(DEMO, Origin.DEMO, size, used, *settings_of(MODEL_DIRECTORY))
    yield (demo, *(each for each in recent if each.name != DEMO))
    from engine.checkpoints.catalogue import cached_models  # after what needs no library of the Hub

    some: list[FoundModel] = []
    for model in cached_models(revision):
        some.append(model)
        if len(some) == SOME:
            yield tuple(some)
            some.clear()
    if some:
        yield tuple(some)
