"""The history of sentences, which the arrows go through as in a shell, and its file."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from engine.store.history import SentenceStore, history_file


class Sentences:
    """The sentences of a person, for all models; a thread of its own reads and writes the file.

    Parameters
    ----------
    keeps : whether there is a file.
    say : called on any thread with the message that the file cannot be written.
    """

    def __init__(self, *, keeps: bool = False, say: Callable[[str], object] = lambda said: None) -> None:
        self._say = say
        self._store = SentenceStore(history_file() if keeps else None)
        self._disk = ThreadPoolExecutor(1, "sentences")
        self._has_failed = False
        self._typed: list[str] = []  # the oldest first
        self._back = 0
        self._draft = ""
        self._above: tuple[str, ...] = ()  # what the arrows go through, the newest first

    def load(self) -> None:
        """Add the sentences of earlier runs above those of this run, each once."""

        def take(done: Future[tuple[str, ...]]) -> None:
            self._typed[:0] = dict.fromkeys(each for each in done.result() if each not in self._typed)

        self._disk.submit(self._store.load).add_done_callback(take)

    def close(self) -> None:
        """Let the thread finish its writes and end."""
        self._disk.shutdown(wait=False)

    @property
    def newest_first(self) -> tuple[str, ...]:
        """The sentences, the one typed last first."""
        return tuple(reversed(self._typed))

    def add(self, text: str) -> None:
        """Make a sentence the newest."""
        if text in self._typed:
            self._typed.remove(text)
        self._typed.append(text)

    def submit(self, text: str) -> None:
        """Keep a sentence that a person typed or chose."""
        if text.strip():
            self.add(text)
            self._write(self._store.add, text)

    def forget(self, text: str) -> None:
        """Forget a sentence, here and in the file."""
        if text in self._typed:
            self._typed.remove(text)
        self.rest()
        self._write(self._store.remove, text)

    def _write(self, change: Callable[[str], object], text: str) -> None:
        """Change the file; the first time that this fails, say so."""

        def look(done: Future[object]) -> None:
            error = done.exception()
            if isinstance(error, OSError) and not self._has_failed:
                self._has_failed = True
                self._say(f"cannot save sentences for the next start: {error.strerror or error}")

        self._disk.submit(change, text).add_done_callback(look)

    def rest(self) -> None:
        """Go back to the newest sentence, without a draft."""
        self._back, self._draft = 0, ""

    def go(self, step: int, typed: str) -> str:
        """Give an older sentence (1) or a newer one (-1); at an end, what is in the line.

        The first step fixes the sentences that later steps go through, without the one in the line.

        Parameters
        ----------
        typed : what is in the line; before the first step it is the draft, to which the last step back returns.
        """
        if self._back == 0:
            self._draft = typed
            self._above = tuple(each for each in self.newest_first if each != typed)
        back = min(max(self._back + step, 0), len(self._above))
        if back == self._back:
            return typed
        self._back = back
        return self._above[back - 1] if back else self._draft
