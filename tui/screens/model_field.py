"""The field that a model's name, Hub id or path is typed into."""

from __future__ import annotations

from engine.checkpoints.model_folders import clean_name
from tui.widgets.field import Field


class ModelField(Field):
    """One line, whose cursor does not blink: that would be written again and again."""

    leaving = "screen.leave_at_once"

    def __init__(self) -> None:
        super().__init__(
            placeholder="gpt2, somebody/model, ./folder",
            compact=True,
            select_on_focus=False,
            name="field of models",
            id="chooser-field",
        )
        self.cursor_blink = False

    @property
    def typed(self) -> str:
        """What is typed, without quotes or the address that it was pasted in."""
        return clean_name(self.value)
