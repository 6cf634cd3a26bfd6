"""Earlier sentences, gone through with the arrows as a shell does."""

from __future__ import annotations

from collections.abc import Iterable


class History:
    """Sentences in the order in which they were last typed, and a place among them; below the newest is the draft."""

    def __init__(self) -> None:
        self._sentences: list[str] = []  # the oldest first
        self._back = 0
        self._draft = ""
        self._above: tuple[str, ...] = ()  # what is gone through from there, the newest first

    @property
    def newest_first(self) -> tuple[str, ...]:
        """The sentences, that typed last in front."""
        return tuple(reversed(self._sentences))

    def add(self, text: str) -> None:
        """Put a sentence below all others, from wherever it was."""
        if text in self._sentences:
            self._sentences.remove(text)
        self._sentences.append(text)

    def add_older(self, sentences: Iterable[str]) -> None:
        """Put sentences, the oldest first, above those that are there; none stands twice."""
        older = dict.fromkeys(each for each in sentences if each not in self._sentences)
        self._sentences[:0] = older

    def forget(self, text: str) -> int:
        """Take a sentence away; give its place, which `insert` takes."""
        place = self._sentences.index(text) if text in self._sentences else len(self._sentences)
        del self._sentences[place : place + 1]
        self.rest()
        return place

    def insert(self, place: int, text: str) -> None:
        """Put a sentence back in its place, unless it has been typed again since."""
        if text not in self._sentences:
            self._sentences.insert(place, text)

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
