"""What happens to every key before anything else does: it is counted, or kept until there is something it can do."""

from __future__ import annotations

import asyncio

from textual import events

from tui.parts import Parts

PATIENCE = 0.5
"""Seconds for which keys wait for the model once the views are there; one that is downloaded takes longer."""

SLOWEST = 0.5
"""Seconds that a kept key has to be handled in before the next one follows."""


class KeyWatch(Parts):
    """An application that keeps what is typed before its views are there, and then does it in order."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[events.Key] | None = []

    async def on_event(self, event: events.Event) -> None:
        """Count a key, and take away what was said since the last one; keep it where it comes too early."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            if self._kept is not None and not self._leaves(event.key):
                self._kept.append(event)
                return
            self._take_notice()
        await super().on_event(event)

    def _take_notice(self) -> None:
        """Count a key."""
        self.keys_pressed += 1
        self.key_line.hush()

    def _leaves(self, key: str) -> bool:
        """Say whether a key ends the program, as it does at any time; a letter only where nothing came before it."""
        active = self.screen.active_bindings.get(key)
        return active is not None and active.binding.action == "quit" and (not self._kept or len(key) > 1)

    def do_kept_keys(self) -> None:
        """Do what was typed too early, if that has not begun yet."""
        if self._kept is not None and not any(worker.group == "kept keys" for worker in self.workers):
            self.run_worker(self._do_kept_keys(), group="kept keys")

    async def _do_kept_keys(self) -> None:
        """Do one key after the other; what is typed meanwhile comes after them."""
        while self._kept:
            event = self._kept.pop(0)
            receiver = self.focused or self.screen
            self._take_notice()
            await super().on_event(event)
            handled = asyncio.Event()
            receiver.call_later(handled.set)  # which a widget does after what it was sent before
            try:
                await asyncio.wait_for(handled.wait(), SLOWEST)
            except TimeoutError:
                continue
        self._kept = None
