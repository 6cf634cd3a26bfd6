"""The keys as they are now, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

Section = tuple[str, dict[str, tuple[list[str], str]]]
"""A title, and by action its keys and what it does."""


def describe_keys(app: App[None], active: Iterable[ActiveBinding]) -> list[Section]:
    """Group the keys that work now by the widget they belong to, that with the focus first."""
    sections: dict[str, dict[str, tuple[list[str], str]]] = {}
    for each in active:
        binding = each.binding
        if binding.id is None:
            continue  # the toolkit's own keys, beside which ours stand
        title = "anywhere" if each.node in (app, app.screen) else f"in the {each.node.name or each.node.id or 'view'}"
        keys, _ = sections.setdefault(title, {}).setdefault(binding.action, ([], binding.description))
        keys.append(app.get_key_display(binding))
    return sorted(sections.items(), key=lambda section: section[0] == "anywhere")


class HelpScreen(ModalScreen[None]):
    """What every key does, those of the focused view first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close", id="help.close"),
        Binding("j,down", "down", "Down", show=False, id="help.down"),
        Binding("k,up", "up", "Up", show=False, id="help.up"),
        Binding("g,home", "first", "First line", show=False, id="help.first"),
        Binding("G,end", "last", "Last line", show=False, id="help.last"),
    ]

    def __init__(self, sections: list[Section]) -> None:
        super().__init__()
        self._sections = sections

    def compose(self) -> ComposeResult:
        """List the keys by section."""
        table = Table.grid(padding=(0, 2))
        for title, actions in self._sections:
            table.add_row(Text(title, style="bold"), Text(""))
            for keys, description in actions.values():
                table.add_row(Text(f"  {' '.join(dict.fromkeys(keys))}"), Text(description))
            table.add_row(Text(""), Text(""))
        with VerticalScroll(id="help"):
            yield Static(table)

    def action_down(self) -> None:
        """Scroll down."""
        self.query_one("#help").scroll_down(animate=False)

    def action_first(self) -> None:
        """Scroll to the first line."""
        self.query_one("#help").scroll_home(animate=False)

    def action_last(self) -> None:
        """Scroll to the last line."""
        self.query_one("#help").scroll_end(animate=False)

    def action_up(self) -> None:
        """Scroll up."""
        self.query_one("#help").scroll_up(animate=False)
