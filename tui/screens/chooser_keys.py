"""The keys of the opening screen."""

from __future__ import annotations

from textual.binding import Binding, BindingType

KEYS: list[BindingType] = [
    Binding("escape", "leave", "Stop, back to the field, clear it, or leave", id="chooser.leave"),
    Binding("q", "leave_at_once", "Leave, or stop", show=False, id="chooser.quit"),
    Binding("ctrl+q,ctrl+c", "app.quit", "Quit", show=False, id="chooser.quit_too"),
    Binding("ctrl+t", "app.next_theme", "Next theme", show=False, id="chooser.next_theme"),
    Binding("question_mark,f1", "app.help", "Keys that work here", show=False, id="chooser.help"),
    Binding("slash", "search", "New search", show=False, id="chooser.search"),
    Binding("i", "field", "To the field", show=False, id="chooser.field"),
    Binding(
        "tab",
        "complete",
        "Complete the path or name, or to the list",
        show=False,
        id="chooser.complete",
        priority=True,
    ),
    Binding("shift+tab", "field", "To the field", show=False, id="chooser.field_back", priority=True),
    Binding("enter", "open", "Open", id="chooser.open", priority=True),
    Binding("down,ctrl+n", "move('cursor_down')", "Next model", show=False, id="chooser.down", priority=True),
    Binding("up,ctrl+p", "move('cursor_up')", "Previous model", show=False, id="chooser.up", priority=True),
    Binding("pagedown", "move('page_down')", "A page down", show=False, id="chooser.page_down", priority=True),
    Binding("pageup", "move('page_up')", "A page up", show=False, id="chooser.page_up", priority=True),
]
"""What its list and its field have besides are keys of theirs."""
