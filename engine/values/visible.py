"""Which keys the mask of a layer lets each query see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Visible:
    """The keys that each query sees: all from its first to its last.

    Attributes
    ----------
    first, last : (queries,) positions; a query that sees nothing has its last before its first.
    """

    first: Places
    last: Places

    @property
    def count(self) -> Places:
        """How many keys each query sees, (queries,)."""
        count: Places = np.maximum(self.last - self.first + 1, 0)
        return count

    @property
    def has_choice(self) -> NDArray[np.bool_]:
        """Whether a query sees more than one key, (queries,)."""
        return self.count > 1

    def holds(self, keys: Places) -> NDArray[np.bool_]:
        """Say of each query whether it has a choice and sees a key, (queries,)."""
        return self.has_choice & (keys >= self.first) & (keys <= self.last)

    def uniform(self, query: int, key: int) -> float:
        """Give what a key gets of a query that looks at all it sees alike.

        Examples
        --------
        >>> [Visible(np.array([0, 0]), np.array([0, 1])).uniform(1, key) for key in range(3)]
        [0.5, 0.5, 0.0]
        """
        first, last = int(self.first[query]), int(self.last[query])
        return 1 / (last - first + 1) if first <= key <= last else 0.0

    def hides(self, queries: range, keys: range) -> bool:
        """Say whether none of some queries sees any of some keys.

        Examples
        --------
        >>> backwards = Visible(np.zeros(3, np.int64), np.arange(3))
        >>> backwards.hides(range(1), range(1, 3)), backwards.hides(range(2), range(1, 3))
        (True, False)
        """
        some = slice(queries.start, queries.stop)
        first, last = np.maximum(self.first[some], keys.start), np.minimum(self.last[some], keys.stop - 1)
        return not bool((first <= last).any())
