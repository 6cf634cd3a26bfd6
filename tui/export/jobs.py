"""The work of writing each thing that a person can choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from engine.service.queue import Check
from engine.store.export import write_npz, write_table
from engine.store.files import requested_file
from engine.values.display_text import plural
from engine.values.memory import size
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.table import LeftOut, Table, left_out_title
from tui.export.choice import Choice, What
from tui.export.pictures import Picture, picture_in_glyphs, picture_of, picture_of_screen
from tui.export.provenance import facts_of
from tui.export.rows import Export
from tui.export.view_table import LONG, estimated_bytes
from tui.export.writing import Report, Writing

if TYPE_CHECKING:
    from tui.conductor import Conductor
    from tui.export.request import Request
    from tui.export.screen_request import Asking
    from tui.parts import Parts


class Jobs:
    """Writes what is chosen, each as it has to be."""

    def __init__(
        self, app: Parts, conductor: Conductor, outline: ModelOutline, asking: Asking, writing: Writing
    ) -> None:
        self._app = app
        self._conductor = conductor
        self._outline = outline
        self._asking = asking
        self._writing = writing

    async def write(self, choice: Choice, path: Path, name: str) -> str:
        """Write what is chosen; say what was written, and where.

        Parameters
        ----------
        choice : of what, and as what.
        path : of the file.
        name : of the active view's table.

        Raises
        ------
        Superseded : when it was given up.
        EngineError : when there is nothing to write, or it cannot be written.
        """
        if choice.what.is_picture:
            said = await self._write_picture(choice.what, path)
        elif choice.what is What.MATRICES:
            said = await self._write_arrays(self._asking.matrices(self._conductor.meant), path)
        elif choice.what is What.MODEL and choice.format == "npz":
            said = await self._write_arrays(self._asking.whole(name), path)
        elif choice.what is What.MODEL:
            said = await self._write_whole(self._asking.whole(name), path, choice.format)
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
            return lambda rows: report(Progress(self._writing.said, rows, total, "rows")) if total > LONG else None

        shaped = self._asking.on_screen(table.name)
        facts = facts_of(self._outline, self._app.engine.options.revision, table.name, shaped)

        def work(check: Check, report: Report) -> int:
            return _write_counted(table.pieces(), path, format, facts, check, told(report))

        return _said(await self._writing.write(path, work), "row")

    async def _write_whole(self, request: Request, path: Path, format: str) -> str:
        """Write a table of the whole model, a layer at a time; say how many rows."""
        facts = facts_of(self._outline, self._app.engine.options.revision, request.view, request.given())

        def work(check: Check, report: Report) -> str:
            export = self._export(request, check, report)
            count = _write_counted(export.pieces(), path, format, facts, check, lambda rows: None)
            return " ".join((_said(count, "row", export.left_out), *export.lacking))

        return await self._writing.write(path, work)

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

        return await self._writing.write(path, work)

    def _export(self, request: Request, check: Check, report: Report) -> Export:
        """Begin what ``attn-tui export`` does; between its layers it may be given up."""

        def step(progress: Progress) -> None:
            check()
            report(Progress(self._writing.said, progress.done, progress.total, progress.unit))

        return Export.begin(self._app.engine, self._outline, request, step)

    async def _write_picture(self, what: What, path: Path) -> str:
        """Write what the screen shows of a view, or all of it; say how much that is."""
        is_whole = what is What.SCREEN
        take = picture_in_glyphs if what is What.TEXT else picture_of
        picture = picture_of_screen(self._app.screen_stack[0]) if is_whole else take(self._app.views.active)
        title = f"{self._outline.name}: {'attn-tui' if is_whole else self._app.views.active.view}"
        colours, is_dark = self._app.console.color_system, self._app.current_theme.dark

        def work(check: Check, report: Report) -> None:
            with requested_file(path) as partial:
                partial.write_text(_draw(picture, what, title, colours, is_dark=is_dark), encoding="utf-8", newline="")

        await self._writing.write(path, work)
        columns, rows = picture.size
        return f"{columns} × {rows} cells of {'the screen' if is_whole else self._app.views.active.view}"


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
