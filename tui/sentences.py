"""The sentences that were typed and read, the file that keeps them, and the tokens of the one that is being typed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING

from textual.timer import Timer

from engine.store.history import SentenceStore, history_file
from engine.values.attention import Sentence
from engine.values.errors import EngineError, Superseded
from tui.toolkit.tasks import begin
from tui.widgets.token_line import TokenLine

if TYPE_CHECKING:
    from tui.parts import Parts

PAUSE = 0.08
"""Seconds without a key after which what is typed is cut into tokens."""

LAST_SECONDS = 0.5
"""How long the file has, when the explorer is left, to take a sentence that was typed and not read."""


class Sentences:
    """The sentences of one run; everything here happens on the event loop, and the file is read and written beside it.

    Parameters
    ----------
    app : the explorer.
    keeps : whether sentences are read from the file of earlier runs, and kept there.

    Attributes
    ----------
    read : the sentences that a model read in this run, that read last in front.
    has_changed : called when a sentence has been read, where somebody lists them.
    forgotten : those forgotten in this run, the last one last: its place among all, and among those that were read.
    """

    def __init__(self, app: Parts, *, keeps: bool) -> None:
        self._app = app
        self._store = SentenceStore(history_file() if keeps else None)
        self._disk = ThreadPoolExecutor(1, "sentences")
        self._has_failed = False
        self.read: list[str] = []
        self.has_changed: Callable[[], None] | None = None
        self.forgotten: list[tuple[str, int, int | None]] = []
        self._line = TokenLine()
        self._pause: Timer | None = None
        self._typed_at = 0.0
        self._spelled: Sentence | EngineError | None = None
        app.mount(self._line)
        begin(app, self._load, "history", is_alone=False)

    def close(self) -> None:
        """Write what is to be written, and then have no thread any more."""
        self._disk.shutdown(wait=False)

    async def _load(self) -> None:
        """Take the sentences of earlier runs."""
        found = await asyncio.wrap_future(self._disk.submit(self._store.load))
        self._app.sentence_input.history.add_older(found)

    @property
    def listed(self) -> tuple[str, ...]:
        """All sentences that can be shown again: those that were read first, then those of before."""
        return tuple(dict.fromkeys((*self.read, *self._app.sentence_input.history.newest_first)))

    def submit(self, text: str) -> None:
        """Keep a sentence that a person typed, or chose."""
        if text.strip():
            self._app.sentence_input.history.add(text)
            begin(self._app, partial(self._change, text, is_kept=True), "history", is_alone=False)

    def keep_draft(self) -> None:
        """Keep what was typed and not read among the sentences, now that the explorer is left."""
        if draft := self._app.sentence_input.draft:
            wait([self._disk.submit(self._store.add, draft)], LAST_SECONDS)

    def forget(self, text: str) -> None:
        """Keep a sentence no longer, neither here nor in the file nor on the engine."""
        place = self._app.sentence_input.history.forget(text)
        self.forgotten.append((text, place, self.read.index(text) if text in self.read else None))
        if text in self.read:
            self.read.remove(text)
        self._app.engine.forget_sentence(text)
        begin(self._app, partial(self._change, text, is_kept=False), "history", is_alone=False)

    def bring_back(self) -> str:
        """Keep the sentence again that was forgotten last, in its place, and give it."""
        text, place, read = self.forgotten.pop()
        self._app.sentence_input.history.insert(place, text)
        if read is not None and text not in self.read:
            self.read.insert(read, text)
        begin(self._app, partial(self._change, text, is_kept=True), "history", is_alone=False)
        return text

    async def _change(self, text: str, *, is_kept: bool) -> None:
        """Write the file; where that fails say so once, and go on without."""
        change = self._store.add if is_kept else self._store.remove
        try:
            await asyncio.wrap_future(self._disk.submit(change, text))
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                reason = error.strerror or str(error)
                self._app.notify(f"sentences are not kept for the next start: {reason}")

    def begin(self, text: str) -> None:
        """Take a sentence that is being read: escape restores it from now on."""
        self._app.sentence_input.show_read(text, None)

    def has_read(self, sentence: Sentence) -> None:
        """Take a sentence that a model has read."""
        if sentence.text in self.read:
            self.read.remove(sentence.text)
        self.read.insert(0, sentence.text)
        self._app.sentence_input.history.add(sentence.text)
        self._spelled = sentence
        self._app.sentence_input.show_read(sentence.text, sentence)
        if self.has_changed is not None:
            self.has_changed()

    def look(self) -> None:
        """Show how what is typed is cut, at the cursor, while the line has the focus; a moment after the last key."""
        line = self._app.sentence_input
        self._line.display = line.has_focus
        if not line.has_focus:
            return
        if not line.value.strip():
            self._spelled = None
        elif not (isinstance(self._spelled, Sentence) and self._spelled.text == line.value):
            self._typed_at = time.monotonic()
            if self._pause is None:
                self._pause = self._app.set_timer(PAUSE, self._ask)
        self._line.show(self._spelled, line.cursor_position)

    def _ask(self) -> None:
        """Have the engine cut what is typed now, once nothing more has been for a moment."""
        left = self._typed_at + PAUSE - time.monotonic()
        is_early = left > PAUSE / 8  # Textual drops a timer that is due before it has begun
        self._pause = self._app.set_timer(left, self._ask) if is_early else None
        if self._pause is None:
            begin(self._app, partial(self._spell, self._app.sentence_input.value), "spelling")

    async def _spell(self, text: str) -> None:
        """Learn the tokens."""
        if not text.strip():
            return
        try:
            self._spelled = await asyncio.wrap_future(self._app.engine.spell(text, "spelling"))
        except Superseded:
            return
        except EngineError as error:
            self._spelled = error
        line = self._app.sentence_input
        self._line.show(self._spelled, line.cursor_position)
