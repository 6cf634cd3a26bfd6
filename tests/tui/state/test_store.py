"""A store knows answers by what they are of, and asks for what is missing."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from engine.values.errors import Superseded
from tests.tui.explorer import LOOK, PATIENCE
from tui.state.store import Store


class Asked:
    """A store whose answers a test gives."""

    def __init__(self, room: int = 8) -> None:
        self.asked: list[str] = []
        self.has_arrived = asyncio.Event()
        self.store: Store[str, int] = Store(self._ask, self.has_arrived.set, room)

    def _ask(self, key: str) -> Future[int]:
        self.asked.append(key)
        self.future: Future[int] = Future()
        return self.future

    async def arrival(self) -> None:
        """Wait until the store says that something has come, or is late."""
        await asyncio.wait_for(self.has_arrived.wait(), PATIENCE)
        self.has_arrived.clear()


async def test_replaced_work_is_asked_for_again_and_not_announced() -> None:
    asked = Asked()
    asked.store.get("a")
    asked.future.set_exception(Superseded("replaced"))
    while asked.store._asked:
        await asyncio.sleep(LOOK)
    assert asked.store.get("a") is None
    assert not asked.has_arrived.is_set()
    assert asked.asked == ["a", "a"]


async def test_a_late_answer_is_announced_and_a_partial_one_is_shown() -> None:
    asked = Asked()
    asked.store.get("a")
    await asked.arrival()
    was_late = asked.store.is_late
    asked.store.put("a", 1, is_complete=False)
    await asked.arrival()
    assert (asked.store.get("a"), asked.store.is_complete("a")) == (1, False)
    asked.future.set_result(2)
    await asked.arrival()
    assert (asked.store.get("a"), asked.store.is_complete("a")) == (2, True)
    assert (was_late, asked.store.is_late) == (True, False)
    assert asked.asked == ["a"]


async def test_only_the_answers_looked_at_last_are_remembered() -> None:
    asked = Asked(room=2)
    asked.store.put("a", 1)
    asked.store.put("b", 2)
    asked.store.get("a")
    asked.store.put("c", 3)
    assert [asked.store.peek(key) for key in "abc"] == [1, None, 3]
    asked.store.forget()
    assert asked.store.peek("a") is None
