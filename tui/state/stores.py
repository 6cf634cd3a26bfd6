"""What is known of the open model: one store for each kind of answer that views show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from tui.state.head_labels import HeadLabels
from tui.state.maps import Maps
from tui.state.spectra_store import SpectraStore
from tui.state.tables import TableStore
from tui.state.tree_search import Lines, find, lines_of

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.heads import Head
    from engine.values.memory import MemoryReport
    from engine.values.outline import ModelOutline
    from engine.values.progress import Progress
    from tui.state.session import Shown


@dataclass(eq=False)
class Stores:
    """What views draw beside what is shown; made anew for each model that is opened.

    Attributes
    ----------
    engine : who answers.
    outline : of the model.
    draw_soon : called, on any thread, when there is something else to draw.
    report : told, on any thread, how far long work has come.
    spectra : of heads and of whole layers, and their measures.
    tables : those that are worked out.
    maps : of sentences.
    labels : what heads are called that clearly do one thing.
    memory : what the model takes of memory and what is free, once that is known.
    other : what a second model is called, once it is open.
    answers : how often each of the first three has had another answer.
    """

    engine: Engine
    outline: ModelOutline
    draw_soon: Callable[[], None]
    report: Callable[[Progress], None]
    labels: HeadLabels = field(default_factory=HeadLabels)
    memory: MemoryReport | None = None
    other: str = ""
    answers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.spectra = SpectraStore(self.engine, self.outline, partial(self.arrived, "spectra"))
        self.tables = TableStore(self.engine, self.outline, partial(self.arrived, "tables"), self.report)
        self.maps = Maps(self.engine, self.outline, partial(self.arrived, "maps"))

    def arrived(self, store: str = "") -> None:
        """Have the views drawn that a store has another answer for; without one, something else is known.

        It may be called on any thread.
        """
        self.answers.update([store])
        self.draw_soon()

    @cached_property
    def lines(self) -> Lines:
        """The tree's lines, made when they are searched first: of a large model they are many thousands."""
        return lines_of(self.outline)

    def found(self, text: str, shown: Shown) -> tuple[Head, ...]:
        """List the layers and heads that a text finds, in the order of the tree."""
        return find(text, self.lines, self.labels.by_head, {"pinned *": shown.pins, "off": shown.off.heads})

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return self.spectra.is_idle and self.tables.is_idle and self.maps.is_idle

    def close(self) -> None:
        """Wait for nothing any more: another model takes the place of this one."""
        self.spectra.close()
        self.tables.close()
        self.maps.close()
