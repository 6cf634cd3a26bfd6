"""The sentences that were typed and read, gone through with the arrows as in a shell, and the file that keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from engine.store.history import SentenceStore, history_file

LAST_SECONDS = 0.5
"""How long the file has, when the explorer is left, to take a sentence that was typed and not read."""


class Sentences:
    """The sentences of a person, whichever model is open; the file is read and written on a thread of its own.

    Parameters
    ----------
    keeps : whether sentences are read from the file of earlier runs, and kept there.
    say : told, on any thread, when they cannot be kept.
    on_forget : told which sentence is kept no longer.

    Attributes
    ----------
    read : the sentences that a model read in this run, that read last in front.
    forgotten : those forgotten in this run, the last one last: its place among all, and among those that were read.
    has_changed : called when a sentence has been read, where somebody lists them.
    """

    def __init__(
        self,
        *,
        keeps: bool = False,
        say: Callable[[str], object] = lambda said: None,
        on_forget: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.read: list[str] = []
        self.forgotten: list[tuple[str, int, int | None]] = []
        self.has_changed: Callable[[], None] | None = None
        self._say = say
        self._on_forget = on_forget
        self._store = SentenceStore(history_file() if keeps else None)
        self._disk = ThreadPoolExecutor(1, "sentences")
        self._has_failed = False
        self._typed: list[str] = []  # the oldest first
        self._back = 0
        self._draft = ""
        self._above: tuple[str, ...] = ()  # what is gone through from there, the newest first

    def load(self) -> None:
        """Put the sentences of earlier runs above those that are there; none stands twice."""

        def take(done: Future[tuple[str, ...]]) -> None:
            self._typed[:0] = dict.fromkeys(each for each in done.result() if each not in self._typed)

        self._disk.submit(self._store.load).add_done_callback(take)

    def close(self) -> None:
        """Write what is to be written, and then have no thread any more."""
        self._disk.shutdown(wait=False)

    @property
    def newest_first(self) -> tuple[str, ...]:
        """The sentences, that typed last in front."""
        return tuple(reversed(self._typed))

    @property
    def listed(self) -> tuple[str, ...]:
        """All sentences that can be shown again: those that were read first, then those of before."""
        return tuple(dict.fromkeys((*self.read, *self.newest_first)))

    def add(self, text: str) -> None:
        """Put a sentence below all others, from wherever it was."""
        if text in self._typed:
            self._typed.remove(text)
        self._typed.append(text)

    def submit(self, text: str) -> None:
        """Keep a sentence that a person typed, or chose."""
        if text.strip():
            self.add(text)
            self._write(self._store.add, text)

    def keep_draft(self, draft: str) -> None:
        """Keep what was typed and not read among the sentences, now that the explorer is left."""
        if draft:
            wait([self._disk.submit(self._store.add, draft)], LAST_SECONDS)

    def has_read(self, text: str) -> None:
        """Take a sentence that a model has read."""
        if text in self.read:
            self.read.remove(text)
        self.read.insert(0, text)
        self.add(text)
        if self.has_changed is not None:
            self.has_changed()

    def forget(self, text: str) -> None:
        """Keep a sentence no longer, neither here nor in the file."""
        place = self._typed.index(text) if text in self._typed else len(self._typed)
        self.forgotten.append((text, place, self.read.index(text) if text in self.read else None))
        del self._typed[place : place + 1]
        if text in self.read:
            self.read.remove(text)
        self.rest()
        self._on_forget(text)
        self._write(self._store.remove, text)

    def bring_back(self) -> str:
        """Keep the sentence again that was forgotten last, in its place, and give it."""
        text, place, read = self.forgotten.pop()
        if text not in self._typed:
            self._typed.insert(place, text)
        if read is not None and text not in self.read:
            self.read.insert(read, text)
        self._write(self._store.add, text)
        return text

    def _write(self, change: Callable[[str], object], text: str) -> None:
        """Write the file; where that fails say so once, and go on without."""

        def look(done: Future[object]) -> None:
            error = done.exception()
            if isinstance(error, OSError) and not self._has_failed:
                self._has_failed = True
                self._say(f"cannot save sentences for the next start: {error.strerror or error}")

        self._disk.submit(change, text).add_done_callback(look)

    def rest(self) -> None:
        """Go back to the bottom, with nothing typed there."""
        self._back, self._draft = 0, ""

    def go(self, step: int, typed: str) -> str:
        """Go to an older sentence (1) or a newer one (-1), and give it; at an end what is there stays.

        What one goes through is as it was at the bottom, whatever is read meanwhile, without the draft itself: the
        first step from a sentence that is shown goes to the one before it.

        Parameters
        ----------
        typed : what is in the line now, which is kept while it is the draft.
        """
        if self._back == 0:
            self._draft = typed
            self._above = tuple(each for each in self.newest_first if each != typed)
        back = min(max(self._back + step, 0), len(self._above))
        if back == self._back:
            return typed
        self._back = back
        return self._above[back - 1] if back else self._draft


def matching(sentences: Iterable[str], wanted: str) -> tuple[str, ...]:
    """Choose the sentences that hold every word that is wanted, in any case.

    Examples
    --------
    >>> matching(["The cat", "a dog", "cats and dogs"], "CAT d")
    ('cats and dogs',)
    """
    words = wanted.casefold().split()
    return tuple(each for each in sentences if all(word in each.casefold() for word in words))
