"""What is said where a view has nothing to show: no sentence has been read, or nothing it could be of is selected."""

from __future__ import annotations

from typing import Any

from textual.app import App

from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.views import Scope, View
from tui.key_names import key_of
from tui.panes.attention import AttentionPane
from tui.state.session import Shown


def no_sentence(app: App[Any], outline: ModelOutline, shown: Shown) -> tuple[str, bool]:
    """Say how a sentence is typed, why the model reads none, or that one waits for its turn; and whether one does."""
    if outline.unreadable:
        return outline.unreadable, False
    if shown.waiting_text is not None:
        return "the sentence is read once the first head is there …", True
    return f"press {key_of(app, 'app.sentence')} and type a sentence", False


def no_place(view: View, selected: Head | None, attention: AttentionPane) -> tuple[str, bool]:
    """Say what to choose for a table, or what the map says whose cell it is of; and whether that is to come."""
    if view.scope is not Scope.CELL or selected is None or selected.is_layer:
        return f"choose {view.scope.value}", False
    if attention.is_waiting or not attention.message:
        return "computing …", True
    return attention.message, False
