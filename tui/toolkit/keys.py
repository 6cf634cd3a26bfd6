"""Keys: how a text names them, how lists group them, and the bindings for paging."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from textual.binding import Binding
from textual.dom import DOMNode

VIEWS = Binding.Group("views")
MOVING = Binding.Group("moving")
HEADS = Binding.Group("heads")
SENTENCE = Binding.Group("sentence")
MEASURING = Binding.Group("measures")
TAKING_AWAY = Binding.Group("copying and exporting")
PROGRAM = Binding.Group("program")

GROUPS = (VIEWS, MOVING, HEADS, SENTENCE, MEASURING, TAKING_AWAY, PROGRAM)
"""In the order of the help."""

MOVING_KEYS = frozenset({
    *("up", "down", "left", "right", "h", "j", "k", "l", "pageup", "pagedown", "home", "end", "gg", "G"),
    *("ctrl+home", "ctrl+end", "ctrl+f", "ctrl+b", "ctrl+d", "ctrl+u"),
})  # fmt: skip
"""Keys that move in every list, table and map."""

MOVES = (
    ("arrows hjkl", "One step"),
    ("pgup pgdn", "A page"),
    ("^u ^d", "Half a page"),
    ("home end", "Ends of a row"),
    ("gg G", "First, last line"),
)
"""What they do."""

PAIRS = {
    ("app.next_view", "app.previous_view"): "Next, previous panel",
    ("app.previous_head", "app.next_head"): "Previous, next head",
    ("app.previous_layer", "app.next_layer"): "Previous, next layer",
    ("app.next_match", "app.previous_match"): "Next, previous match",
    ("app.back", "app.forward"): "Back, forward",
    ("app.more", "app.less"): "Larger, smaller ε",
    ("heatmap.next_found", "heatmap.previous_found"): "Next, previous match",
    ("heatmap.zoom_in", "heatmap.zoom_out"): "Zoom in, zoom out",
    ("heatmap.page_left", "heatmap.page_right"): "A page left, a page right",
    ("export.previous_format", "export.next_format"): "Previous, next format",
    ("app.quit", "app.quit_too"): "Quit",
}
"""Ids of bindings that do opposite things, or the same, and what the help says in one line of both."""

IN_TEXT = {"enter": "Enter", "escape": "esc"}
"""Names of keys in sentences, where the key line shows a sign."""

IN_ASCII = {"up": "Up", "down": "Down", "left": "Left", "right": "Right", "backspace": "Backspace", "enter": "Enter"}
"""Names of keys in ASCII that have a sign of their own."""

UNBOUND = "unbound:"
"""Prefix of a binding's id that makes a key no terminal sends; Textual requires one for every binding."""


def shared_key(
    name: str, keys: str, action: str, said: str, group: Binding.Group, *, is_first: bool = False
) -> Binding:
    """Bind keys, or none, to an action that works wherever the focus is: before all widgets see them, or after."""
    name = f"app.{name}"
    return Binding(keys or f"{UNBOUND}{name}", action, said, show=False, priority=is_first, id=name, group=group)


HELP = shared_key("help", "question_mark", "app.help", "Help: the keys", PROGRAM)
QUIT_TOO = shared_key("quit_too", "ctrl+q,ctrl+c", "app.quit", "Quit", PROGRAM)

PROGRAM_KEYS = (
    HELP,
    shared_key("quit", "q", "quit", "Quit", PROGRAM),
    QUIT_TOO,
    shared_key("redraw", "ctrl+l", "redraw", "Draw the screen again", PROGRAM, is_first=True),
    shared_key("suspend", "ctrl+z", "suspend_process", "Suspend, until fg", PROGRAM, is_first=True),
)
"""The keys of every application."""


def command_binding(name: str, action: str, said: str) -> Binding:
    """Make a binding without a key for an action of a view, which is called by the last part of its id."""
    return Binding(f"{UNBOUND}{name}", action, said, show=False, id=name)


def command_name(binding: Binding) -> str:
    """Return the name by which a binding's action can be called."""
    return str(binding.id).rpartition(".")[2].replace("_", "-")


def is_bound(binding: Binding) -> bool:
    """Return whether a binding has a key."""
    return not binding.key.startswith(UNBOUND)


def key_of(node: DOMNode, name: str) -> str:
    """Return the first key of a binding, by its id; without a key, how to type its name.

    Raises
    ------
    KeyError : when no class that has been imported has such a binding.
    """
    app = node.app
    keys = app._keymap.get(name) or _default_keys(name)
    key = keys.partition(",")[0].strip()
    if key.startswith(UNBOUND):
        return f":{command_name(Binding(key, '', id=name))}"
    return IN_TEXT.get(key) or app.get_key_display(Binding(key, ""))


@cache
def _default_keys(name: str) -> str:
    for kind in _subclasses(DOMNode):
        for each in vars(kind).get("BINDINGS", ()):
            if isinstance(each, Binding) and each.id == name:
                return each.key
    raise KeyError(name)


def _subclasses(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def paging_bindings(id: str, of: str = "A page", half: str = "Half a page") -> list[Binding]:
    """Return the bindings of a widget with an ``action_page`` that takes a number of pages or halves."""
    return [
        Binding("pagedown,ctrl+f", "page(1)", f"{of} down", show=False, id=f"{id}.page_down"),
        Binding("pageup,ctrl+b", "page(-1)", f"{of} up", show=False, id=f"{id}.page_up"),
        Binding("ctrl+d", "page(0.5)", f"{half} down", show=False, id=f"{id}.half_down"),
        Binding("ctrl+u", "page(-0.5)", f"{half} up", show=False, id=f"{id}.half_up"),
    ]


def lines_of(pages: float, page: int) -> int:
    """Return the lines of some pages: at least one.

    Examples
    --------
    >>> lines_of(1, 12), lines_of(-0.5, 12), lines_of(0.5, 1), lines_of(-1, 0)
    (12, -6, 1, -1)
    """
    return int(pages * page) or (1 if pages > 0 else -1)
