"""What is said of text that was selected with the mouse and copied."""

from __future__ import annotations

from typing import Any

from textual.app import App

from tui.drawing.text import fit, harmless

SHOWN = 48
"""Cells of what was copied that are shown."""


def say_copied(app: App[Any]) -> None:
    """Say what has gone to the clipboard, by its beginning."""
    text = harmless(" ".join(app.clipboard.split()))
    app.notify(fit(text, SHOWN).rstrip(), title="copied", timeout=2)
