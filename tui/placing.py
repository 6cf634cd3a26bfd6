"""Where every widget is, which of them have to be told that they are somewhere new, and where lines are cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import cast

from textual._compositor import ChopsUpdate, Compositor, CompositorMap, ReflowResult
from textual.errors import NoWidget
from textual.geometry import Offset, Region, Size
from textual.strip import Strip
from textual.widget import Widget

Span = tuple[int, int, int]
"""A line, its first column that is to be painted, and the one behind the last."""


class Placing(Compositor):
    """The toolkit's, but that every widget is told when it is shown or has another size, and lines stay whole.

    Asked between two layouts where a widget is, the toolkit's makes its map anew; what came to be displayed meanwhile
    is in that one already, and at the next layout is not told its size. Here a layout is compared with the one before.

    The toolkit's cuts what it paints wherever a widget begins or ends, be it behind another; a wide character at such
    a place becomes two blanks. Here a line is cut only where another widget is seen. What then is cut off a wide
    character is painted, too, as a terminal may make it a blank in a colour of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap = {}
        self._painted_cuts: dict[int, list[int]] = {}

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Lay all widgets out, and say which are hidden, shown and of another size since the last time."""
        self._full_map = self._laid_out
        result = super().reflow(parent, size)
        self._laid_out = self._full_map
        return result

    @property
    def cuts(self) -> list[list[int]]:
        """Say of each line in which columns another widget is seen than before, with its first and its last column."""
        if self._cuts is None:
            screen = self.size.region
            clipped = (region.intersection(clip) for region, clip in self.visible_widgets.values())
            shown = [region.intersection(screen) for region in clipped]
            rows = sorted({0, screen.height, *chain.from_iterable((each.y, each.bottom) for each in shown)})
            self._cuts = []
            for top, bottom in pairwise(rows):
                spans = [each.column_span for each in shown if each.y <= top < each.bottom]
                self._cuts += [seams(spans, screen.width)] * (bottom - top)
        return self._cuts

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Find what the mouse is over, and which letter of its text; there is none in what is drawn cell by cell.

        Of that the toolkit's would paint a line all the same, be it before it is painted first and ready for it.
        """
        try:
            widget, _ = self.get_widget_at(x, y)
        except NoWidget:
            return None, None
        return super().get_widget_and_offset_at(x, y) if widget.allow_select else (widget, None)

    def render_partial_update(self) -> ChopsUpdate | None:
        """Paint what is to be painted anew, and nothing else of the widgets that it is of."""
        regions, self._dirty_regions = self._dirty_regions, set()
        if not regions:
            return None
        before, cuts = self._painted_cuts, self.cuts
        spans = [
            (y, x1, x2) if before.get(y) == cuts[y] else (y, max(x1 - 1, 0), min(x2 + 1, self.size.width))
            for y, x1, x2 in self._regions_to_spans(regions)
        ]
        self._painted_cuts = before | {y: cuts[y] for y, _, _ in spans}
        return ChopsUpdate(self._painted(spans), spans, [cut[1:] for cut in cuts])

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        """Give the pieces of whole lines, by the column they begin in."""
        lines = [(y, crop.x, crop.right) for y in crop.line_range if is_rendered_line(y)]
        return cast("Sequence[Mapping[int, Strip]]", self._painted(lines))  # as the toolkit has it

    def _painted(self, spans: Sequence[Span]) -> list[dict[int, Strip | None]]:
        """Paint the pieces of lines in which some columns are wanted: of the foremost widget; None of other pieces."""
        cuts = self.cuts
        lines: list[dict[int, Strip | None]] = [dict.fromkeys(cut[:-1]) for cut in cuts]
        wanted: dict[int, list[tuple[int, int]]] = {}
        for y, x1, x2 in spans:
            found = [(start, end) for start, end in pairwise(cuts[y]) if start < x2 and end > x1]
            wanted[y] = list(dict.fromkeys((*wanted.get(y, ()), *found)))
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            rows = [y for y in shown.line_range if any(_holds(shown, piece) for piece in wanted.get(y, ()))]
            if not rows or widget.parent is None:
                continue  # what has gone since the last layout has no styles any more
            part = Region(shown.x, rows[0], shown.width, rows[-1] + 1 - rows[0])
            strips = widget.render_lines(part.translate(-region.offset))
            for y in rows:
                strip = strips[y - part.y]
                seen = shown.crop_size((strip.cell_length, shown.height))
                for start, end in [piece for piece in wanted[y] if _holds(seen, piece)]:
                    lines[y][start] = strip.crop(start - shown.x, end - shown.x)
                    wanted[y].remove((start, end))
        return lines


def _holds(region: Region, piece: tuple[int, int]) -> bool:
    """Say whether a widget is in all columns of a piece of a line."""
    return region.x <= piece[0] and piece[1] <= region.right


def seams(spans: Sequence[tuple[int, int]], width: int) -> list[int]:
    """Give the columns in which what is seen of spans that cover each other begins and ends.

    Parameters
    ----------
    spans : the first column of each and the one behind its last, the foremost in front.
    width : of the line.

    Examples
    --------
    >>> seams([(0, 22), (22, 80), (0, 80)], 80), seams([(0, 80), (0, 22), (22, 80)], 80)
    ([0, 22, 80], [0, 80])
    """
    columns = sorted({0, width, *chain.from_iterable(spans)})
    seen = [next((place for place, (a, b) in enumerate(spans) if a <= column < b), None) for column in columns[:-1]]
    inner = [column for column, (before, here) in zip(columns[1:], pairwise(seen), strict=False) if before != here]
    return [0, *inner, width]
