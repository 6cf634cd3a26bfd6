"""What a person may open, asked of the engine thread beside the model that is open, if any is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from engine.service.options import EngineOptions
from engine.service.thread import Breathe, EngineThread, Urgency
from engine.values.found import FoundModel, Origin, Place


class Choices:
    """The models that can be found, and where a path that is being typed leads to.

    Parameters
    ----------
    thread : which looks.
    options : the run's; a revision in them is meant of the model that is opened first.
    named : the model that was opened first, or None while none is open.
    is_in_memory : whether that one is a module in memory, which is found nowhere else.
    """

    def __init__(self, thread: EngineThread, options: EngineOptions, named: str | None, *, is_in_memory: bool) -> None:
        self._thread, self._options = thread, options
        self._named, self._is_in_memory = named, is_in_memory

    def found_models(self, deliver: Callable[[tuple[FoundModel, ...]], object]) -> Future[None]:
        """Look for models that can be opened: the demo, those opened before, and those of the local Hub cache.

        Parameters
        ----------
        deliver : called on the engine thread with some of them at a time.
        """

        def work(breathe: Breathe) -> None:
            from engine.service.finding import found_models

            if self._is_in_memory and self._named is not None:
                deliver((FoundModel(self._named, Origin.MEMORY),))
            revision = self._options.revision if self._named is None else None
            for some in found_models(revision, self._options.keep_recent):
                breathe()
                deliver(some)

        return self._thread.submit(work, Urgency.SELECTED, "found models")

    def look_up(self, path: str, reason: str = "path") -> Future[Place]:
        """Find what a path that is being typed leads to, and what it may become.

        A newer path takes the place of an older one that was asked for the same reason.
        """

        def work(breathe: Breathe) -> Place:
            from engine.service.paths import look_up

            return look_up(path, is_described=self._options.layout is not None)

        return self._thread.submit(work, Urgency.SELECTED, reason)
