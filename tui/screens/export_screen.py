"""The export menu: what to write, in which format, and to which file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Region
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from engine.store.export import FORMATS
from engine.values.errors import EngineError
from tui.export.files import Choice, ExportFiles, What, choice_of, formats_for
from tui.screens.modal import Modal
from tui.toolkit.keys import key_of
from tui.widgets.field import Field
from tui.widgets.line import Line
from tui.widgets.menu import Menu


class FileName(Field):
    """The name of the file, of which the end is shown."""

    leaving = "screen.leave"

    def on_resize(self) -> None:
        """Scroll to the cursor, which was placed before the line was laid out."""
        self.scroll_to_region(Region(self._cursor_offset, 0, 1, 1), force=True, animate=False)


HINT = "in the list, a letter writes at once"


class ExportScreen(Modal["tuple[Choice, Path, bool] | None"]):
    """The menu; its result is the choice, the path and whether it may replace a file, or None.

    Parameters
    ----------
    exporting : what there is to write, and the last choice.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(what.key, f"take('{what.name}')", what.does, show=False, id=f"export.{what.name.lower()}")
            for what in What
        ),
        Binding("right,l", "format(1)", "Next format", show=False, id="export.next_format"),
        Binding("left,h", "format(-1)", "Previous format", show=False, id="export.previous_format"),
        # With priority, so that letters typed right after it go into the name.
        Binding("tab,shift+tab", "name", "To the file's name, or back", show=False, id="export.name", priority=True),
        Binding("escape,q,e", "leave", "Close", id="export.close"),
    ]

    foot_keys: ClassVar[dict[str, str]] = {
        "menu.select": "Write",
        "field.submit": "Write",
        "export.next_format": "Format",
        "export.name": "Name",
        "export.close": "Back",
    }

    def __init__(self, exporting: ExportFiles) -> None:
        super().__init__()
        self._exporting = exporting
        self._choice = exporting.fitting(exporting.choice)
        self._suggested: Path | None = None
        self._confirmed: Path | None = None
        self._list = Menu(
            *(Option(Text(f"{what.key}  {exporting.describe(what)}"), id=what.name) for what in What),
            markup=False,
            name="export menu",
        )
        self._format_line = Line(classes="export-format")
        self._file = FileName(name="file name")
        self.message_line = Line(classes="export-said")

    def compose(self) -> ComposeResult:
        """Stack the list, the format, the file and the message."""
        with Vertical(id="export", classes="box") as box:
            box.border_title = "export"
            yield self._list
            yield self._format_line
            yield self._file
            yield self.message_line

    def on_mount(self) -> None:
        """Put the cursor on the last choice."""
        self.set_focus(self._list)
        self._list.highlighted = list(What).index(self._choice.what)
        self._suggest()

    @property
    def _is_naming(self) -> bool:
        return self.focused is self._file

    @on(OptionList.OptionHighlighted)
    def _choose_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        what, is_here = What[str(event.option_id)], event.option_index == self._list.highlighted
        if is_here and what is not self._choice.what:
            self._choose(replace(self._choice, what=what))

    @on(OptionList.OptionSelected)
    def _write_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_take(str(event.option_id))

    def _choose(self, choice: Choice) -> None:
        self._choice = self._exporting.fitting(choice)
        self._suggest()

    def _suggest(self) -> None:
        line = Text("format  " if self._choice.what.is_table else "tables  ")
        for name in formats_for(self._choice.what, self._exporting.view):
            style = Style(reverse=name == self._choice.format, meta={"@click": f"screen.choose_format('{name}')"})
            line.append(f" {FORMATS.get(name, name.upper())} ", style)
            line.append(" ")
        self._format_line.show(line)
        try:
            self._suggested = self._exporting.suggest(self._choice)
            is_model = self._choice.what is What.MODEL
            self.message_line.show(self._exporting.command() if is_model else HINT)
        except EngineError as error:
            self._suggested = None
            self.message_line.show(str(error))
        self._file.value = "" if self._suggested is None else str(self._suggested)
        self._file.cursor_position = len(self._file.value)
        self._confirmed = None

    def action_format(self, step: int) -> None:
        """Choose the next or previous format."""
        formats = formats_for(self._choice.what, self._exporting.view)
        place = formats.index(self._choice.format) + step if self._choice.format in formats else 0
        self.action_choose_format(formats[place % len(formats)])

    def action_choose_format(self, format: str) -> None:
        """Choose a format by name."""
        self._choose(replace(self._choice, format=format))

    def action_name(self) -> None:
        """Go to the name, or back to the list."""
        self.set_focus(self._list if self._is_naming else self._file)

    def action_take(self, what: str) -> None:
        """Choose something and write it."""
        if What[what] is not self._choice.what:
            self._choose(replace(self._choice, what=What[what]))
        self._write()

    def action_leave(self) -> None:
        """Go back from the name to the list, or close."""
        if self._is_naming:
            self.set_focus(self._list)
        else:
            self.dismiss(None)

    @on(Input.Changed)
    def _clear_question(self, event: Input.Changed) -> None:
        """Clear the question about another name; the value differs where a name was suggested meanwhile."""
        if self._confirmed is not None and event.value == self._file.value:
            self._confirmed = None
            self.message_line.show(HINT)

    @on(Input.Submitted)
    def _write(self) -> None:
        """Write the choice; ask a second time to overwrite a file."""
        try:
            path = self._path()
            is_there = path.exists()
        except (EngineError, OSError, RuntimeError) as error:  # a name that is too long; an unknown user after ~
            self.message_line.show(error.strerror or str(error) if isinstance(error, OSError) else str(error))
            return
        if is_there and path != self._confirmed:
            self._confirmed = path
            self.message_line.show(f"the file exists; press {key_of(self.app, 'menu.select')} again to overwrite it")
            return
        self.dismiss((self._choice, path, is_there))

    def _path(self) -> Path:
        """Read the path; another ending changes the choice; `EngineError` when there is no such folder, or no name."""
        suggested = self._exporting.suggest(self._choice) if self._suggested is None else self._suggested
        typed = self._file.value.strip()
        path = suggested.parent / Path(typed).expanduser() if typed else suggested
        if path.is_dir():
            path = path / suggested.name
        if not path.parent.is_dir():
            raise EngineError(f"there is no folder {path.parent}; make it or choose another")
        self._choice = choice_of(path, self._choice, self._exporting.view)
        return path
