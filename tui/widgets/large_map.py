"""A map whose weights are elsewhere, and what has been asked for of it."""

from __future__ import annotations

from collections.abc import Callable

from engine.values.attention import MapName, MapWindow, PooledMap


class LargeMap:
    """One map, of which only what is in view comes here.

    Attributes
    ----------
    name : of the map.
    query_tokens, key_tokens : the texts along both axes, as far as they are known.
    is_signed : whether it is of differences.
    """

    def __init__(
        self,
        name: MapName,
        query_tokens: tuple[str, ...],
        key_tokens: tuple[str, ...],
        ask: Callable[[MapWindow], None],
        *,
        is_signed: bool = False,
    ) -> None:
        self.name = name
        self.query_tokens = query_tokens
        self.key_tokens = key_tokens
        self.is_signed = is_signed
        self._ask = ask
        self._asked: MapWindow | None = None
        self._come: MapWindow | None = None

    def begin(self) -> None:
        """Ask for everything again: what is on the screen is of another map."""
        self._asked = self._come = None

    def learn(self, pooled: PooledMap) -> bool:
        """Take the tokens from what has come; say whether it is of this map."""
        if pooled.name != self.name:
            return False
        self.query_tokens, self.key_tokens = pooled.query_tokens, pooled.key_tokens
        self._come = pooled.window
        return True

    def want(self, near: MapWindow, far: MapWindow) -> None:
        """Ask for a window, unless a smaller one in it is there or on its way."""
        if not any(window is not None and window.covers(near) for window in (self._asked, self._come)):
            self._asked = far
            self._ask(far)
