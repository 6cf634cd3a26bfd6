"""The keys as they are now, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text
from textual.app import App
from textual.binding import ActiveBinding

from engine.values.marks import MARKS
from tui.declared import in_declared_order
from tui.list_screen import ListScreen

FOCUS = {"app.focus_next": "Next view", "app.focus_previous": "Previous view"}
"""What the toolkit's own keys do that go from view to view."""

Section = tuple[str, dict[str, tuple[list[str], str]]]
"""A title, and by action its keys and what it does."""


def describe_keys(app: App[None], active: Iterable[ActiveBinding]) -> list[Section]:
    """Group the keys that work now by the widget they belong to, that with the focus first."""
    sections: dict[str, dict[str, tuple[list[str], str]]] = {}
    for each in in_declared_order(active):
        binding = each.binding
        if binding.id is None and binding.action not in FOCUS:
            continue  # the toolkit's own keys, beside which ours stand
        title = "anywhere" if each.node in (app, app.screen) else f"in the {each.node.name or each.node.id or 'view'}"
        description = FOCUS.get(binding.action, binding.description)
        keys, _ = sections.setdefault(title, {}).setdefault(binding.action, ([], description))
        keys.append(app.get_key_display(binding))
    return sorted(sections.items(), key=lambda section: section[0] == "anywhere")


class HelpScreen(ListScreen):
    """What every key does, those of the focused view first, and what the marks beside the selected head mean.

    Parameters
    ----------
    sections : the keys.
    marks : of the selected head, in words of `engine.values.marks.MARKS`.
    """

    def __init__(self, sections: list[Section], marks: tuple[str, ...]) -> None:
        super().__init__()
        table = Table.grid(padding=(0, 2))
        if marks:
            table.add_row(Text("marks", style="bold"), Text("what changes this head beyond its matrices"))
            for mark in marks:
                table.add_row(Text(f"  {mark}"), Text(MARKS[mark]))
            table.add_row(Text(""), Text(""))
        for title, actions in sections:
            table.add_row(Text(title, style="bold"), Text(""))
            for keys, description in actions.values():
                table.add_row(Text(f"  {' '.join(dict.fromkeys(keys))}"), Text(description))
            table.add_row(Text(""), Text(""))
        self.body.update(table)
