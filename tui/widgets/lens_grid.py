"""The lens as cells, layers by tokens: what the model would predict after each block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Size

from engine.values.table import Table
from tui.drawing.levels import Ink, Levels, levels_between
from tui.drawing.numbers import brief_number
from tui.drawing.ramps import legible_styles
from tui.drawing.text import fit, label
from tui.toolkit.keys import paging_bindings
from tui.widgets.scroll_area import CellGrid

_NARROWEST, _WIDEST = 8, 16
"""Columns per cell at least, and at most."""

_SHADES = " ░▒▓█"
"""Begin a cell where levels have no colour, smallest first."""


@dataclass(frozen=True, eq=False)
class LensMap:
    """The table of the lens at every token; its first rows are those of the embedding.

    Attributes
    ----------
    table : ``choices`` rows per cell, token by token and layer by layer.
    """

    table: Table

    @cached_property
    def choices(self) -> int:
        """Number of tokens listed per cell."""
        found: int = self.table.frame["place"].max()  # type: ignore[assignment]  # integers
        return found

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the sentence."""
        count = int(self.table.frame["position"].max()) + 1  # type: ignore[arg-type]  # integers
        return tuple(self.table.frame["at"][: count * self.choices : self.choices].to_list())

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """Labels of the rows: the embedding, then the layers."""
        names = self.table.frame["layer"].gather_every(self.choices * len(self.tokens)).to_list()
        return tuple("emb" if name == "embedding" else f"L{name}" for name in names)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The number of each cell, (layers, tokens): of the likeliest token, or logit differences if there are any."""
        column = self.table.frame["logit_difference" if self.is_signed else "probability"]
        of_likeliest = column.gather_every(self.choices).to_numpy().astype(np.float64)
        return of_likeliest.reshape(len(self.layers), len(self.tokens))

    @property
    def is_signed(self) -> bool:
        """Whether the numbers are differences of two tokens' logits."""
        return "logit_difference" in self.table.columns

    @property
    def pair(self) -> tuple[str, str] | None:
        """The two tokens of the differences."""
        frame = self.table.frame
        return (frame["chosen"][0], frame["against"][0]) if self.is_signed else None

    def levels(self, ink: Ink) -> Levels:
        """Return the scale of the colours: from 0 to 1, or to the largest difference."""
        return Levels("linear", float(np.nanmax(np.abs(self.values))) if self.is_signed else 1.0, ink, self.is_signed)

    def cell(self, layer: int, token: int) -> Table:
        """Return the rows of a cell."""
        start = (layer * len(self.tokens) + token) * self.choices
        return self.table.with_frame(self.table.frame.slice(start, self.choices))

    def choices_at(self, layer: int, token: int) -> list[tuple[int, str, float]]:
        """Return id, text and probability of the likeliest tokens of a cell."""
        frame = self.cell(layer, token).frame
        return list(frame.select("token_id", "token", "probability").rows())


