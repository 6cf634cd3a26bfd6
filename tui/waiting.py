"""What is said where a view has nothing to show yet: what is waited for, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.app import App

from engine.values.heads import Head
from engine.values.memory import FROM_DISK, MemoryReport, size
from engine.values.outline import ModelOutline
from engine.values.progress import LOADING, READING, SWITCHING, Progress, Rate
from engine.values.views import Scope, View
from tui.drawing.facts import short_name
from tui.drawing.view_titles import COMPUTING
from tui.state.session import Shown
from tui.status_line import how_far
from tui.toolkit.keys import key_of
from tui.views.attention_view import AttentionPane

if TYPE_CHECKING:
    from engine.values.outline import ModelOutline
    from engine.values.progress import Progress


def no_sentence(app: App[Any], outline: ModelOutline, shown: Shown) -> tuple[str, bool]:
    """Say how a sentence is typed, why the model reads none, or that one waits for its turn; and whether one does."""
    if outline.unreadable:
        return outline.unreadable, False
    if shown.waiting_text is not None:
        return "the sentence is read once the first head is there …", True
    return f"press {key_of(app, 'app.sentence')} and type a sentence", False


def no_place(view: View, selected: Head | None, attention: AttentionPane) -> tuple[str, bool]:
    """Say what to choose for a table, or what the map says whose cell it is of; and whether that is to come."""
    if view.scope is not Scope.CELL or selected is None or selected.is_layer:
        return f"choose {view.scope.value}", False
    if attention.is_waiting or not attention.message:
        return "computing …", True
    return attention.message, False


class Awaited:
    """What is known of a sentence before it has been read.

    Parameters
    ----------
    outline : of the model.

    Attributes
    ----------
    is_loaded : whether the model has read a sentence, and need not be loaded any more.
    """

    def __init__(self, outline: ModelOutline) -> None:
        self._outline = outline
        self._progress: Progress | None = None
        self._foreseen = ""
        self.is_loaded = False

    def begin(self) -> None:
        """Wait for another sentence."""
        self._progress = None

    def advance(self, progress: Progress) -> None:
        """Note how far loading the model or reading the sentence is; the sentence waits for whatever else is done."""
        is_own = progress.activity in (READING, LOADING) and not progress.finished
        self._progress, self._foreseen = progress if is_own else None, ""

    def foresee(self, memory: MemoryReport) -> bool:
        """Note what is known before the model is begun: that it does not fit, or not into main memory; say if it is."""
        placement, need = memory.placement, memory.need
        self._foreseen = "" if placement is None else placement.refusal
        if placement is None and need is not None and memory.free is not None and need.total > FROM_DISK * memory.free:
            self._foreseen = (
                f"{short_name(self._outline)} needs {size(need.total)} to read a sentence ({need.dtype}), "
                f"{size(memory.free)} are free in main memory; whether a GPU has room is being found out …"
            )
        return bool(self._foreseen)

    @property
    def message(self) -> str:
        """What the sentence waits for: the first one for the whole model, which may be large."""
        name, progress = short_name(self._outline), self._progress
        if progress is not None and progress.unit == "layers":
            return f"{name} is reading the sentence: {how_far(progress)} …"
        if self.is_loaded:
            return f"{name} is reading the sentence …"
        if self._foreseen:
            return self._foreseen
        if progress is None:
            return f"{name} is being loaded, {size(self._outline.stored_bytes)}, and then reads the sentence …"
        return f"{name} is being loaded, {how_far(progress)}, and then reads the sentence …"


class TableAwaited:
    """What is known of how far a table is.

    Parameters
    ----------
    stop : gives the key that gives it up.
    """

    def __init__(self, stop: Callable[[], str]) -> None:
        self._stop = stop
        self._told: Progress | None = None
        self._swept: Progress | None = None
        self._pace = Rate()

    def begin(self) -> None:
        """Wait for another table."""
        self._told = self._swept = None
        self._pace = Rate()

    def sweep(self, name: str, done: int, heads: int) -> Progress:
        """Note how many heads a table is through that is worked out head by head, and give that as it is shown."""
        self._swept = Progress(name, done, heads, "heads", self._pace.rate(time.monotonic(), done))
        return self._swept

    def end(self) -> None:
        """Wait for nothing."""
        self._told = self._swept = None

    def advance(self, progress: Progress) -> Progress:
        """Note how far the engine is, and give that as it is shown: to a layer's heads those before are added."""
        shown, before = progress, self._swept
        if before is not None and progress.activity == SWITCHING:
            shown = replace(progress, activity=before.activity, done=before.done + progress.done, total=before.total)
        elif before is not None and progress.finished:
            shown = before
        self._told = None if shown.finished else shown
        return shown

    @property
    def message(self) -> str:
        """What stands where the table will be."""
        if self._told is None:
            return COMPUTING
        return f"{self._told.activity}: {how_far(self._told)}; {self._stop()} stops"
