"""Exports the explorer's views to files: the choices, the suggested names, and the writing."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.mathematics.measures import DEFAULT_EPSILON
from engine.service.queue import Check
from engine.store.export import FORMATS, format_of
from engine.store.files import requested_file, unused_path
from engine.values.display_text import plural, size
from engine.values.errors import EngineError
from engine.values.heads import NAMED_HEADS, Head
from engine.values.outline import ModelOutline
from engine.values.progress import DONE, Progress, ProgressReporter
from engine.values.table import LeftOut, left_out_title
from engine.values.views import ABLATION, DEFAULT_TOP, LENS, NEEDS, VIEWS, Scope
from tui.drawing.facts import short_name
from tui.export.pictures import painted_screen, svg_of
from tui.export.request import APPLICABLE, Export, Request, facts_of, write_parts
from tui.state.tables import measured_tokens
from tui.toolkit.keys import key_of
from tui.toolkit.messages import ProgressReport
from tui.toolkit.screen import painted
from tui.views.table_view import TablePane

if TYPE_CHECKING:
    from tui.state.stores import Stores
    from tui.views.switcher import Views


class What(Enum):
    """What is written: its key in the menu, what that key does, and the ending of a file whose format is no choice."""

    VIEW = ("v", "Write the table of the view", "")
    MODEL = ("w", "Write the same table of the whole model", "")
    MATRICES = ("m", "Write the matrices of what is selected", ".npz")
    SVG = ("s", "Write a picture of the view, as SVG", ".svg")
    SCREEN = ("S", "Write a picture of the screen, as SVG", ".svg")

    def __init__(self, key: str, does: str, ending: str) -> None:
        self.key, self.does, self.ending = key, does, ending

    @property
    def is_table(self) -> bool:
        """Whether it is a table, whose format can be chosen."""
        return not self.ending


@dataclass(frozen=True, slots=True)
class Choice:
    """What is written, and the format of a table: one of `FORMATS`, or ``npz`` for the whole model's attention."""

    what: What = What.VIEW
    format: str = "csv"

    @property
    def ending(self) -> str:
        """The ending of the file's name."""
        return self.what.ending or f".{self.format}"


def formats_for(what: What, view: str) -> tuple[str, ...]:
    """List the formats of a table to choose from."""
    return (*FORMATS, "npz") if what is What.MODEL and view == "attention" else tuple(FORMATS)


def choice_of(path: Path, usual: Choice, view: str) -> Choice:
    """Choose what to write by the ending of a file's name; one that is unknown, or fits the usual choice, keeps that.

    Examples
    --------
    >>> picture = Choice(What.SCREEN)
    >>> [choice_of(Path(name), picture, "ranks").what.name for name in ("x.csv", "x.svg", "x")]
    ['VIEW', 'SCREEN', 'SCREEN']
    >>> choice_of(Path("x.npz"), Choice(What.MODEL), "attention").format
    'npz'
    """
    if path.suffix == usual.ending:
        return usual
    format = format_of(path) or path.suffix.removeprefix(".")
    if format in formats_for(usual.what, view):
        return Choice(usual.what if usual.what.is_table else What.VIEW, format)
    return replace(usual, what=next((what for what in What if what.ending == path.suffix != ""), usual.what))


OF_MODEL = {"difference": "attention", "overview": "heads"}
"""The table of the whole model for a view, or for its table, with another name."""


