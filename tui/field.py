"""What every line has that text is typed into."""

from __future__ import annotations

from typing import ClassVar

from textual.widget import Widget
from textual.widgets import Input
from textual.widgets.input import Selection


class Field(Input):
    """An input that ctrl+c leaves, unless the person has selected text in it, which it copies.

    Attributes
    ----------
    leaving : the action by which it is left.
    """

    leaving: ClassVar[str] = "leave"
    _offered: Selection | None = None

    def offer_to_replace(self) -> None:
        """Select all, so that what is typed next takes its place; of that nothing is copied, for nobody chose it."""
        self.select_all()
        self._offered = self.selection

    def watch_selection(self) -> None:
        """Take any other selection for the person's own."""
        if self.selection != self._offered:
            self._offered = None

    @property
    def focusable(self) -> bool:
        """Whether it can be typed into: not while the view that it is of is out of sight, though the toolkit would."""
        return super().focusable and all(each.display for each in self.ancestors if isinstance(each, Widget))

    async def action_copy(self) -> None:  # type: ignore[override]  # actions may be either, the toolkit's is not
        """Copy what the person has selected; where nothing is, leave."""
        if self.selected_text and self._offered is None:
            super().action_copy()
        else:
            await self.run_action(self.leaving)
