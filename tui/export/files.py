"""What leaves the explorer as files: what there is, what it is called, where it goes, what was chosen last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.store.export import FORMATS, check_format
from engine.store.files import unused_path
from engine.values.errors import EngineError
from engine.values.heads import Head
from tui.export.choice import Choice, What, formats_for
from tui.export.screen_request import Asking
from tui.export.view_table import file_stem, subject_of
from tui.export.writing import Writing
from tui.state.saved import Exported
from tui.toolkit.keys import key_of

if TYPE_CHECKING:
    from engine.values.outline import ModelOutline
    from tui.conductor import Conductor
    from tui.parts import Parts
    from tui.restoring import Restoring


OF_MODEL = {"spectra": "spectrum", "text": "attention", "difference": "attention", "overview": "heads"}
"""The table of the whole model that belongs to a view, or to its table, where that is not called the same."""


class Exporting:
    """The files of one explorer.

    Attributes
    ----------
    choice : the last one, which is offered first.
    folder : where files go; None is where the program was started.
    writing : the file that is being written.
    """

    def __init__(self, app: Parts, conductor: Conductor, restoring: Restoring) -> None:
        self._app = app
        self._conductor = conductor
        self._restoring = restoring
        self._outline: ModelOutline | None = None
        self._asking: Asking | None = None
        self.choice = Choice()
        self.folder: Path | None = None
        self.writing = Writing(app)

    def begin(self, outline: ModelOutline) -> None:
        """Write what there is of a model that has been opened."""
        self._outline = outline
        self._asking = Asking(outline, self._app.engine.options, self._app.session, self._app.views)
        last = self._restoring.exported
        if last.what in What.__members__:
            self.choice = Choice(What[last.what], last.format if last.format in (*FORMATS, "npz") else "csv")
        self.folder = Path(last.folder) if last.folder else None

    @property
    def view(self) -> str:
        """The active view."""
        return self._app.views.active.view

    @property
    def outline(self) -> ModelOutline:
        """The open model.

        Raises
        ------
        EngineError : when none is open.
        """
        if self._outline is None:
            raise EngineError("no model is open yet; nothing was written")
        return self._outline

    def fitting(self, choice: Choice) -> Choice:
        """Choose a format that there is of what is chosen, as near as may be."""
        formats = formats_for(choice.what, self.view)
        return choice if not formats or choice.format in formats else replace(choice, format="csv")

    def says(self, what: What) -> str:
        """Say in a few words what would be written."""
        meant = self._conductor.meant
        of = "the model" if meant is None else str(meant)
        return {
            What.VIEW: f"{self.view} as on screen",
            What.MODEL: f"{self._table_name()} of the whole model",
            What.MATRICES: f"matrices of {of}, NPZ",
            What.SVG: f"picture of {self.view}, SVG",
            What.SCREEN: "picture of the screen, SVG",
            What.TEXT: f"picture of {self.view}, plain text",
            What.ANSI: f"picture of {self.view}, coloured text",
        }[what]

    def command(self) -> str:
        """Give the command that writes the whole model's table without the explorer.

        Raises
        ------
        EngineError : when the view lacks what the table is of, such as a sentence.
        """
        return self._asked.command(self._table_name())

    def suggest(self, choice: Choice) -> Path:
        """Give a name that is not taken, in the folder that files go to.

        Raises
        ------
        EngineError : when there is nothing to write, or no folder.
        """
        self._refuse_unfinished(choice)
        return unused_path((self.folder or Path()) / f"{self._stem(choice.what)}{choice.ending}")

    def _refuse_unfinished(self, choice: Choice) -> None:
        """Raise where a picture would show that something is being worked out, and nothing of it."""
        if choice.what.is_picture and _is_of_view(choice.what) and self._app.views.active.is_waiting:
            raise EngineError(f"the {self.view} view shows nothing yet; nothing was written")

    @property
    def is_to_come(self) -> bool:
        """Whether the view in view is still being worked out."""
        return self._app.views.active.is_waiting

    def is_unfinished(self, choice: Choice) -> bool:
        """Whether a table, or a picture, of the view on screen would lack what is still worked out."""
        return _is_of_view(choice.what) and self._app.views.active.is_unfinished

    def has_to_come(self, choice: Choice) -> bool:
        """Whether what is chosen of the view is still worked out: all of it, or more of it."""
        pane = self._app.views.active
        return (_is_of_view(choice.what) and pane.is_waiting) or (self.is_unfinished(choice) and not pane.is_stopped)

    def later(self, *, is_asked: bool = True) -> str:
        """Say that what is asked for is written later, or would be."""
        if self.is_to_come:
            what = "it" if is_asked else "what is chosen"
            return f"the {self.view} view shows nothing yet; {what} is written once it does"
        again = key_of(self._app, "export.write")
        return f"still being worked out; written once it is whole, or with {again} as it is"

    @property
    def _asked(self) -> Asking:
        """What turns the state of the explorer into requests."""
        if self._asking is None:
            raise EngineError("no model is open yet; nothing was written")
        return self._asking

    @property
    def _several(self) -> tuple[str, str] | None:
        """The table of the active view and what it is of, where several heads are beside each other in it."""
        comparing = self._conductor.comparing
        return None if comparing is None else comparing.named

    def _table_name(self) -> str:
        """Name the table of the active view as the command line does."""
        shown = self._app.views.attention.shown_name
        if self.view == "attention" and shown is not None and shown.is_rollout:
            return "rollout"
        several = self._several
        name = self.view if several is None else several[0]
        return OF_MODEL.get(name, name)

    def _stem(self, what: What) -> str:
        """Say what a file's name begins with."""
        outline, selected = self.outline, self._app.session.shown.selected
        stack = None if selected is None else selected.stack
        if what is What.SCREEN:
            return file_stem(outline, stack, _of(selected), "screen")
        if what is What.MATRICES:
            meant = self._conductor.meant
            return file_stem(outline, None if meant is None else meant.stack, _of(meant), "matrices")
        if what is What.MODEL:
            name = self._table_name()
            subject = subject_of(None, self._asked.distance(name)).replace("model", "all") + self._asked.folded(name)
            return file_stem(outline, None, subject + self._asked.without * (name == "attention"), name)
        if (several := self._several) is not None:
            name, subject = several
            return file_stem(outline, None, subject, name)
        if self.view != "attention":
            table, subject = self._conductor.table()
            return file_stem(outline, stack, subject, table.name)
        shown = self._app.views.attention.shown_name
        if shown is None:
            raise EngineError("the attention view shows nothing yet; nothing was written")
        subject = "" if shown.is_rollout else f"L{shown.layer_label}H{shown.head_label}"
        return file_stem(outline, shown.stack, f"{subject}{self._asked.without}", self._table_name())

    async def write(self, choice: Choice, path: Path, *, may_replace: bool) -> str:
        """Write what is chosen; say what was written, and where.

        Parameters
        ----------
        choice : of what, and as what.
        path : of the file.
        may_replace : whether a file that is there already is written over; else the new one gets a number.

        Raises
        ------
        Superseded : when it was given up.
        EngineError : when there is nothing to write, no place to write it to, or a file that is still being written.
        """
        from tui.export.jobs import Jobs

        await self.writing.settle()
        self.writing.refuse_a_second()
        choice = self.fitting(choice)
        self._refuse_unfinished(choice)
        self.choice = choice
        if choice.what.is_table and choice.format != "npz":
            check_format(choice.format, path)
        self._restoring.keep_export(Exported(choice.what.name, choice.format, _folder_of(path)))
        jobs = Jobs(self._app, self._conductor, self.outline, self._asked, self.writing)
        how_far = "as far as it is known by now: " if self.is_unfinished(choice) else ""
        place = path if may_replace else unused_path(path)
        return how_far + await jobs.write(choice, place, self._table_name())


def _folder_of(path: Path) -> str:
    """Name the folder of a file; nothing where that is the one the program was started in."""
    try:
        folder = path.parent.resolve()
        return "" if folder == Path.cwd() else str(folder)
    except (OSError, RuntimeError):
        return ""


def _of(selected: Head | None) -> str:
    """Say in a file's name what is selected."""
    return "all" if selected is None else str(selected)


def _is_of_view(what: What) -> bool:
    """Say whether what is written is what the active view shows."""
    return what is What.VIEW or (what.is_picture and what is not What.SCREEN)
