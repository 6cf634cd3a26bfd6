"""Which ranks are measured at once, and which beside the event loop because they are many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from engine.values.heads import Head
from tui.beside import Run
from tui.state.known_spectra import GroupKey, Knowledge, measured

AT_ONCE = 6_000
"""Singular values up to which measuring takes at most two milliseconds."""


class Measuring:
    """Measures the spectra that are known, and says when many of them have been measured.

    Parameters
    ----------
    knowledge : which keeps the spectra and the rows.
    run : awaits work beside the event loop.
    tell : told of which layer the rows are there now.
    """

    def __init__(self, knowledge: Knowledge, run: Run, tell: Callable[[Head], None]) -> None:
        self._knowledge = knowledge
        self._run = run
        self._tell = tell
        self._wanted: dict[GroupKey, float] = {}
        self._is_working = False

    def among(self, names: Sequence[Head], epsilon: float) -> tuple[Head, ...]:
        """Give the names whose rows are there, or will be in no time; of the others measuring begins."""
        missing = self._knowledge.unmeasured([(name.whole_layer, name.is_layer) for name in names], epsilon)
        if sum(group.size for group in missing.values()) <= AT_ONCE:
            return tuple(names)
        self._wanted |= dict.fromkeys(missing, epsilon)
        if not self._is_working:
            self._is_working = True
            self._run(self._work, "measuring")
        return tuple(name for name in names if (name.whole_layer, name.is_layer) not in missing)

    async def _work(self) -> None:
        """Measure one layer after the other, until nothing more is wanted."""
        try:
            while self._wanted:
                key = next(iter(self._wanted))
                epsilon = self._wanted.pop(key)
                for group in self._knowledge.unmeasured([key], epsilon).values():
                    self._knowledge.keep_rows(key, epsilon, await asyncio.to_thread(measured, group, epsilon))
                    self._tell(key[0])
        finally:
            self._is_working = False
