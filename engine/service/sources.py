"""From what a person typed to what it is: a folder or a model of the Hub, an adapter, a file of another format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.models.folder import FolderSource
from engine.models.locate import locate
from engine.models.source import Source
from engine.service.options import EngineOptions
from engine.values.errors import EngineError
from engine.values.progress import Progress


def find_source(name: str, options: EngineOptions, report: Callable[[Progress], None]) -> Source:
    """Find a model, downloading it when it is neither here nor in the cache.

    Raises
    ------
    EngineError : when there is no such model, or it cannot be taken apart into heads.
    """
    if options.layout is not None:
        from engine.models.layout import LayoutSource

        place = Path(name).expanduser()
        if not place.exists():
            raise EngineError(f"there is no {place}; with --layout give a weight file, or a folder of them")
        return LayoutSource(name, place, options.layout)
    return FolderSource(locate(name, options.revision, report), options.trust_remote_code)
