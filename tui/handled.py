"""Waiting until the parts of an application have handled what they were sent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from textual.message_pump import MessagePump

SLOWEST = 2.0
"""Seconds that a key has to be handled in before the next one follows."""

TURNS = 20
"""Parts of those seconds, of which a process that stands still, as one that imports something large, loses only one."""


async def for_a_while(work: Coroutine[None, None, None]) -> None:
    """Wait for work, and give it up where it takes too long though it could go on all the while."""
    task = asyncio.ensure_future(work)
    for _ in range(TURNS):
        done, _ = await asyncio.wait((task,), timeout=SLOWEST / TURNS)
        if done:
            task.result()  # which raises what the work did
            return
    task.cancel()


def upwards(part: MessagePump) -> list[MessagePump]:
    """List a part and those that it is in, up to the application."""
    parts = [part]
    while parts[-1]._parent is not None:
        parts.append(parts[-1]._parent)
    return parts


async def reach(part: MessagePump) -> None:
    """Wait until a part has handled what it was sent before, unless it is going away."""
    reached = asyncio.Event()
    if part.call_later(reached.set):
        await reached.wait()
