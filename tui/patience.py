"""Waiting for the engine without making a pane blink: what was shown stays there for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from engine.values.errors import EngineError, Superseded

Answer = TypeVar("Answer")

PATIENCE = 0.2
"""Seconds for which what was there before stays on screen while the next is computed."""


async def patiently(asked: Future[Answer], waiting: Callable[[], None]) -> Answer | EngineError:
    """Wait for an answer, or for the reason why there is none.

    Parameters
    ----------
    asked : of the engine.
    waiting : called when it has not come after a moment.

    Raises
    ------
    Superseded : when newer work has taken its place.
    """
    answer = asyncio.wrap_future(asked)
    try:
        await asyncio.wait([answer], timeout=PATIENCE)
        if not answer.done():
            waiting()
        return await answer
    except Superseded:
        raise
    except EngineError as error:
        return error
    finally:
        answer.cancel()  # where newer work has taken the place of this
