"""What every line has that text is typed into."""

from __future__ import annotations

from typing import ClassVar

from textual.widget import Widget
from textual.widgets import Input


class Field(Input):
    """An input that ctrl+c leaves, unless text in it is selected, which it copies.

    Attributes
    ----------
    leaving : the action by which it is left.
    """

    leaving: ClassVar[str] = "leave"

    @property
    def focusable(self) -> bool:
        """Whether it can be typed into: not while the view that it is of is out of sight, though the toolkit would."""
        return super().focusable and all(each.display for each in self.ancestors if isinstance(each, Widget))

    async def action_copy(self) -> None:  # type: ignore[override]
        """Copy what is selected; where nothing is, leave."""
        if self.selected_text:
            super().action_copy()
        else:
            await self.run_action(self.leaving)
