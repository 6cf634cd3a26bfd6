"""What is known of the open model: one store for each kind of answer that views show, and what heads are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from engine.values.filters import SHORT_LABELS
from engine.values.heads import Head
from tui.state.maps import Maps
from tui.state.spectra_store import SpectraStore
from tui.state.tables import TableStore
from tui.state.tree_search import Lines, find, lines_of

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.memory import MemoryReport
    from engine.values.outline import ModelOutline
    from engine.values.progress import Progress
    from tui.state.session import Shown


@dataclass(frozen=True)
class HeadLabels:
    """The labels of a model's heads, as far as they are known.

    Attributes
    ----------
    by_head : of those that have one.
    is_known : whether they have been worked out.
    scores : of what they are named for, on random tokens that come again.
    """

    by_head: Mapping[Head, str] = field(default_factory=dict)
    is_known: bool = False
    scores: Mapping[Head, float] = field(default_factory=dict)

    def of(self, head: Head) -> str:
        """Give a head's label; nothing where it has none.

        Examples
        --------
        >>> head = Head("decoder", 1, 0)
        >>> labels = HeadLabels({head: "induction"}, is_known=True)
        >>> labels.of(head), labels.short(head), labels.behind(head), labels.behind(Head("decoder", 1, 1))
        ('induction', 'ind', ' · induction', '')
        """
        return self.by_head.get(head, "")

    def short(self, head: Head) -> str:
        """Give a head's label as the tree writes it; nothing where it has none."""
        return SHORT_LABELS.get(self.of(head), self.of(head))

    def behind(self, head: Head) -> str:
        """Give a head's label, to be put behind its name."""
        return f" · {self.of(head)}" if head in self.by_head else ""


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
