"""Three lines for the first minute: what the overview shows, and the keys that lead on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical

from engine.values.heads import Head, head_text
from engine.values.views import VIEWS
from tui.drawing.facts import short_name
from tui.drawing.text import first_fitting
from tui.toolkit.keys import key_of
from tui.widgets.line import Line

if TYPE_CHECKING:
    from tui.state.stores import Stores

DISMISSING = (
    *("tree.select", "overview.choose", "app.overview", "app.spectra", "app.ranks", "app.attention", "app.maps"),
    *("app.text", "app.switch", "app.pin", "app.sentence", "app.help", "app.leave"),
    *(f"app.{view}" for view in VIEWS),
)
"""Bindings that hide the lines."""

TELLING = {
    "induction": "an induction head",
    "previous": "a previous-token head",
    "duplicate": "a duplicate-token head",
}
"""Heads by their labels, the most telling first."""

LEAST_HEIGHT = 20
"""Rows that a terminal needs to have room for the lines."""


class Guide(Vertical):
    """The lines between that of the model and the views; hidden until `begin` is called."""

    def __init__(self) -> None:
        super().__init__(id="guide")
        self.lines = tuple(Line(classes="guide-line") for _ in range(3))
        self.display = False
        self._leads = False
        self._dismissed: Callable[[], object] | None = None

    def compose(self) -> ComposeResult:
        """Stack the lines."""
        yield from self.lines

    def begin(self, dismissed: Callable[[], object]) -> None:
        """Show the lines until a person presses one of their keys, and then call `dismissed`."""
        self._dismissed, self._leads = dismissed, True
        self.fit_height()

    def stop_leading(self) -> None:
        """Leave the selection to the person, who has pressed a key."""
        self._leads = False

    def fit_height(self) -> None:
        """Show the lines if they are not dismissed and the terminal has room."""
        self.display = self._dismissed is not None and self.screen.size.height >= LEAST_HEIGHT

    def follow(self, stores: Stores, selected: Head | None) -> Head | None:
        """Name the model and its most telling head; before the first key, give that head to be selected."""
        if not self.display:
            return None
        outline = stores.outline
        heads = sum(layer.heads for layer in outline.layers)
        named = next((head for label in TELLING for head in stores.labels if stores.label(head) == label), None)
        into, maps, why, sentence, every, leave = (
            key_of(self, name)
            for name in ("tree.select", "app.attention", "app.explain", "app.sentence", "app.help", "app.leave")
        )
        seen = f"{short_name(outline)} has {heads} heads, a cell each"
        keys = f"{into} its spectra · {maps} its map · {why} why"
        if named is None:
            ways: Sequence[str] = (f"{into} a head's spectra · {maps} its map",)
        else:
            name, found = head_text(named, outline.stacks), TELLING[stores.label(named)]
            ways = (f"{name} is {found}: {keys}", f"{name}: {keys}")
            if named != selected and not self._leads:
                here = "the selected head" if selected is None else head_text(selected, outline.stacks)
                ways = (f"{name} is {found}. On {here}: {keys}", f"On {here}: {keys}")
        others = f"{sentence} type a sentence · {every} all keys · {leave} hide these lines"
        width = self.screen.size.width - 2
        texts = (
            first_fitting(width, f"{seen}; brighter: more directions share the strength of QK.", f"{seen}."),
            first_fitting(width, *ways),
            first_fitting(width, others, f"{every} all keys · {leave} hide this"),
        )
        for line, text in zip(self.lines, texts, strict=True):
            line.show(_with_keys(text, {into, maps, why, sentence, every, leave}))
        return named if self._leads else None

    def dismiss_by(self, binding: str) -> None:
        """Hide the lines after a binding that leads on."""
        if not self.display or binding not in DISMISSING:
            return
        dismissed, self._dismissed = self._dismissed, None
        self.fit_height()
        if dismissed is not None:
            dismissed()


def _with_keys(text: str, keys: set[str]) -> Text:
    """Write a line with its keys bold; they stand at its start or after a colon or a dot."""
    line = Text(text)
    for match in re.finditer(r"(?:^|[:·] )(\S+)", text):
        if match[1] in keys:
            line.stylize("bold", *match.span(1))
    return line
