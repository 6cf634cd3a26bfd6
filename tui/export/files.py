"""What leaves the explorer as files: what there is, as what, where it goes, and the work of writing it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from engine.service.queue import Check
from engine.store.export import FORMATS, check_format, format_of, write_npz, write_table
from engine.store.files import requested_file, unused_path
from engine.values.display_text import plural
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.memory import size
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.table import LeftOut, Table, left_out_title
from tui.export.pictures import Picture, picture_in_glyphs, picture_of, picture_of_screen
from tui.export.request import Export, facts_of
from tui.export.screen_request import ScreenRequests
from tui.export.view_table import LONG, estimated_bytes, file_stem, subject_of
from tui.state.saved import Exported
from tui.toolkit.keys import key_of
from tui.toolkit.messages import Advanced

if TYPE_CHECKING:
    from engine.values.outline import ModelOutline
    from tui.app.conductor import Conductor
    from tui.app.restoring import Restoring
    from tui.export.request import Request
    from tui.export.screen_request import ScreenRequests
    from tui.parts import Parts


class What(Enum):
    """What is written; each by the key that chooses it in the menu."""

    VIEW = "v"
    """The table of the active view, with the rows and in the order that are on screen."""
    MODEL = "w"
    """The same table of the whole model, as ``attn-tui export`` prints it."""
    MATRICES = "m"
    """The matrices of what is selected, as NumPy arrays."""
    SVG = "s"
    SCREEN = "S"
    """The whole screen, as SVG."""
    TEXT = "t"
    ANSI = "a"
    """Text with the escape sequences of its colours."""

    @property
    def is_table(self) -> bool:
        """Whether it has a format of its own choice."""
        return self in (What.VIEW, What.MODEL)

    @property
    def is_picture(self) -> bool:
        """Whether it is what the screen shows, and no numbers."""
        return self in _PICTURES


_PICTURES = {What.SVG: ".svg", What.SCREEN: ".svg", What.TEXT: ".txt", What.ANSI: ".ans"}


@dataclass(frozen=True, slots=True)
class Choice:
    """What is written, and for tables as what.

    Attributes
    ----------
    what : the thing.
    format : one of `engine.store.export.FORMATS`, or ``npz`` for the whole model's attention.
    """

    what: What = What.VIEW
    format: str = "csv"

    @property
    def ending(self) -> str:
        """What the file's name ends with."""
        if self.what is What.MATRICES:
            return ".npz"
        return _PICTURES.get(self.what, f".{self.format}")


def formats_for(what: What, view: str) -> tuple[str, ...]:
    """List the formats that one may choose between; none where there is one alone."""
    if not what.is_table:
        return ()
    return (*FORMATS, "npz") if what is What.MODEL and view == "attention" else tuple(FORMATS)


def choice_of(name: str, usual: Choice) -> Choice:
    """Say what a file of a name is to hold: by its ending a picture, text or matrices, else the table of the view.

    Examples
    --------
    >>> choice_of("a.svg", Choice()).what, choice_of("a.npz", Choice()).what, choice_of("b.jsonl", Choice()).format
    (<What.SVG: 's'>, <What.MATRICES: 'm'>, 'jsonl')
    """
    ending = Path(name).suffix
    of_endings = {".npz": What.MATRICES, ".svg": What.SVG, ".txt": What.TEXT, ".ans": What.ANSI}
    what = of_endings.get(ending, What.VIEW)
    return Choice(what, format_of(Path(name)) or usual.format)


Answer = TypeVar("Answer")
Report = Callable[[Progress], None]

LOOK = 0.02
"""Seconds between two looks at whether a file has been written."""

LOOKS = 50
"""How often that is looked at before another file is refused."""


