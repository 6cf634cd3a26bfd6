"""What is known of the open model: a store for each kind of answer, and the labels of its heads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from engine.values.heads import SHORT_LABELS, Head
from engine.values.progress import PHASES, SWITCHING, Progress
from engine.values.table import Table
from tui.drawing.facts import short_name
from tui.drawing.progress import progress_sentence, progress_text
from tui.drawing.titles import COMPUTING
from tui.state.maps import Maps
from tui.state.spectra_store import SpectraStore
from tui.state.store import Store
from tui.state.tables import TableStore
from tui.state.tree_search import Lines, find, lines_of

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.memory import MemoryReport
    from engine.values.outline import ModelOutline
    from tui.state.session import Shown


@dataclass(frozen=True)
class HeadLabels:
    """The labels of a model's heads.

    Attributes
    ----------
    by_head : the labels; a head that does nothing clearly has none.
    is_known : whether the labels have been computed.
    scores : how clearly a head does what its label says, on repeated random tokens.
    """

    by_head: Mapping[Head, str] = field(default_factory=dict)
    is_known: bool = False
    scores: Mapping[Head, float] = field(default_factory=dict)

    def of(self, head: Head) -> str:
        """Give a head's label, or an empty text.

        Examples
        --------
        >>> head = Head("decoder", 1, 0)
        >>> labels = HeadLabels({head: "induction"}, is_known=True)
        >>> labels.of(head), labels.short(head), labels.of(Head("decoder", 1, 1))
        ('induction', 'ind', '')
        """
        return self.by_head.get(head, "")

    def short(self, head: Head) -> str:
        """Give the short form of a head's label, as in the tree, or an empty text."""
        return SHORT_LABELS.get(self.of(head), self.of(head))


@dataclass(eq=False)
class Stores:
    """What is known of one open model, for the views to draw.

    Attributes
    ----------
    draw_soon : called on any thread when there is something new to draw.
    report : called on any thread with the progress of long work.
    spectra : of heads and of whole layers, and their measures.
    tables : of the engine.
    maps : of sentences.
    every : all the stores of answers that these three consist of.
    memory : what the model needs and what is free; None before that is measured.
    other : the name of the second model; empty before one is open.
    told : the progress of the engine's present work for a sentence or a table; None where it reports none.
    answers : how many answers each store has had, by its name; by "", how often something else became known.
    """

    engine: Engine
    outline: ModelOutline
    draw_soon: Callable[[], None]
    report: Callable[[Progress], None]
    labels: HeadLabels = field(default_factory=HeadLabels)
    memory: MemoryReport | None = None
    other: str = ""
    told: Progress | None = None
    answers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.spectra = SpectraStore(self.engine, self.outline, partial(self.arrived, "spectra"))
        self.tables = TableStore(self.engine, partial(self.arrived, "tables"), self.report)
        self.maps = Maps(self.engine, self.outline, partial(self.arrived, "maps"))
        self.every: tuple[Store[Any, Any], ...] = (*self.spectra.stores, self.tables, *self.maps.stores)

    def arrived(self, store: str = "") -> None:
        """Draw the views that use a store; without a name, all views. May be called on any thread."""
        self.answers.update([store])
        self.draw_soon()

    def advance(self, progress: Progress) -> Progress:
        """Note the engine's progress, and give it as it is shown: in a sweep, heads of earlier layers count too."""
        if (key := self.tables.swept) is not None and progress.activity in (SWITCHING, key[0]):
            done, rate = (progress.done, progress.rate) if progress.activity == SWITCHING else (0, None)
            if isinstance(known := self.tables.peek(key), Table):
                done += len(known.rows)
            total = sum(layer.heads for layer in self.outline.attending_layers)
            progress = Progress(key[0], done, total, "heads", rate, progress.note)
        self.told = None if progress.finished else progress
        self.arrived("maps")
        if self.tables.is_late:
            self.arrived("tables")
        return progress

    @property
    def computing(self) -> str:
        """The message in the place of a map that is being computed."""
        return COMPUTING if self.told is None else f"{self.told.activity}: {progress_sentence(self.told)} …"

    @property
    def reading(self) -> str:
        """The message while the sentence is read; the first one waits for the model to load."""
        name, told = short_name(self.outline), self.told
        if told is not None and told.activity not in PHASES:
            told = None
        if told is not None and told.unit == "layers":
            return f"{name} is reading the sentence: {progress_sentence(told)} …"
        if self.maps.is_loaded:
            return f"{name} is reading the sentence …"
        if told is None:
            return f"{name} is getting ready to read the sentence …"
        if told.unit == "seconds":
            return f"{progress_text(told)}; then {name} loads and reads the sentence …"
        return f"{name} is loading: {progress_sentence(told)}; then it reads the sentence …"

    @cached_property
    def lines(self) -> Lines:
        """The tree's lines, made for the first search: a large model has many thousands."""
        return lines_of(self.outline)

    def found(self, text: str, shown: Shown) -> tuple[Head, ...]:
        """List the layers and heads that a text finds, in the order of the tree."""
        return find(text, self.lines, self.labels.by_head, {"pinned *": shown.pins, "off": shown.off.heads})

    def close(self) -> None:
        """Cancel all work, and draw nothing any more."""
        self.draw_soon = lambda: None
        for store in self.every:
            store.close()
