"""One matrix's singular values: a line of words and numbers, and a plot below it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.drawing.curves import Curve, Span, columns_of, columns_under
from tui.drawing.levels import Ink, choose_ink
from tui.drawing.lines import LINE, OVER_BAR, OVER_CHANCE, draw_lines, line_colours, with_lines
from tui.drawing.plots import (
    COLOUR_PLOT,
    SHADE_PLOT,
    UNDER_CURSOR,
    Mark,
    Plot,
    PlotGlyphs,
    draw_plot,
    with_cursor,
)
from tui.drawing.text import fit, harmless
from tui.drawing.ticks import brief
from tui.widgets.repaint import repaint
from tui.widgets.spectrum_frame import NO_FRAME, Frame

_AIRY = 8
"""Height from which a block has a blank line at its foot."""


def axis_labels(span: Span) -> tuple[str, str]:
    """Write the values at the upper and the lower edge of a plot."""
    return brief(span.top, 3), brief(span.foot, 3)


@lru_cache(maxsize=64)
def mark_styles(
    bar: Style, chance: Style, edge: Style | None, cursor: Style, ground: Color | None
) -> Mapping[int, Style]:
    """Give the style of every mark, under the cursor and elsewhere.

    Parameters
    ----------
    bar, chance, cursor : the styles of what a plot is made of.
    edge : the style of chance's edge over a bar, where colours are mixed.
    ground : what is behind all.
    """
    styles: dict[int, Style] = {Mark.BLANK: Style(bgcolor=ground), Mark.CHANCE: chance}
    styles |= {Mark.BLANK + UNDER_CURSOR: cursor, Mark.CHANCE + UNDER_CURSOR: cursor}
    for under, front in ((0, bar), (UNDER_CURSOR, cursor)):
        styles[Mark.BAR + under] = front
        if edge is not None:
            styles[Mark.BAR_BEFORE_CHANCE + under] = front + Style(bgcolor=chance.color)
            styles[Mark.CHANCE_OVER_BAR + under] = edge + Style(bgcolor=front.color)
        else:
            styles[Mark.BAR_BEFORE_CHANCE + under] = front
            styles[Mark.CHANCE_OVER_BAR + under] = front + Style(reverse=True)
    return styles


class SpectrumBlock(Widget, can_focus=False):
    """Paints one curve; the cursor is drawn in it while it is the selected one."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "spectra--name",
        "spectra--name-cursor",
        "spectra--label",
        "spectra--bar",
        "spectra--bar-plain",
        "spectra--chance",
        "spectra--chance-edge",
        "spectra--cursor",
    }
    DEFAULT_CSS = """
    SpectrumBlock {
        width: 1fr;
        height: 1fr;
        & > .spectra--name { color: $text; text-style: bold; }
        & > .spectra--name-cursor { color: $success; text-style: bold reverse; }
        & > .spectra--label { color: $text-muted; }
        & > .spectra--bar { color: $primary; }
        & > .spectra--bar-plain { color: $text; }
        & > .spectra--chance { color: $foreground 20%; }
        & > .spectra--chance-edge { color: $surface; }
        & > .spectra--cursor { color: $success; }
    }
    """

    class Picked(Message):
        """The mouse chose this block, and in its plot the value with an index from zero (None beside the plot)."""

        def __init__(self, block: SpectrumBlock, index: int | None) -> None:
            self.block = block
            self.index = index
            super().__init__()

    def __init__(self) -> None:
        super().__init__()
        self.curve: Curve | None = None
        self._span = Span(0.0, 0.0)
        self._label_width = 0
        self._baseline = True
        self._cursor: int | None = None
        self._columns = columns_of(0, 0)
        self._plot: Plot | None = None
        self._lines: Plot | None = None
        self._frame = NO_FRAME
        self._composed_for: Size | None = None
        self._styles_now: dict[int, Style] = {}

    def draw(self, curve: Curve, span: Span, label_width: int, *, baseline: bool, cursor: int | None) -> None:
        """Draw a curve; what stays as it is on the screen is not painted again.

        Parameters
        ----------
        curve, span : what is drawn, on which part of the number line.
        label_width : cells that the axis's numbers have, the same in all blocks so that the plots line up.
        baseline : whether chance is drawn.
        cursor : index of the value under the cursor, from zero; None when another block is the selected one.
        """
        self.curve, self._span, self._label_width = curve, span, label_width
        self._baseline, self._cursor = baseline, cursor
        self._plot = None
        self._paint()

    def move_cursor(self, cursor: int | None) -> None:
        """Put the cursor on another value, or take it away."""
        self._cursor = cursor
        self._paint()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; what all of them need is found once."""
        if self.curve is not None and self._composed_for != self.size:
            self._make_frame(self.curve)  # it is painted before it is told its new size
        self._styles_now = self._styles()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Paint the line of words, or one row of the plot."""
        frame = self._frame
        words = self.get_component_rich_style("spectra--label")
        if y == 0:
            name = self.get_component_rich_style(f"spectra--name{'-cursor' if frame.selected else ''}")
            return Strip([Segment(frame.name, name), Segment(frame.summary, words)])
        if not 0 < y <= len(frame.plot.marks):
            return Strip.blank(self.size.width, self.rich_style)
        characters, marks = frame.plot.characters[y - 1], frame.plot.marks[y - 1]
        styles = self._styles_now
        label = frame.labels[y - 1]
        segments = [Segment(label, words if label.strip() else styles[Mark.BLANK])] if label else []
        bounds = [0, *(np.flatnonzero(marks[1:] != marks[:-1]) + 1).tolist(), len(marks)] if len(marks) else [0]
        segments += [Segment("".join(characters[i:j]), styles[int(marks[i])]) for i, j in pairwise(bounds)]
        return Strip(segments)

    def on_resize(self) -> None:
        """Draw the plot for the new size, unless it has been painted in it already."""
        if self._composed_for != self.size:
            self._paint()

    def on_click(self, event: events.Click) -> None:
        """Report what was clicked."""
        offset = event.get_content_offset(self)
        if offset is None or self.curve is None:
            return
        column = offset.x - self._left
        inside = offset.y > 0 and 0 <= column < len(self._columns)
        self.post_message(self.Picked(self, int(self._columns[column]) if inside else None))

    @property
    def _glyphs(self) -> PlotGlyphs:
        """Choose the characters that this terminal and theme can carry."""
        return COLOUR_PLOT if self._has_colours else SHADE_PLOT

    @property
    def _has_colours(self) -> bool:
        """Whether this terminal and theme tell colours apart that are mixed here."""
        app = self.app
        ink = choose_ink(app.console.color_system, no_color=app.no_color, ansi=app.native_ansi_color)
        return ink is Ink.COLOUR

    @property
    def _rows(self) -> int:
        """Height of the plot: what the line of words leaves, and where there is plenty a blank line below."""
        height = self._composed_for.height if self._composed_for else 0
        return max(height - (2 if height >= _AIRY else 1), 0)

    @property
    def _left(self) -> int:
        """Column where the plot begins; a plot of one row has its numbers in the line of words instead."""
        return self._label_width + 1 if self._rows > 1 else 0

    def _paint(self) -> None:
        """Put the block's frame together, and repaint where it differs from the one on the screen."""
        if self.curve is None:
            return
        if not self.size:
            self._composed_for = None
            repaint(self)  # what Textual has kept of the old picture must not be shown again
            return
        old = self._frame
        self._make_frame(self.curve)
        if not self._frame.fits(old):
            repaint(self)
        elif regions := list(self._frame.differences(old)):
            repaint(self, *regions)

    def _make_frame(self, curve: Curve) -> None:
        """Put the frame together for the size that the block has."""
        size = self.size
        if self._composed_for != size:
            self._plot = None
        self._composed_for = size
        self._frame = self._compose_frame(curve, size.width)

    def _compose_frame(self, curve: Curve, width: int) -> Frame:
        """Decide what every cell of the block shows."""
        rows, left = self._rows, self._left
        if self._plot is None:
            self._columns = columns_of(len(curve.values), width - left - 1, has_bars=curve.has_bars)
            self._plot = draw_plot(curve, self._span, self._columns, rows, baseline=self._baseline, glyphs=self._glyphs)
            self._lines = draw_lines(curve, self._span, self._columns, rows, self._glyphs) if curve.lines else None
        name = f" {harmless(curve.matrix)} "
        summary = harmless(curve.summary)
        top, foot = axis_labels(self._span)
        tick = "┤"
        labels = [" " * left] * rows
        if left:
            labels[0], labels[-1] = f"{top:>{left - 1}}{tick}", f"{foot:>{left - 1}}{tick}"
        elif rows:
            summary = harmless(f"{foot}…{top} ") + summary
        room = max(width - cell_len(name) - 2, 0)
        while cell_len(summary) > room and (words := summary.split(" "))[2:]:
            summary = " ".join(words[:-2])  # each number with its name: no part of one may be taken for it
        plot = self._plot
        under = range(0) if self._cursor is None else columns_under(self._cursor, self._columns)
        if under:
            plot = with_cursor(plot, under, self._glyphs, has_bars=curve.has_bars)
        if self._lines is not None:
            plot = with_lines(plot, self._lines, under)
        return Frame(
            name=name,
            summary=" " + fit(summary, room),
            selected=self._cursor is not None,
            labels=tuple(labels),
            plot=plot,
        )

    def _styles(self) -> dict[int, Style]:
        """Give the style of every mark, under the cursor and elsewhere."""
        style = self.get_component_rich_style
        coloured = self._glyphs is COLOUR_PLOT
        bar = style("spectra--bar" if coloured else "spectra--bar-plain")
        chance = style("spectra--chance" if coloured else "spectra--label")
        edge = style("spectra--chance-edge") if coloured else None
        ground = style("spectra--label").bgcolor
        styles = dict(mark_styles(bar, chance, edge, style("spectra--cursor"), ground))
        if self._lines is not None:
            for number in range(len(self._glyphs.signs)):
                line = self.line_style(number) + Style(bgcolor=ground)
                styles[LINE + number] = line
                styles[LINE + number + UNDER_CURSOR] = line + Style(bold=True, reverse=True)
                styles[LINE + number + OVER_BAR] = line + Style(bgcolor=bar.color if coloured else None)
                styles[LINE + number + OVER_CHANCE] = line + Style(bgcolor=chance.color if coloured else None)
        return styles

    def line_style(self, number: int) -> Style:
        """Give the style of a line, and of its sign wherever that is explained."""
        if not self._has_colours:
            return self.get_component_rich_style("spectra--bar-plain")
        return Style(color=Color.from_rgb(*line_colours(self.background_colors[1].rgb)[number]))

    def sign(self, number: int) -> str:
        """Give the sign of a line."""
        return self._glyphs.signs[number]
