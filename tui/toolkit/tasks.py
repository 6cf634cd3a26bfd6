"""Work beside the event loop's other work."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker

Work = Callable[[], Coroutine[Any, Any, None]]
"""What is to be done. It is called when its turn has come, and only then: a coroutine made before would be left behind,
with a warning on the terminal, where newer work comes first or the program is being left."""

Run = Callable[[Work, str], None]
"""Does work beside the event loop's other work; newer work of the same name replaces it."""


def begin(owner: DOMNode, work: Work, group: str, *, is_alone: bool = True) -> Worker[None]:
    """Begin work, which ends with its owner.

    While the program is being left screens still do what was put off until they are drawn. Work that begins by that
    comes too late to be ended with all other work, and what it waits for may never come.

    Parameters
    ----------
    owner : a screen, a widget or the application.
    work : what is to be done.
    group : what it is called.
    is_alone : whether it replaces older work of the same group.
    """
    worker: Worker[None] = owner.run_worker(work, group=group, exclusive=is_alone)
    if not owner.app.is_running:
        worker.cancel()
    return worker
