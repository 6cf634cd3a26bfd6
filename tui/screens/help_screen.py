"""The keys as they are now, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from engine.values.outline import MARKS
from tui.screens.modal import ListScreen
from tui.toolkit.keys import GROUPS, in_declared_order, is_bound, key_of
from tui.widgets.field import OF_EDITING, Field

HERE = "in this menu"
"""Title of the keys of what has come over the views."""

TYPED = "in a line that is typed into"
"""Title of the keys that edit it, which come last: they are those of shells."""

WRONG = "wrong in the configuration"
"""Title of what is wrong with it."""


@dataclass(frozen=True)
class Line:
    """What is written for keys, what they do, and by which names these are found where a sign stands for them."""

    keys: str
    said: str
    names: str = ""


MOUSE = (
    Line("click", "go to a line, a head or a cell; again, do what Enter does there, but download nothing"),
    Line("", "sort by a column's name; of two layers that share a line, go to the other by their name"),
    Line("", "press a key of the line at the foot; beside a menu, close it"),
    Line("wheel", "scroll what is under the pointer"),
    Line("shift+drag", "select text, as the terminal does it by itself"),
)
"""What the mouse does, which no binding says."""


WIDEST = 16
"""Cells that the keys' column takes at least where some keys take more; what they do stands below each other."""


@dataclass(frozen=True)
class Section:
    """A title, and the keys below it with what they do."""

    title: str
    lines: tuple[Line, ...]


def describe_keys(app: App[None], active: Iterable[ActiveBinding]) -> list[Section]:
    """Group the keys that work now by the widget they belong to; those that work anywhere by what they are about."""
    found: dict[str, dict[str, list[Binding]]] = {}
    for each in in_declared_order(active):
        binding = each.binding
        if binding.id is None or not is_bound(binding):
            continue  # the toolkit's own keys, beside which ours stand, and what a person took the keys from
        if binding.id.startswith(OF_EDITING):
            title = TYPED
        elif each.node is app.screen and isinstance(each.node, ModalScreen):
            title = HERE
        elif binding.group is not None:
            title = binding.group.description
        else:
            title = f"in the {each.node.name or each.node.id or 'view'}"
        found.setdefault(title, {}).setdefault(binding.action, []).append(binding)
    order = [group.description for group in GROUPS]
    sections = [
        Section(title, tuple(_line(app, bindings) for bindings in actions.values())) for title, actions in found.items()
    ]
    return sorted(sections, key=lambda each: order.index(each.title) if each.title in order else _place(each.title))


def _line(app: App[None], bindings: list[Binding]) -> Line:
    """Write the keys that do the same."""
    keys = " ".join(dict.fromkeys(map(app.get_key_display, bindings)))
    names = " ".join(each.key.replace("_", " ") for each in bindings)
    return Line(keys, bindings[0].description, names)


def _place(title: str) -> int:
    """Put a widget's keys before those that work anywhere, and keys without a group after them."""
    return -1 if title.startswith("in the ") or title == HERE else len(GROUPS) + (title == TYPED)


class HelpSearch(Field):
    """The line that is typed into what the keys that are listed have in them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.keep", "Keep", id="help.keep"),
        Binding("escape", "screen.list_all", "All keys", id="help.all"),
    ]

    leaving = "screen.list_all"

    def __init__(self) -> None:
        super().__init__(compact=True, placeholder="a key, or what it does", id="help-search")
        self.cursor_blink = False
        self.display = False


class HelpScreen(ListScreen):
    """What every key does, those of the focused view first, and what the marks beside the selected head mean.

    Parameters
    ----------
    sections : the keys.
    marks : of the selected head, in words of `engine.values.outline.MARKS`.
    misconfigured : what of the configuration is not used, which comes before all else.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", id="help.search"),
    ]

    def __init__(self, sections: list[Section], marks: tuple[str, ...], misconfigured: tuple[str, ...] = ()) -> None:
        super().__init__()
        wrong = Section(WRONG, tuple(Line("!", each) for each in misconfigured))
        self._sections = [wrong, *sections, Section("mouse", MOUSE)]
        self._marks = Section("marks of this head", tuple(Line(mark, MARKS[mark]) for mark in marks))
        self._search = HelpSearch()

    def compose(self) -> ComposeResult:
        """Put the line of the search above the keys."""
        yield from super().compose()
        yield self._search

    def on_mount(self) -> None:
        """List all keys, those of the list itself last, and then the marks."""
        own = describe_keys(self.app, self.active_bindings.values())
        of_list = (line for each in own for line in each.lines)
        self._sections += [Section("in this list", tuple(of_list)), self._marks]
        self._list("")

    def action_search(self) -> None:
        """Open the line of the search."""
        self._search.display = True
        self.set_focus(self._search)

    def action_keep(self) -> None:
        """Go on with the keys that were found."""
        self.set_focus(self.query_one("#list"))
        self._search.display = bool(self._search.value.strip())

    def action_list_all(self) -> None:
        """List all keys again."""
        self._search.value = ""
        self.action_keep()

    @on(Input.Changed)
    def _list_found(self, event: Input.Changed) -> None:
        """List the keys that the text is in."""
        self._list(event.value.strip().lower())

    def _list(self, text: str) -> None:
        """List keys that a text is in, or whose title it is in."""
        found = [(each, [line for line in each.lines if text in _said(each, line)]) for each in self._sections]
        width = max((cell_len(line.keys) for _, lines in found for line in lines), default=0)
        parts: list[RenderableType] = []
        for section, lines in found:
            if lines:
                table = Table.grid(padding=(0, 2, 0, 0))
                table.add_column(min_width=min(width + 2, WIDEST))
                for line in lines:
                    table.add_row(Text(f"  {line.keys}"), Text(line.said, overflow="fold"))
                parts += (Text(section.title, style="bold"), table, Text(""))
        none = f"no key does that; {key_of(self.app, 'help.all')} shows all"
        self.body.update(Group(*parts) if parts else none)


def _said(section: Section, line: Line) -> str:
    """Give all that a search looks through of a line."""
    return f"{section.title} {line.keys} {line.names} {line.said}".lower()
