"""A map whose weights are elsewhere, and what has been asked for of it."""

from __future__ import annotations

from collections.abc import Callable

from engine.values.attention import MapWindow, PooledMap
from engine.values.heads import MapName


class LargeMap:
    """One map, of which only what is in view comes here.

    Attributes
    ----------
    name : of the map.
    query_tokens, key_tokens : the texts along both axes, as far as they are known.
    """

    def __init__(
        self,
        name: MapName,
        query_tokens: tuple[str, ...],
        key_tokens: tuple[str, ...],
        ask: Callable[[MapWindow], None],
    ) -> None:
        self.name = name
        self.query_tokens = query_tokens
        self.key_tokens = key_tokens
        self._ask = ask
        self._asked: MapWindow | None = None

    def learn(self, pooled: PooledMap) -> bool:
        """Take the tokens from what has come; say whether it is of this map."""
        if pooled.name != self.name:
            return False
        self.query_tokens, self.key_tokens = pooled.query_tokens, pooled.key_tokens
        return True

    def want(self, near: MapWindow, far: MapWindow, painted: PooledMap | None) -> None:
        """Ask for a window, unless a smaller one in it is there or on its way."""
        known = [self._asked] if self._asked is not None else []
        if painted is not None and painted.name == self.name:
            known.append(painted.window)
        if not any(window.covers(near) for window in known):
            self._asked = far
            self._ask(far)
