"""A line of text that is redrawn only when it changes."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from tui.drawing.titles import Title
from tui.toolkit.keys import key_of

_PICTURES = {**{code: 0x2400 + code for code in range(32)}, 0x7F: 0x2421}
"""The Unicode picture of each control character, such as ␛: names in a model's files may hold any."""


class Line(Static):
    """One line of literal text; line ends and control characters are shown as signs."""

    def __init__(self, *, classes: str) -> None:
        super().__init__("", markup=False, classes=classes)
        self.shown = Text()

    def show(self, text: Text | str) -> None:
        """Change the text; redraw only if it differs."""
        if isinstance(text, str):
            text = Text(text)
        new = text.copy()
        new.plain = new.plain.translate(_PICTURES)
        if (new.plain, new.spans) != (self.shown.plain, self.shown.spans):
            is_auto = any(each is not None and each.is_auto for each in (self.styles.width, self.styles.height))
            is_longer = new.cell_len != self.shown.cell_len
            self.shown = new
            self.update(new, layout=is_auto and is_longer)


class TopLine(Line):
    """What is open, and at the right what is being worked on; as that changes often, it lays nothing out anew."""

    progress: reactive[str] = reactive("")
    """What is being worked on; empty for nothing."""

    def __init__(self) -> None:
        super().__init__(classes="top-line")

    def render(self) -> Content:
        """Cut what is open where both do not fit."""
        right = f"  {self.progress.translate(_PICTURES)}" if self.progress else ""
        room = max(self.content_size.width - cell_len(right), 0)
        left = Content.from_rich_text(self.shown).truncate(room, ellipsis=True, pad=True)
        return left + Content.styled(right, "$text-muted")


class TitleLine(Line):
    """A title that is shortened to its width."""

    def __init__(self, classes: str = "pane-title") -> None:
        super().__init__(classes=classes)
        self._title = Title()

    def show_title(self, title: Title) -> None:
        """Write as much of a title as fits, now and whenever the width changes."""
        self._title = title
        frame = self.parent if isinstance(self.parent, Frame) else None  # a frame that shows the title hides this line
        self.show(title.fit(self.content_size.width or (0 if frame is None else frame.content_size.width)))
        if frame is not None:
            frame.write_title(title)

    def on_resize(self) -> None:
        """Fit the title to the new width."""
        self.show_title(self._title)


class Frame(Vertical):
    """A part of the screen with a title in its first line, or on a large screen in the frame around it.

    Parameters
    ----------
    key : id of the binding that leads here; its key stands before the title in the frame.
    """

    def __init__(self, id: str, classes: str = "framed", title_line: TitleLine | None = None, *, key: str) -> None:
        super().__init__(id=id, classes=classes)
        self.title_line = title_line or TitleLine()
        self._key = key
        self._written: tuple[object, ...] = ()

    @property
    def _key_label(self) -> str:
        """The key that leads here; empty without one."""
        try:
            key = key_of(self, self._key)
        except KeyError:
            return ""
        return "" if key.startswith(":") and len(key) > 1 else key  # a typed name would repeat the title

    @property
    def is_framed(self) -> bool:
        """Whether there is a frame around it."""
        return self.styles.border_top[0] not in ("", "none")

    def write_title(self, title: Title) -> None:
        """Write a title into the frame: what is shown at the left, its state at the right."""
        key, room = self._key_label, self.outer_size.width - 6  # a corner, a piece of the line and a blank at each end
        before = cell_len(key) + bool(key)
        left, right = title.fit_frame(max(room - before, 1))
        wanted = (key, left, right, room) if self.is_framed else ()
        if wanted == self._written or room < 1:
            return
        self._written = wanted
        if not wanted:
            self.border_title = None
            return
        parts = [Content.styled(key, "$footer-key-foreground"), Content(" " * bool(key)), _styled(left, "$foreground")]
        if right:
            rule = "─" * (room - before - left.cell_len - right.cell_len - 2)
            parts += [Content(f" {rule} "), _styled(right, "$foreground 70%")]
        self.border_title = Content("").join(parts)

    def on_resize(self) -> None:
        """Fit the title to the new width."""
        self.title_line.on_resize()


def _styled(text: Text, style: str) -> Content:
    """Return a piece of a title; its own styles come before the common one."""
    return Content.from_rich_text(text).stylize_before(style)
