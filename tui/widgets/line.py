"""A line of text that is redrawn only when it changes."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from tui.drawing.titles import Title
from tui.toolkit.keys import key_of

_PICTURES = {**{code: 0x2400 + code for code in range(32)}, 0x7F: 0x2421}
"""Unicode's picture of each control character, such as ␛; a name from a model's files may hold any of them."""


class Line(Static):
    """One line of text, shown literally, with no end of a line in it; it is redrawn only when it changes."""

    def __init__(self, *, classes: str) -> None:
        super().__init__("", markup=False, classes=classes)
        self.shown = Text()

    def show(self, text: Text | str) -> None:
        """Change the text."""
        if isinstance(text, str):
            text = Text(text)
        new = text.copy()
        new.plain = new.plain.translate(_PICTURES)
        if (new.plain, new.spans) != (self.shown.plain, self.shown.spans):
            is_auto = any(each is not None and each.is_auto for each in (self.styles.width, self.styles.height))
            is_longer = new.cell_len != self.shown.cell_len
            self.shown = new
            self.update(new, layout=is_auto and is_longer)


class TitleLine(Line):
    """The line over a part of the screen, which is written anew for each size."""

    def __init__(self, classes: str = "pane-title") -> None:
        super().__init__(classes=classes)
        self._title = Title()

    def show_title(self, title: Title) -> None:
        """Write as much of a title as there is room for, now and after a change of size."""
        self._title = title
        self.show(title.within(self._room))
        if isinstance(self.parent, Frame):
            self.parent.write_title(title)

    def refresh_title(self) -> None:
        """Write what there is room for now."""
        self.show_title(self._title)

    @property
    def _room(self) -> int:
        """The cells of the line; where it is not seen, as its frame has the title, those of what is in the frame."""
        around = self.parent
        return self.content_size.width or (around.content_size.width if isinstance(around, Frame) else 0)

    def on_resize(self) -> None:
        """Write what there is room for now."""
        self.refresh_title()


class Frame(Vertical):
    """A part of the screen that has its title in the first line, or on a large screen in the frame around it.

    Parameters
    ----------
    key : the binding that leads here, by its id, if there is one; in the frame its key stands before the title.

    Attributes
    ----------
    title_line : the first line.
    """

    def __init__(self, id: str, classes: str = "framed", title_line: TitleLine | None = None, *, key: str) -> None:
        super().__init__(id=id, classes=classes)
        self.title_line = title_line or TitleLine()
        self._key = key
        self._written: tuple[object, ...] = ()

    @property
    def _key_label(self) -> str:
        """The key that leads here, if it has one."""
        try:
            key = key_of(self, self._key)
        except KeyError:
            return ""
        return "" if key.startswith(":") and len(key) > 1 else key  # a name that is typed is the title itself

    @property
    def is_framed(self) -> bool:
        """Whether there is a frame around it."""
        return self.styles.border_top[0] not in ("", "none")

    def write_title(self, title: Title) -> None:
        """Write a title into the frame: what is shown at the left, its state at the right."""
        key, room = self._key_label, self.outer_size.width - 6  # corners, a piece of the line and a blank at each end
        before = cell_len(key) + bool(key)
        left, right = title.in_frame(max(room - before, 1))
        wanted = (key, left, right, room) if self.is_framed else ()
        if wanted == self._written or room < 1:
            return
        self._written = wanted
        if not wanted:
            self.border_title = None
            return
        parts = [Content.styled(key, "$footer-key-foreground"), Content(" " * bool(key)), _said(left, "$foreground")]
        if right:
            rule = "─" * (room - before - left.cell_len - right.cell_len - 2)
            parts += [Content(f" {rule} "), _said(right, "$foreground 70%")]
        self.border_title = Content("").join(parts)

    def on_resize(self) -> None:
        """Write what there is room for now."""
        self.title_line.refresh_title()


def _said(text: Text, style: str) -> Content:
    """Give a piece of a title, its own styles before the one that all has."""
    return Content.from_rich_text(text).stylize_before(style)