class Writing:
    """The file that is being written, if any."""

    def __init__(self, app: Parts) -> None:
        self._app = app
        self._written: Path | None = None

    @property
    def said(self) -> str:
        """What stands before how far a file is."""
        return f"writing, {key_of(self._app, 'app.leave')} stops:"

    async def settle(self) -> None:
        """Wait a moment for a file that is nearly written."""
        for _ in range(LOOKS):
            if self._written is None:
                return
            await asyncio.sleep(LOOK)

    def refuse_a_second(self) -> None:
        """See to it that files are written one after the other.

        Raises
        ------
        EngineError : while one is still being written.
        """
        if self._written is not None:
            raise EngineError(
                f"{self._written.name} is still being written; try again when it is done, "
                f"or {key_of(self._app, 'app.leave')} stops it"
            )

    def stop(self) -> bool:
        """Give up the file that is being written, of which nothing is left; False where there is none."""
        if self._written is None:
            return False
        self._app.engine.stop_writing()
        return True

    async def write(self, path: Path, work: Callable[[Check, Report], Answer]) -> Answer:
        """Do the work that writes a file.

        Parameters
        ----------
        path : of the file.
        work : called on a thread of its own, with what it calls now and then, which raises when the file is not wanted
            any more, and with what it may tell how far it is.

        Raises
        ------
        Superseded : when the file was given up.
        EngineError : when it cannot be written.
        """
        has_told = False

        def report(progress: Progress) -> None:
            nonlocal has_told
            has_told = True
            self._app.post_message(Advanced(progress))

        self._written = path
        try:
            return await asyncio.wrap_future(self._app.engine.write(lambda check: work(check, report)))
        finally:
            self._written = None
            if has_told:
                self._app.post_message(Advanced(Progress("", 1, 1, "")))


OF_MODEL = {"spectra": "spectrum", "text": "attention", "difference": "attention", "overview": "heads"}
"""The table of the whole model that belongs to a view, or to its table, where that is not called the same."""


