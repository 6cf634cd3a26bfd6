"""What is known of the open model: a store for each kind of answer, and the labels of its heads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.values.heads import SHORT_LABELS, Head, Label
from engine.values.progress import SWITCHING, Progress
from engine.values.table import Table
from tui.state.maps import Maps
from tui.state.places import find
from tui.state.spectra_store import SpectraStore
from tui.state.store import Store
from tui.state.tables import TableStore

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.memory import MemoryReport
    from engine.values.outline import ModelOutline
    from tui.state.session import Shown


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
    labels : of the heads that do something clearly, on repeated random tokens.
    is_labelled : whether the labels have been computed.
    memory : what the model needs and what is free; None before that is measured.
    other : the name of the second model; empty before one is open.
    answers : how many answers each store has had, by its name; by "", how often something else became known.
    """

    engine: Engine
    outline: ModelOutline
    draw_soon: Callable[[], None]
    report: Callable[[Progress], None]
    labels: dict[Head, Label] = field(default_factory=dict)
    is_labelled: bool = False
    memory: MemoryReport | None = None
    other: str = ""
    answers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.spectra = SpectraStore(self.engine, self.outline, partial(self.arrived, "spectra"))
        self.tables = TableStore(self.engine, partial(self.arrived, "tables"), self.report)
        self.maps = Maps(self.engine, partial(self.arrived, "maps"))
        self.every: tuple[Store[Any, Any], ...] = (*self.spectra.stores, self.tables, *self.maps.stores)

    def arrived(self, store: str = "") -> None:
        """Draw the views that use a store; without a name, all views. May be called on any thread."""
        self.answers.update([store])
        self.draw_soon()

    def progress_of(self, progress: Progress) -> Progress:
        """Give the engine's progress as it is shown: in a sweep, heads of earlier layers count too."""
        if (key := self.tables.swept) is None or progress.activity not in (SWITCHING, key[0]):
            return progress
        done, rate = (progress.done, progress.rate) if progress.activity == SWITCHING else (0, None)
        if isinstance(known := self.tables.peek(key), Table):
            done += len(known.rows)
        total = sum(layer.heads for layer in self.outline.attending_layers)
        return Progress(key[0], done, total, "heads", rate, progress.note)

    def label(self, head: Head) -> str:
        """Give a head's label; empty for a head that does nothing clearly."""
        return self.labels[head].name if head in self.labels else ""

    def short_label(self, head: Head) -> str:
        """Give the short form of a head's label, as in the tree, or an empty text."""
        return SHORT_LABELS.get(self.label(head), self.label(head))

    def found(self, text: str, shown: Shown) -> tuple[Head, ...]:
        """List the layers and heads that a text finds, in the order of the tree."""
        labels = {head: label.name for head, label in self.labels.items()}
        return find(text, self.outline, labels, {"pinned *": shown.pins, "off": shown.off.heads})

    def close(self) -> None:
        """Cancel all work, and draw nothing any more."""
        self.draw_soon = lambda: None
        for store in self.every:
            store.close()
