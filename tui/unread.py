"""What is said where a sentence is needed and none has been read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from textual.app import App

from tui.key_names import key_of

if TYPE_CHECKING:
    from tui.app import Explorer


def no_sentence(app: App[Any]) -> tuple[str, bool]:
    """Say how a sentence is typed, or that one waits for its turn; and whether one does."""
    if cast("Explorer", app).conductor.text is not None:
        return "the sentence is read once the first head is there …", True
    return f"press {key_of(app, 'app.sentence')} and type a sentence", False