class ExportFiles:
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
        self._screen_requests: ScreenRequests | None = None
        self.choice = Choice()
        self.folder: Path | None = None
        self.writing = Writing(app)

    def begin(self, outline: ModelOutline) -> None:
        """Write what there is of a model that has been opened."""
        self._outline = outline
        self._screen_requests = ScreenRequests(outline, self._app.engine.options, self._app.session, self._app.views)
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
        return self._requests.command(self._table_name())

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

    def is_unfinished(self, choice: Choice) -> bool:
        """Whether a table, or a picture, of the view on screen would lack what is still worked out."""
        return _is_of_view(choice.what) and self._app.views.active.is_unfinished

    def is_to_grow(self, choice: Choice) -> bool:
        """Whether it lacks something that is to come."""
        return self.is_unfinished(choice) and not self._app.views.active.is_stopped

    @property
    def _requests(self) -> ScreenRequests:
        """What turns the state of the explorer into requests."""
        if self._screen_requests is None:
            raise EngineError("no model is open yet; nothing was written")
        return self._screen_requests

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
            requests = self._requests
            subject = subject_of(None, requests.distance(name)).replace("model", "all") + requests.folded(name)
            return file_stem(outline, None, subject + requests.without * (name == "attention"), name)
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
        return file_stem(outline, shown.stack, f"{subject}{self._requests.without}", self._table_name())

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
        await self.writing.settle()
        self.writing.refuse_a_second()
        choice = self.fitting(choice)
        self._refuse_unfinished(choice)
        self.choice = choice
        if choice.what.is_table and choice.format != "npz":
            check_format(choice.format, path)
        self._restoring.keep_export(Exported(choice.what.name, choice.format, _folder_of(path)))
        how_far = "as far as it is known by now: " if self.is_unfinished(choice) else ""
        place = path if may_replace else unused_path(path)
        return how_far + await self._write(choice, place)

    async def _write(self, choice: Choice, path: Path) -> str:
        """Write what is chosen, each thing as it has to be; say what was written, and where."""
        requests, name = self._requests, self._table_name()
        if choice.what.is_picture:
            said = await self._write_picture(choice.what, path)
        elif choice.what is What.MATRICES:
            said = await self._write_arrays(requests.matrices(self._conductor.meant), path)
        elif choice.what is What.MODEL and choice.format == "npz":
            said = await self._write_arrays(requests.whole(name), path)
        elif choice.what is What.MODEL:
            said = await self._write_whole(requests.whole(name), path, choice.format)
        else:
            said = await self._write_view(path, choice.format)
        return f"{said}, {size(path.stat().st_size)} in {path}"

    async def _write_view(self, path: Path, format: str) -> str:
        """Write the table of the active view with the rows that are shown; say how many."""
        attention, reading, comparing = None, self._conductor.reading, self._conductor.comparing
        if self._app.views.active.view == "attention" and reading is not None:
            attention = await reading.whole_map()
        table = None if comparing is None else await comparing.table()
        if table is None:
            table, _ = self._conductor.table(attention)
        total = 0 if attention is None else attention.weights.size
        if attention is not None and total > LONG:
            estimate = size(estimated_bytes(attention))
            about = f", about {estimate} as CSV," if format != "csv" else f", about {estimate},"
            self._app.notify(f"{total:,} rows{about} are written to {path}", title="writing")

        def told(report: Report) -> Callable[[int], None]:
            return lambda rows: report(Progress(self.writing.said, rows, total, "rows")) if total > LONG else None

        shaped = self._requests.on_screen(table.name)
        facts = facts_of(self.outline, self._app.engine.options.revision, table.name, shaped)

        def work(check: Check, report: Report) -> int:
            return _write_counted(table.pieces(), path, format, facts, check, told(report))

        return _said(await self.writing.write(path, work), "row")

    async def _write_whole(self, request: Request, path: Path, format: str) -> str:
        """Write a table of the whole model, a layer at a time; say how many rows."""
        facts = facts_of(self.outline, self._app.engine.options.revision, request.view, request.given())

        def work(check: Check, report: Report) -> str:
            export = self._export(request, check, report)
            count = _write_counted(export.pieces(), path, format, facts, check, lambda rows: None)
            return " ".join((_said(count, "row", export.left_out), *export.lacking))

        return await self.writing.write(path, work)

    async def _write_arrays(self, request: Request, path: Path) -> str:
        """Write arrays; say how many."""
        count = 0

        def work(check: Check, report: Report) -> str:
            export = self._export(request, check, report)

            def counted() -> Iterator[tuple[str, NDArray[Any]]]:
                nonlocal count
                for name, array in export.arrays():
                    check()
                    count += 1
                    yield name, array
                    del array  # before there is the next one

            write_npz(counted(), path)
            return _said(count, "array", export.left_out)

        return await self.writing.write(path, work)

    def _export(self, request: Request, check: Check, report: Report) -> Export:
        """Begin what ``attn-tui export`` does; between its layers it may be given up."""

        def step(progress: Progress) -> None:
            check()
            report(Progress(self.writing.said, progress.done, progress.total, progress.unit))

        return Export.begin(self._app.engine, self.outline, request, step)

    async def _write_picture(self, what: What, path: Path) -> str:
        """Write what the screen shows of a view, or all of it; say how much that is."""
        is_whole = what is What.SCREEN
        take = picture_in_glyphs if what is What.TEXT else picture_of
        picture = picture_of_screen(self._app.screen_stack[0]) if is_whole else take(self._app.views.active)
        title = f"{self.outline.name}: {'attn-tui' if is_whole else self._app.views.active.view}"
        colours, is_dark = self._app.console.color_system, self._app.current_theme.dark

        def work(check: Check, report: Report) -> None:
            with requested_file(path) as partial:
                partial.write_text(_draw(picture, what, title, colours, is_dark=is_dark), encoding="utf-8", newline="")

        await self.writing.write(path, work)
        columns, rows = picture.size
        return f"{columns} × {rows} cells of {'the screen' if is_whole else self._app.views.active.view}"


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


def _said(count: int, word: str, left_out: LeftOut | None = None) -> str:
    """Say how many of something were written, and which layers are not among them."""
    return " ".join(filter(None, (f"{count:,} {plural(word, count)}", left_out_title(left_out or {}))))


def _draw(picture: Picture, what: What, title: str, colours: str | None, *, is_dark: bool) -> str:
    """Write a picture as it is chosen."""
    if what is What.TEXT:
        return picture.as_text()
    return picture.as_ansi(colours) if what is What.ANSI else picture.as_svg(title, is_dark=is_dark)


def _write_counted(
    table: Iterable[Table],
    path: Path,
    format: str,
    facts: Mapping[str, str],
    check: Check,
    told: Callable[[int], None],
) -> int:
    """Write a table and count its rows."""
    count = 0

    def pieces() -> Iterator[Table]:
        nonlocal count
        for piece in table:
            check()
            told(count)
            count += piece.frame.height
            yield piece
            del piece

    write_table(pieces(), path, format, facts)
    return count
