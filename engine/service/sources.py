"""From what a person typed to what it is: a folder or a model of the Hub, an adapter, a file of another format."""

from __future__ import annotations

from collections.abc import Callable

from engine.models.folder import FolderSource
from engine.models.locate import locate
from engine.models.source import Source
from engine.service.options import EngineOptions
from engine.values.progress import Progress


def find_source(name: str, options: EngineOptions, report: Callable[[Progress], None]) -> Source:
    """Find a model, downloading it when it is neither here nor in the cache.

    Raises
    ------
    EngineError : when there is no such model, or it cannot be taken apart into heads.
    """
    return FolderSource(locate(name, options.revision, report), options.trust_remote_code)
