"""Where every widget is, which of them have to be told that they are somewhere new, and where lines are cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import cast

from textual._compositor import Compositor, CompositorMap, ReflowResult
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget


class Placing(Compositor):
    """The toolkit's, but that every widget is told when it is shown or has another size, and lines stay whole.

    Asked between two layouts where a widget is, the toolkit's makes its map anew; what came to be displayed meanwhile
    is in that one already, and at the next layout is not told its size. Here a layout is compared with the one before.

    The toolkit's cuts what it paints wherever a widget begins or ends, be it behind another; a wide character at such
    a place becomes two blanks. Here a line is cut only where another widget is seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap = {}

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

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        """Give the pieces of the lines that are painted, by the column they begin in: of the foremost widget."""
        cuts = self.cuts
        lines: list[dict[int, Strip | None]] = [dict.fromkeys(cut[:-1]) for cut in cuts]
        for region, clip, strips in self._get_renders(crop):
            shown = region.intersection(clip)
            for y, strip in zip(shown.line_range, strips, strict=False):
                if not is_rendered_line(y):
                    continue
                line, right = lines[y], shown.x + min(shown.width, strip.cell_length)
                for start, end in pairwise(cuts[y]):
                    if line[start] is None and shown.x <= start and end <= right:
                        line[start] = strip.crop(start - shown.x, end - shown.x)
        return cast("Sequence[Mapping[int, Strip]]", lines)  # as the toolkit has it, though what is not painted is None


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
