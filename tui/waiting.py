"""What is said where a view has nothing to show yet: what is waited for, and how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.app import App

from engine.values.memory import FROM_DISK, MemoryReport, size
from engine.values.outline import ModelOutline
from engine.values.progress import LOADING, READING, Progress
from tui.drawing.facts import short_name
from tui.state.session import Shown
from tui.status_line import how_far
from tui.toolkit.keys import key_of

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
