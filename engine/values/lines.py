"""A row and a column of an attention map: where one token looks, and who looks at one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.values.attention import AttentionMap
from engine.values.heads import MapName


def is_of_one_text(name: MapName, query_tokens: tuple[str, ...], key_tokens: tuple[str, ...]) -> bool:
    """Say whether a map's queries and keys are the same tokens; across stacks they are not, even where they are equal.

    Examples
    --------
    >>> is_of_one_text(MapName("decoder", 0, 0), ("a",), ("a",)), is_of_one_text(MapName("cross", 0, 0), ("a",), ("a",))
    (True, False)
    """
    return name.stack != "cross" and query_tokens == key_tokens


@dataclass(frozen=True, slots=True)
class MapLines:
    """One row and one column of an attention map.

    Attributes
    ----------
    name : of the map.
    query, key : whose row, and whose column.
    query_tokens, key_tokens : the texts along both axes of the map.
    row : (keys,) float32 weights with which the query looks at each key.
    column : (queries,) float32 weights with which each query looks at the key.
    largest : the largest weight of the whole map that is finite, by which its levels are told apart.
    is_signed : whether these are differences of two maps, and ``largest`` the largest in size.
    """

    name: MapName
    query: int
    key: int
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    row: NDArray[np.float32]
    column: NDArray[np.float32]
    largest: float
    is_signed: bool = False

    @classmethod
    def of(cls, attention: AttentionMap, query: int, key: int, largest: float | None = None) -> MapLines:
        """Take copies of a row and a column of a map, or of what its other one is different in.

        Parameters
        ----------
        largest : of the map, where it is known.
        """
        weights, other = attention.weights, attention.other
        row, column = weights[query].copy(), weights[:, key].copy()
        if other is not None:
            row, column = other[query] - row, other[:, key] - column
        if largest is None:
            values = weights if other is None else np.abs(other - weights)
            largest = float(np.max(values, where=np.isfinite(values), initial=0.0))
        return cls(attention.name, query, key, attention.query_tokens, attention.key_tokens, row, column, largest,
                   other is not None)  # fmt: skip

    @property
    def is_of_one_text(self) -> bool:
        """Whether queries and keys are the same tokens of one stack."""
        return is_of_one_text(self.name, self.query_tokens, self.key_tokens)
