"""Which keys the mask of a layer lets each query see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Visible:
    """The keys that each query sees: all from its first to its last, and some that every query sees.

    Attributes
    ----------
    first, last : (queries,) positions; a query that sees nothing has its last before its first.
    behind : those that every query sees, behind all others, as an encoder's keys behind a decoder's own.
    """

    first: Places
    last: Places
    behind: range = range(0)

    @property
    def count(self) -> Places:
        """How many keys each query sees, (queries,)."""
        count: Places = np.maximum(self.last - self.first + 1, 0) + len(self.behind)
        return count

    @property
    def has_choice(self) -> NDArray[np.bool_]:
        """Whether a query sees more than one key, (queries,)."""
        return self.count > 1

    def holds(self, keys: Places) -> NDArray[np.bool_]:
        """Say of each query whether it has a choice and sees a key, (queries,)."""
        is_behind = (keys >= self.behind.start) & (keys < self.behind.stop)
        return self.has_choice & (((keys >= self.first) & (keys <= self.last)) | is_behind)

    def keys_of(self, query: int) -> Places:
        """List the keys that a query sees."""
        own: Places = np.arange(self.first[query], self.last[query] + 1)
        return np.concatenate([own, np.arange(self.behind.start, self.behind.stop)])

    def uniform(self, query: int, key: int) -> float:
        """Give what a key gets of a query that looks at all it sees alike.

        Examples
        --------
        >>> [Visible(np.array([0, 0]), np.array([0, 1])).uniform(1, key) for key in range(3)]
        [0.5, 0.5, 0.0]
        """
        first, last = int(self.first[query]), int(self.last[query])
        is_seen = first <= key <= last or key in self.behind
        return 1 / (max(last - first + 1, 0) + len(self.behind)) if is_seen else 0.0

    def hides(self, queries: range, keys: range) -> bool:
        """Say whether none of some queries sees any of some keys.

        Examples
        --------
        >>> backwards = Visible(np.zeros(3, np.int64), np.arange(3))
        >>> backwards.hides(range(1), range(1, 3)), backwards.hides(range(2), range(1, 3))
        (True, False)
        """
        if max(keys.start, self.behind.start) < min(keys.stop, self.behind.stop):
            return False
        some = slice(queries.start, queries.stop)
        first, last = np.maximum(self.first[some], keys.start), np.minimum(self.last[some], keys.stop - 1)
        return not bool((first <= last).any())