class ExportFiles:
    """Writes the files of one explorer, one after the other.

    Attributes
    ----------
    choice : the last choice, which the menu offers first.
    folder : for the files; None is the folder where the program was started.
    """

    def __init__(self, views: Views, stores: Stores) -> None:
        self._views = views
        self._stores = stores
        self._outline = stores.outline
        self._app = views.app
        self._written: Path | None = None
        self.choice = Choice()
        self.folder: Path | None = None

    @property
    def view(self) -> str:
        """The active view."""
        return self._views.active.view

    # --- what can be written

    def fitting(self, choice: Choice) -> Choice:
        """Replace a format that the choice does not have by CSV."""
        return choice if choice.format in formats_for(choice.what, self.view) else replace(choice, format="csv")

    def describe(self, what: What) -> str:
        """Describe what would be written, in a few words."""
        target = self._views.target_head
        return {
            What.VIEW: f"{self.view} as on screen",
            What.MODEL: f"{self._table_name()} of the whole model",
            What.MATRICES: f"matrices of {'the model' if target is None else target}, NPZ",
            What.SVG: f"picture of {self.view}, SVG",
            What.SCREEN: "picture of the screen, SVG",
        }[what]

    def suggest(self, choice: Choice) -> Path:
        """Suggest a new name, in the folder of the last file; `EngineError` when there is nothing to write."""
        self._refuse_unfinished(choice)
        return unused_path((self.folder or Path()) / f"{self._stem(choice.what)}{choice.ending}")

    def _refuse_unfinished(self, choice: Choice) -> None:
        """Raise where a picture would only show that the view is being computed."""
        if choice.what is What.SVG and self._views.active.is_waiting:
            raise EngineError(f"{self.view} is still empty; nothing was written")

    def _table_name(self) -> str:
        """Give the name of the active view's table on the command line."""
        name = self._views.active.table_name
        return OF_MODEL.get(name, name)

    def _stem(self, what: What) -> str:
        pane = self._views.active
        if what is What.MODEL:
            return file_stem(self._outline, None, "all", *self._conditions(), self._table_name())
        if what is What.MATRICES:
            target = self._views.target_head
            return file_stem(self._outline, target, str(target or "all"), "matrices")
        selected = self._views.session.shown.selected
        if what is What.SCREEN:
            return file_stem(self._outline, selected, str(selected or ""), "screen")
        return file_stem(self._outline, selected, pane.table_subject(), *self._conditions(), pane.table_name)

    def _conditions(self) -> list[str]:
        """Name what else the numbers depend on, which their columns do not say."""
        shown, name = self._views.session.shown, self._table_name()
        options, heads = APPLICABLE.get(name, set()), shown.off.heads
        named = "-".join(map(str, heads)) if len(heads) <= NAMED_HEADS else f"{len(heads)}-heads"
        is_off = "off" in options and (heads or name == ABLATION.name)
        return [
            f"distance{shown.distance}" * ("distance" in options and shown.distance is not None),
            "folded" * ("fold_norm" in options and shown.folds),
            f"without-{named}" * bool(is_off and heads),
            "by-mean" * bool(is_off and shown.off.by_mean),
            f"vs-{self._stores.other}" * bool("vs" in options and self._stores.other),
        ]

    # --- what is on screen, as a request of ``attn-tui export``

    def command(self) -> str:
        """Give the command that writes the whole model's table; `EngineError` when it lacks its sentence."""
        request, options = self._whole_model(self._table_name()), self._stores.engine.options
        words = ["attn-tui", "export", self._outline.name, request.view]
        given = {name: value for name, value in request.options.items() if name != "vs"}
        given |= {"revision": options.revision, "base": options.base, "layout": options.layout}
        if "vs" in request.options:
            given |= {"vs": options.other, "vs-revision": options.other_revision}
        for name, value in given.items():
            for each in value if isinstance(value, tuple) else (value,) if value not in (None, "") else ():
                words += [f"--{name.replace('_', '-')}"] + ([] if each is True else [str(each)])
        return shlex.join(words)

    def _matrices(self) -> Request:
        target = self._views.target_head
        if target is None:
            return Request("matrices")
        head = {} if target.is_layer else {"head": str(target.head)}
        return Request("matrices", {"layer": str(target.layer), **head, "stack": target.stack})

    def _whole_model(self, name: str) -> Request:
        """Request a table with the same sentence, ε and heads off; `EngineError` where there is no sentence."""
        options, view, shown = APPLICABLE[name], VIEWS.get(name), self._views.session.shown
        needs, off = NEEDS.get(name, ()), shown.off
        if "text" in needs and not shown.text:
            raise EngineError(f"{name} needs a sentence; type one with {key_of(self._app, 'app.sentence')} first")
        is_comparing = self._stores.engine.options.is_comparing
        of_two = (name == "attention" and shown.difference and not off.heads) or "vs" in needs
        of_two = of_two or (is_comparing and view is not None and "vs" in view.option_columns and not off.heads)
        asked: dict[str, Any] = {
            "text": shown.text or None,
            "energy": None if shown.epsilon == DEFAULT_EPSILON else shown.epsilon,
            "vs": of_two or None,
        }
        if view is not None:
            asked |= {"position": "all" if view is LENS else shown.position}
            asked["token"], asked["against"] = measured_tokens(shown, view)
            if view.scope is Scope.CELL:
                asked["position"], asked["key"] = self._views.attention.cell or (None, None)
            if view.scope is Scope.MODEL and view.top != DEFAULT_TOP:
                asked["top"] = view.top
            asked |= {"fold_norm": shown.folds or None, "norms": True}
        asked["distance"] = shown.distance
        if off.heads:
            several = len(self._outline.stacks) > 1
            asked["off"] = (" ".join(f"{head.stack}.{head}" if several else str(head) for head in off.heads),)
            asked["by_mean"] = off.by_mean or None
        fitting = {option: value for option, value in asked.items() if option in options and value is not None}
        return Request(name, fitting)

    def shaped_by(self, table: str) -> dict[str, Any]:
        """Give what shaped a table on screen, for its metadata: the options of such an export, and the filter."""
        pane, shaped = self._views.active, {"rows": "as on screen"}
        if table in APPLICABLE:
            with contextlib.suppress(EngineError):  # a table without its sentence
                shaped |= self._whole_model(table).options
        if isinstance(pane, TablePane) and pane.current_filter is not None:
            shaped |= {"where": pane.current_filter.text.strip()}
        return shaped

    # --- writing

    def stop(self) -> bool:
        """Stop and remove the file that is being written; False where there is none."""
        if self._written is None:
            return False
        self._stores.engine.stop_writing()
        return True

    async def write(self, choice: Choice, path: Path, *, may_replace: bool) -> str:
        """Write what is chosen; say what was written, and where; `Superseded` when it was stopped.

        EngineError : when there is nothing to write, no place for it, or another file is still being written.
        """
        if self._written is not None:
            raise EngineError(
                f"{self._written.name} is still being written; try again when it is done, "
                f"or {key_of(self._app, 'app.leave')} stops it"
            )
        self._refuse_unfinished(choice)
        self.choice, self.folder = choice, path.parent
        is_unfinished = choice.what in (What.VIEW, What.SVG) and self._views.active.is_unfinished
        place = self._written = path if may_replace else unused_path(path)
        try:
            work = await self._work(choice, place)
            said = await asyncio.wrap_future(self._stores.engine.write(work))
        finally:
            self._written = None
            self._report(DONE)
        how_far = "not complete yet: " if is_unfinished else ""
        return f"{how_far}{said}, {size(place.stat().st_size)} in {place}"

    def _report(self, progress: Progress) -> None:
        self._views.post_message(ProgressReport(progress))

    async def _work(self, choice: Choice, path: Path) -> Callable[[Check], str]:
        """Collect what to write, and give the function that writes it on another thread and says how much it was."""
        if choice.what in (What.SVG, What.SCREEN):
            return self._picture_work(choice.what, path)
        if choice.what is What.VIEW:
            return await self._view_work(path, choice.format)
        is_matrices = choice.what is What.MATRICES
        request = self._matrices() if is_matrices else self._whole_model(self._table_name())
        format, engine, outline, said = choice.ending[1:], self._stores.engine, self._outline, self._said_before

        def write(check: Check) -> str:
            def step(progress: Progress) -> None:
                check()
                self._report(replace(progress, activity=said, rate=None, note=""))

            export = Export(engine, outline, request, step)
            count = export.write(path, format, lambda count: check())
            word = "array" if format == "npz" else "row"
            return " ".join((_quantity(count, word, export.left_out), *export.lacking))

        return write

    async def _view_work(self, path: Path, format: str) -> Callable[[Check], str]:
        table = await self._views.active.whole_table()
        map = self._views.attention.heatmap.pooled if self.view == "attention" else None
        total = 0 if map is None else len(map.query_tokens) * len(map.key_tokens)
        facts = facts_of(self._stores.engine, self._outline, table.name, self.shaped_by(table.name))
        reporter = ProgressReporter(self._report, self._said_before, "rows")

        def write(check: Check) -> str:
            def step(rows: int) -> None:
                check()
                reporter(rows, total)

            return _quantity(write_parts(table.pieces(), path, format, facts, step), "row")

        return write

    def _picture_work(self, what: What, path: Path) -> Callable[[Check], str]:
        is_of_screen = what is What.SCREEN
        lines = painted_screen(self._app.screen_stack[0]) if is_of_screen else painted(self._views.active)
        title = f"{self._outline.name}: {'attn-tui' if is_of_screen else self.view}"
        said = f"{lines[0].cell_length} × {len(lines)} cells of {'the screen' if is_of_screen else self.view}"

        def write(check: Check) -> str:
            with requested_file(path) as partial:
                partial.write_text(svg_of(lines, title), encoding="utf-8", newline="")
            return said

        return write

    @property
    def _said_before(self) -> str:
        return f"writing, {key_of(self._app, 'app.leave')} stops:"


def file_stem(outline: ModelOutline, of: Head | None, *parts: str) -> str:
    """Compose a file's name of characters that are safe in a shell, such as ``gpt2-L5H1-spectrum``.

    It names the stack of a head or layer if the model has several.
    """
    stack = of.stack if of is not None and len(outline.stacks) > 1 else ""
    plain = (re.sub(r"[^\w.-]+", "-", each).strip("-.") for each in (short_name(outline) or "model", stack, *parts))
    return "-".join(filter(None, plain))


def _quantity(count: int, word: str, left_out: LeftOut | None = None) -> str:
    return " ".join(filter(None, (f"{count:,} {plural(word, count)}", left_out_title(left_out or {}))))
