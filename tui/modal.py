"""Screens over the explorer."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType


class Modal(ModalScreen[ScreenResultType]):
    """A screen over the explorer that closes once.

    Of two quick keys that close it the second comes when it has been closed; it would close the screen below as well.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close, with a result, unless that has been done."""
        return super().dismiss(result) if self.is_active else AwaitComplete()