class LensGrid(CellGrid):
    """Shows the likeliest token at each layer and token, the last layer at the top.

    Attributes
    ----------
    shown : None while there is a message instead.
    cursor : layer and token, from zero; layer 0 is the embedding.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(1, 0)", "Next layer", show=False, id="lens.up"),
        Binding("down,j", "move(-1, 0)", "Layer before", show=False, id="lens.down"),
        Binding("left,h,comma", "move(0, -1)", "Previous token", show=False, id="lens.left"),
        Binding("right,l,full_stop", "move(0, 1)", "Next token", show=False, id="lens.right"),
        *paging_bindings("lens", "A page of layers"),
        Binding("home", "edge(False)", "First token", show=False, id="lens.first_token"),
        Binding("end", "edge(True)", "Last token", show=False, id="lens.last_token"),
        Binding("gg,ctrl+home", "row_edge(True)", "Last layer", show=False, id="lens.first"),
        Binding("G,ctrl+end", "row_edge(False)", "Embedding", show=False, id="lens.last"),
        Binding("enter", "choose", "What makes this token", show=False, id="lens.choose"),
    ]

    DEFAULT_CSS = """
    LensGrid {
        width: 100%; padding: 0 0 0 1;
        & > .area--label-cursor { text-style: bold; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.shown: LensMap | None = None
        self._levels: NDArray[np.uint8] = np.zeros((0, 0), dtype=np.uint8)
        self._scale = Levels("linear", 1.0, Ink.COLOUR)

    @property
    def level_styles(self) -> tuple[Style, ...]:
        """The style of each level: a background with legible letters on it, or one style for all."""
        styles = self.styles_of_levels(is_signed=self._scale.is_signed)
        return legible_styles(styles, self.get_component_rich_style("area--cell").color) if len(styles) > 1 else styles

    def show(self, shown: LensMap, token: int | None) -> None:
        """Draw a map; for another sentence the cursor starts at the last layer and a token, None for the last."""
        before, self.shown, self.message = self.shown, shown, ""
        if before is None or before.tokens != shown.tokens or before.layers != shown.layers:
            last = len(shown.tokens) - 1
            self.cursor = (len(shown.layers) - 1, last if token is None else min(token, last))
        self.lay_out_cells()
        self.refresh()
        self.call_after_refresh(self.reveal)

    def show_message(self, message: str) -> None:
        """Show a message in place of a map."""
        self.shown, self.message = None, message
        self.virtual_size = Size(0, 0)
        self.refresh()

    def lay_out_cells(self) -> None:
        """Choose the size of the cells: a line for the token, and one for its number and a blank one if they fit."""
        shown = self.shown
        if shown is None:
            return
        (width, height), layers = self.size, len(shown.layers)
        self.name_width = 1 + max(map(len, shown.layers))
        across = max(_NARROWEST, min((width - self.name_width) // len(shown.tokens), _WIDEST))
        self.cell = across, min(max((height - 2) // layers, 1), 3)
        self._scale = shown.levels(self.ink)
        self._levels = self._scale.of(shown.values)
        spare = max(0, width - self.name_width) % across  # so that the last token can be scrolled to by whole cells
        self.virtual_size = Size(self.name_width + across * len(shown.tokens) + spare, 1 + self.cell[1] * layers)

    @property
    def extent(self) -> tuple[int, int]:
        """Number of layers, with the embedding, and of tokens."""
        return (0, 0) if self.shown is None else (len(self.shown.layers), len(self.shown.tokens))

    def row_on(self, line: int) -> int:
        """Return the layer on a line."""
        return self.extent[0] - 1 - line // self.cell[1]

    def lines_of_row(self, row: int) -> range:
        """Return the lines of a layer."""
        return super().lines_of_row(self.extent[0] - 1 - row)

    @property
    def room(self) -> int:
        """Columns of the whole cells in view."""
        return max(super().room // self.cell[0], 1) * self.cell[0]

    @property
    def _tokens_in_view(self) -> range:
        first = self.scroll_offset.x // self.cell[0]
        return range(first, min(first + self.room // self.cell[0] + 1, self.extent[1]))

    def row_name(self, line: int) -> str:
        """Return the name of a layer, on its first line."""
        assert self.shown is not None
        return "" if line % self.cell[1] else self.shown.layers[self.row_on(line)]

    def heading(self) -> tuple[str, range]:
        """Return the tokens of the sentence."""
        assert self.shown is not None
        text, marked = " " * self._tokens_in_view.start * self.cell[0], range(0)
        for token in self._tokens_in_view:
            start, text = len(text), f"{text} {fit(label(self.shown.tokens[token]), self.cell[0] - 1)}"
            marked = range(start, len(text)) if token == self.cursor[1] else marked
        return text, marked

    def paint_cells(self, line: int) -> Iterator[Segment]:
        """Paint the likeliest token of each cell, or its number; nothing between two layers."""
        assert self.shown is not None
        shown, styles, layer, inner = self.shown, self.level_styles, self.row_on(line), line % self.cell[1]
        if inner > 1:
            return
        yield Segment(" " * self._tokens_in_view.start * self.cell[0])
        for token in self._tokens_in_view:
            level = int(self._levels[layer, token])
            if inner:
                begin, text = " ", f"{shown.values[layer, token]:{'+' if shown.is_signed else ''}.2f}"
            else:
                begin, text = self._shade(level), label(shown.choices_at(layer, token)[0][1])
            is_here = (layer, token) == self.cursor
            style = self.get_component_rich_style("area--cursor") if is_here else styles[min(level, len(styles) - 1)]
            yield Segment(f"{begin}{fit(text, self.cell[0] - 2)} ", style)

    def _shade(self, level: int) -> str:
        """Return the sign that tells a level where there are no colours."""
        if self.ink is Ink.COLOUR:
            return " "
        if self._scale.is_signed:
            return self._scale.cells[min(level, len(self._scale.cells) - 1)][0]
        return _SHADES[min(level * (len(_SHADES) - 1) // (Ink.SHADES.levels - 1), len(_SHADES) - 1)]

    def legend(self) -> Text:
        """Return all levels between the numbers at both ends."""
        high = brief_number(self._scale.largest)
        if self._scale.is_signed:
            return levels_between(f"-{high}", self.level_styles, "".join(self._scale.cells), f"+{high}")
        return levels_between("0", self.level_styles, _SHADES, high)

    def action_page(self, pages: float) -> None:
        """Move down by the layers in view, less one."""
        super().action_page(-pages)
