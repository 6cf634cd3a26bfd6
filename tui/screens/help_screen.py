"""The help: every key that works now, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import ModalScreen
from textual.widgets import Input

from engine.values.outline import MARKS
from tui.screens.modal import ListScreen
from tui.toolkit.keys import GROUPS, MOVES, MOVING, MOVING_KEYS, PAIRS, VIEWS, is_bound, key_of
from tui.widgets.field import OF_EDITING, Field

HERE = "in this menu"
TYPED = "while you type"


@dataclass(frozen=True)
class Line:
    """Keys as shown, what they do, and the keys' names, by which a search finds them too."""

    keys: str
    description: str
    names: str = ""


MOUSE = (
    Line("click", "Go there; again: Enter"),
    Line("wheel", "Scroll"),
    Line("shift+drag", "Select text"),
)
"""The actions of the mouse, which have no bindings."""

KEYS = 13
"""Cells of the column of keys."""

COLUMN = 38
"""Cells of the screen that a column of the list takes at least."""

COLUMNS = 3
"""The most columns."""


@dataclass(frozen=True)
class Section:
    """A title and the lines below it."""

    title: str
    lines: tuple[Line, ...]


def describe_keys(app: App[None]) -> list[Section]:
    """Group the keys that work now: views, moving, the focused part, the other groups, and last those for typing.

    Keys that move the same way everywhere are listed once.
    """
    found: dict[str, dict[str, list[Binding]]] = {}
    moves, paired = False, {name for pair in PAIRS for name in pair}
    for each in app.screen.active_bindings.values():
        binding = each.binding
        if binding.id is None or not is_bound(binding):
            continue  # Textual's own keys, and commands without a key
        if binding.id.startswith(OF_EDITING):
            title = TYPED
        elif binding.key in MOVING_KEYS and binding.id not in paired:
            moves = True
            continue
        elif each.node is app.screen and isinstance(each.node, ModalScreen):
            title = HERE
        elif binding.group is not None:
            title = binding.group.description
        else:
            title = f"in the {name_of_part(each.node)}"
        found.setdefault(title, {}).setdefault(binding.id, []).append(binding)
    lines = {title: tuple(_lines(app, by_id)) for title, by_id in found.items()}
    if moves:
        lines[MOVING.description] = (*(Line(*each) for each in MOVES), *lines.get(MOVING.description, ()))
    order = [VIEWS.description, MOVING.description, HERE, "", *(group.description for group in GROUPS[2:]), TYPED]
    titles = sorted(lines, key=lambda title: order.index(title if title in order else ""))
    return [Section(title, lines[title]) for title in titles]


def name_of_part(node: DOMNode) -> str:
    """Give the name of a widget, or of the nearest part around it that has one."""
    return node.name or node.id or (name_of_part(node.parent) if node.parent is not None else "view")


def _lines(app: App[None], by_id: dict[str, list[Binding]]) -> Iterator[Line]:
    """Write a line for each pair of opposite actions and for each other action."""
    done = set[str]()
    for name, bindings in by_id.items():
        if name in done:
            continue
        pair = next((pair for pair in PAIRS if name in pair and by_id.keys() >= {*pair}), None)
        done |= {*(pair or ())}
        shown = bindings if pair is None else [by_id[one][0] for one in pair]
        keys, *others = dict.fromkeys(map(app.get_key_display, shown))
        for other in others:
            keys = f"{keys} {other}" if cell_len(f"{keys} {other}") <= KEYS else keys
        names = " ".join(each.key.replace("_", " ") for one in pair or (name,) for each in by_id[one])
        yield Line(keys, bindings[0].description if pair is None else PAIRS[pair], names)


class HelpSearch(Field):
    """The line for the text to search in the help."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.keep", "Keep", id="help.keep"),
        Binding("escape", "screen.list_all", "All keys", id="help.all"),
    ]

    leaving = "screen.list_all"

    def __init__(self) -> None:
        super().__init__(placeholder="a key, or what it does", id="help-search")
        self.display = False


class HelpScreen(ListScreen):
    """Lists every key that works now, then the meaning of the marks beside the selected head.

    Parameters
    ----------
    marks : of the selected head, names in `engine.values.outline.MARKS`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "search", "Search", id="help.search")]

    foot_keys: ClassVar[dict[str, str]] = {"help.search": "Search", "list.close": "Close"}

    heading = "keys"

    def __init__(self, marks: tuple[str, ...] = ()) -> None:
        super().__init__()
        of_marks = Section("marks of this head", tuple(Line(mark, MARKS[mark]) for mark in marks))
        self._sections = [*describe_keys(self.app), Section("mouse", MOUSE), of_marks]
        self._search = HelpSearch()

    def compose(self) -> ComposeResult:
        """Add the search line."""
        yield from super().compose()
        yield self._search

    def on_mount(self) -> None:
        """List the keys before the box is laid out."""
        self._list()

    def on_resize(self) -> None:
        """List the keys in as many columns as there is room for."""
        self._list()

    def action_search(self) -> None:
        """Open the search line."""
        self._search.display = True
        self.set_focus(self._search)

    def action_keep(self) -> None:
        """Leave the search line; the matches stay listed."""
        self.set_focus(self.query_one("#list"))
        self._search.display = bool(self._search.value.strip())

    def action_list_all(self) -> None:
        """List all keys again."""
        self._search.value = ""
        self.action_keep()

    @on(Input.Changed)
    def _list(self) -> None:
        """List the lines that hold what is searched; all of them in columns."""
        text = self._search.value.strip().lower()
        found = [(each, [line for line in each.lines if text in _searched(each, line)]) for each in self._sections]
        found = [(each, lines) for each, lines in found if lines]
        count = 1 if text else max(1, min(self.app.size.width // COLUMN, COLUMNS))
        columns: list[list[RenderableType]] = [[] for _ in range(count)]
        share = sum(len(lines) + 2 for _, lines in found) / count
        height = 0
        for section, lines in found:
            table = Table.grid(padding=(0, 1, 0, 0))
            table.add_column(width=KEYS)
            for line in lines:
                table.add_row(Text(line.keys, style="bold"), Text(line.description, overflow="fold"))
            column = columns[min(int((height + len(lines) // 2) / share), count - 1)]
            column += (Text(section.title, style="dim"), table, Text(""))
            height += len(lines) + 2
        beside = Table.grid(padding=(0, 2, 0, 0), expand=True)
        for column in filter(None, columns):
            column.pop()
            beside.add_column(ratio=1)
        beside.add_row(*(Group(*column) for column in columns if column))
        none = f"no key does that; {key_of(self.app, 'help.all')} lists all keys"
        self.body.update(beside if found else none)


def _searched(section: Section, line: Line) -> str:
    return f"{section.title} {line.keys} {line.names} {line.description}".lower()
