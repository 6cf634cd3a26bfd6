"""The lens as cells, layers by tokens: what the model would predict after each block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.strip import Strip

from tui.drawing.lens_map import LensMap, cell_width
from tui.drawing.levels import Ink, Levels
from tui.drawing.numbers import brief_number
from tui.drawing.ramps import legible_styles
from tui.drawing.text import fit, label
from tui.toolkit.keys import lines_of, paging_bindings
from tui.widgets.scroll_area import CellGrid

_SHADES = " ░▒▓█"
"""Begin a cell where levels have no colour, smallest first."""


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
        self.message = ""
        self._levels: Sequence[Sequence[int]] = ()
        self._scale: Levels | None = None
        self._width = self._height = 1

    @property
    def level_styles(self) -> tuple[Style, ...]:
        """The style of each level: a background with legible letters on it, or one style for all."""
        is_signed = self.shown is not None and self.shown.is_signed
        styles = self.styles_of_levels(is_signed=is_signed)
        return legible_styles(styles, self.get_component_rich_style("area--cell").color) if len(styles) > 1 else styles

    @property
    def lines(self) -> int:
        """Number of lines of the whole map."""
        return 1 + self._height * len(self.shown.layers) if self.shown is not None else 0

    @property
    def _gutter(self) -> int:
        return 1 + max(map(len, self.shown.layers)) if self.shown is not None else 0

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
        """Choose the size of the cells: two lines, with the number in the second, if all of them fit."""
        shown = self.shown
        if shown is None:
            return
        width, height = self.size
        self._width = cell_width(width - self._gutter, len(shown.tokens))
        self._height = 2 if 1 + 2 * len(shown.layers) < height else 1
        self._scale = shown.levels(self.ink)
        self._levels = self._scale.of(shown.values).tolist()
        spare = max(0, width - self._gutter) % self._width  # so that the last token can be scrolled to by whole cells
        self.virtual_size = Size(self._gutter + self._width * len(shown.tokens) + spare, self.lines)

    def _line_of(self, layer: int) -> int:
        """Return the first line of a layer, below the line of tokens."""
        assert self.shown is not None
        return (len(self.shown.layers) - 1 - layer) * self._height

    def reveal(self) -> None:
        """Scroll as little as brings the cursor into view."""
        if self.shown is None or not self.size:
            return
        line, column = self._line_of(self.cursor[0]), self.cursor[1] * self._width
        room = self._cells_across(self.scrollable_content_region.width) * self._width
        self.reveal_cells(range(column, column + self._width), range(line, line + self._height), room)

    def _cells_across(self, width: int) -> int:
        return max(1, (width - self._gutter) // self._width)

    @property
    def extent(self) -> tuple[int, int]:
        """Number of layers, with the embedding, and of tokens."""
        return (0, 0) if self.shown is None else (len(self.shown.layers), len(self.shown.tokens))

    def repaint(self, *cells: tuple[int, int]) -> None:
        """Repaint some cells and their labels."""
        left, top = self.scroll_offset
        for layer, token in cells:
            x, y = self._gutter + token * self._width - left, 1 + self._line_of(layer) - top
            regions = (
                Region(x, 0, self._width, 1), Region(0, y, self._gutter, self._height),
                Region(x, y, self._width, self._height),
            )  # fmt: skip
            for each in regions:
                self.refresh(each.translate((self.styles.padding.left, 0)))

    def render_line(self, y: int) -> Strip:
        """Paint the tokens of the sentence, or a line of a layer's cells."""
        width, shown = self.size.width, self.shown
        plain = self.get_component_rich_style("area--label")
        blank = Style(bgcolor=plain.bgcolor)
        if shown is None:
            return self.message_line(self.message, y, plain)
        if y == 0:
            cells = [self._header(shown, token, plain) for token in range(len(shown.tokens))]
            name = Segment(" " * self._gutter, blank)
        else:
            place = y - 1 + self.scroll_offset.y
            layer = len(shown.layers) - 1 - place // self._height
            if layer < 0:
                return Strip.blank(width, blank)
            is_here, is_first = layer == self.cursor[0], place % self._height == 0
            text = shown.layers[layer] if is_first else ""
            style = self.get_component_rich_style("area--label-cursor") if is_here else plain
            name = Segment(text.ljust(self._gutter), style)
            cells = self._cells(shown, layer, is_first=is_first)
        left = self.scroll_offset.x
        row = Strip(cells).crop(left, left + self._cells_across(width) * self._width)
        return Strip([name, *row]).adjust_cell_length(width, blank)

    def _header(self, shown: LensMap, token: int, plain: Style) -> Segment:
        style = self.get_component_rich_style("area--label-cursor") if token == self.cursor[1] else plain
        return Segment(f" {fit(label(shown.tokens[token]), self._width - 1)}", style)

    def _cells(self, shown: LensMap, layer: int, *, is_first: bool) -> list[Segment]:
        styles, cursor = self.level_styles, self.get_component_rich_style("area--cursor")
        first, values = shown.place(layer, 0) // shown.choices, shown.values[layer]
        cells = []
        for token, level in enumerate(self._levels[layer]):
            text = shown.likeliest[first + token] if is_first else f"{values[token]:{'+' * shown.is_signed}.2f}"
            is_here = (layer, token) == self.cursor
            style = cursor if is_here else styles[min(level, len(styles) - 1)]
            begin = " " if len(styles) > 1 or not is_first else self._shade(level)
            cells.append(Segment(f"{begin}{fit(text, self._width - 2)} ", style))
        return cells

    def _shade(self, level: int) -> str:
        assert self._scale is not None
        if self._scale.is_signed:
            return self._scale.cells[min(level, len(self._scale.cells) - 1)][0]
        return _SHADES[min(level * (len(_SHADES) - 1) // (Ink.SHADES.levels - 1), len(_SHADES) - 1)]

    def legend(self) -> list[Segment]:
        """Return all levels between the numbers at both ends."""
        if self.shown is None or self._scale is None:
            return []
        plain, styles = Style(), self.level_styles
        high = brief_number(self._scale.largest)
        low, high = (f"-{high}", f"+{high}") if self._scale.is_signed else ("0", high)
        levels = [Segment(" ", Style(bgcolor=style.bgcolor)) for style in styles]
        signs = "".join(self._scale.cells) if self._scale.is_signed else _SHADES
        return [
            Segment(f"{low} ", plain),
            *(levels if len(styles) > 1 else [Segment(signs)]),
            Segment(f" {high}", plain),
        ]

    # --- keys and the mouse

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked cell; choose the cell if the cursor is there already."""
        offset, shown = event.get_content_offset(self), self.shown
        if offset is None or shown is None or offset.y < 1 or offset.x < self._gutter:
            return
        token = (offset.x - self._gutter + self.scroll_offset.x) // self._width
        layer = len(shown.layers) - 1 - (offset.y - 1 + self.scroll_offset.y) // self._height
        if layer >= 0 and token < len(shown.tokens):
            self.click(layer, token)

    def action_page(self, pages: float) -> None:
        """Move down by the layers in view, less one."""
        rows = (self.scrollable_content_region.height - 1) // self._height
        self.action_move(-lines_of(pages, rows - 1), 0)
