"""Turns values into a few levels, chooses what tells levels apart on the terminal, and writes their legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.style import Style
from rich.text import Text

from engine.values.attention import PooledMap
from tui.drawing.numbers import brief_number

Scale = Literal["linear", "log", "root", "sink"]
"""How weights are scaled: linearly; by logarithm; by square root; or linearly up to the largest weight beyond the
first key, which many heads attend to when they find nothing else (an attention sink).
"""

SCALES: tuple[Scale, ...] = ("linear", "log", "root", "sink")
"""In the order in which a key goes through them."""

NOT_FINITE = 255
"""The level of NaN and infinite weights."""

ABSENT = 253
"""Stands for the level of a weight that has not come yet."""

LOG_FLOOR = 1e-4
"""The logarithmic scale runs from here to one; smaller weights have the lowest level."""

LINEAR_UP_TO = 64
"""Keys up to which a map starts on the linear scale.

With more keys, an even share is less than 1/64, a quarter of the first of 16 levels: most of what heads do would not
show.
"""

BINS = 4
"""Bars of a histogram per cube root of the number of values: twice Rice's rule, since they are narrow."""

FloatArray = NDArray[np.float64]

_ROUNDING = 1e-6
"""In levels: keeps a weight that is itself a bound, such as 0.001 on the logarithmic scale, from falling below it."""


def default_scale(keys: int) -> Scale:
    """Return the initial scale of a map with a number of keys.

    Examples
    --------
    >>> default_scale(20), default_scale(200)
    ('linear', 'log')
    """
    return "linear" if keys <= LINEAR_UP_TO else "log"


class Ink(Enum):
    """What tells levels apart: background colours, or two characters.

    There are 16 colours: more would double the bytes of a redraw, and nobody could tell them apart. With 8 shades a
    decade of the logarithmic scale is two levels.

    Attributes
    ----------
    cells : the two characters of each level's cell, lowest first; blanks where levels are colours.
    signed_cells : the same of differences, from the largest decrease to the largest increase.
    """

    COLOUR = ("  ",) * 16, ("  ",) * 15
    SHADES = (
        ("  ", " ░", "░░", "░▒", "▒▒", "▒▓", "▓▓", "██"),
        ("-█", "-▓", "-▒", "-░", "  ", "+░", "+▒", "+▓", "+█"),
    )

    def __init__(self, cells: tuple[str, ...], signed_cells: tuple[str, ...]) -> None:
        self.cells = cells
        self.signed_cells = signed_cells

    @property
    def levels(self) -> int:
        """Number of levels."""
        return len(self.cells)


def choose_ink(color_system: str | None, *, no_color: bool, ansi: bool) -> Ink:
    """Choose what the terminal can show.

    Parameters
    ----------
    color_system : of the application's console: ``truecolor``, ``256``, ``standard`` (16 colours), or None.
    no_color : whether ``NO_COLOR`` is set; Textual then turns colours to grey, or drops them under an ANSI theme.
    ansi : whether the theme leaves the colours to the terminal; no ramp can be mixed from unknown colours.
    """
    if color_system in ("truecolor", "256") and not no_color and not ansi:
        return Ink.COLOUR
    return Ink.SHADES


def levels_of(weights: NDArray[Any], scale: Scale, largest: float, count: int) -> NDArray[np.uint8]:
    """Sort weights into ``count`` equal levels of [0, largest], of its root, or of the logarithm of [1e-4, 1].

    A bound belongs to the level above it. Weights below the scale have level 0, those above it the top level, and those
    that are not finite `NOT_FINITE`.

    Examples
    --------
    >>> levels_of(np.array([0.0, 0.24, 0.25, 0.5, 1.0, np.nan]), "linear", 1.0, 4).tolist()
    [0, 0, 1, 2, 3, 255]
    >>> levels_of(np.array([0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0]), "log", 1.0, 4).tolist()
    [0, 0, 1, 2, 3, 3]
    """
    finite = np.isfinite(weights)
    values = np.where(finite, weights, 0.0).astype(np.float64)
    if scale == "log":
        height = 1.0 - np.log10(np.maximum(values, LOG_FLOOR)) / np.log10(LOG_FLOOR)
    else:
        height = np.maximum(values, 0) / largest if largest > 0 else np.zeros_like(values)
        height = np.sqrt(height) if scale == "root" else height
    level = np.clip(np.floor(height * count + _ROUNDING), 0, count - 1)
    return np.where(finite, level, NOT_FINITE).astype(np.uint8)


def bounds_of(scale: Scale, largest: float, count: int) -> list[float]:
    """Return the ``count + 1`` bounds of the levels, lowest first.

    Examples
    --------
    >>> bounds_of("linear", 0.8, 4)
    [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]
    >>> bounds_of("root", 0.8, 2)
    [0.0, 0.2, 0.8]
    """
    steps = [step / count for step in range(count + 1)]
    if scale == "log":
        return [LOG_FLOOR ** (1.0 - step) for step in steps]
    return [(step**2 if scale == "root" else step) * max(largest, 0.0) for step in steps]


def scale_top(scale: Scale, map: PooledMap) -> float:
    """Return the upper end of a scale for a map; for a sink scale, beyond the first key if the whole map is there."""
    window = map.window
    is_all = len(window.rows) * window.block >= len(map.query_tokens)
    is_all &= len(window.columns) * window.block >= len(map.key_tokens)
    if scale != "sink" or not is_all:
        return map.largest
    return float(np.max(np.abs(map.values[:, 1:]), where=np.isfinite(map.values[:, 1:]), initial=0.0))


@dataclass(frozen=True, slots=True)
class Levels:
    """How values become cells: weights by size; differences by size and sign around a middle level.

    Attributes
    ----------
    scale : logarithmic from 1e-4 to 1, or another one from zero to ``largest``.
    largest : upper end of a scale that is not logarithmic; of differences, by size.
    is_signed : whether the values are differences.

    Examples
    --------
    >>> differences = np.array([-1.0, -0.3, 0.0, 0.1, 0.5, 1.0, np.nan])
    >>> Levels("linear", 1.0, Ink.SHADES, is_signed=True).of(differences).tolist()
    [0, 3, 4, 4, 6, 8, 255]
    """

    scale: Scale
    largest: float
    ink: Ink
    is_signed: bool = False

    @property
    def steps(self) -> int:
        """Number of levels on either side of no difference."""
        return len(self.ink.signed_cells) // 2

    def of(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """Sort values of any shape into levels."""
        if not self.is_signed:
            return levels_of(values, self.scale, self.largest, self.ink.levels)
        sizes = levels_of(np.abs(values), self.scale, self.largest, self.steps + 1)
        signed = np.where(np.nan_to_num(values) < 0, self.steps - sizes.astype(int), self.steps + sizes.astype(int))
        return np.where(sizes == NOT_FINITE, NOT_FINITE, signed).astype(np.uint8)

    def in_view(self, map: PooledMap, rows: range, columns: range) -> NDArray[np.uint8]:
        """Compute the levels of some cells of a map, (rows, columns); `ABSENT` before they have come."""
        levels = np.full((len(rows), len(columns)), ABSENT, dtype=np.uint8)
        known = map.window
        top, bottom = max(rows.start, known.rows.start), min(rows.stop, known.rows.stop)
        left, right = max(columns.start, known.columns.start), min(columns.stop, known.columns.stop)
        if top < bottom and left < right:
            up, before = known.rows.start, known.columns.start
            found = self.of(map.values[top - up : bottom - up, left - before : right - before])
            levels[top - rows.start : bottom - rows.start, left - columns.start : right - columns.start] = found
        return levels

    @property
    def cells(self) -> tuple[str, ...]:
        """The two characters of each level's cell, lowest first; differences start with the largest decrease."""
        return self.ink.signed_cells if self.is_signed else self.ink.cells


def legend(levels: Levels, colours: Sequence[Style], width: int, pooled: str = "") -> Text:
    """Write all levels, lowest first, with weights between groups of them.

    Differences stand between the largest decrease and the largest increase. Where room is short, words go first, then
    inner numbers, then some of the levels.

    Parameters
    ----------
    colours : style of each level, for `Ink.COLOUR`.
    pooled : what a cell shows if it is more than one weight: ``max of 16×16``.

    Examples
    --------
    >>> linear, log = Levels("linear", 0.8, Ink.SHADES), Levels("log", 0.8, Ink.SHADES)
    >>> legend(linear, (), 72).plain
    'linear 0    ░ 0.2 ░░░▒ 0.4 ▒▒▒▓ 0.6 ▓▓██ 0.8 = largest weight of the map'
    >>> legend(log, (), 75).plain
    'log ≤1e-4    ░ 0.001 ░░░▒ 0.01 ▒▒▒▓ 0.1 ▓▓██ 1 = the maximum'
    >>> legend(log, (), 30).plain
    'log ≤1e-4    ░░░░▒▒▒▒▓▓▓██ 1'
    >>> legend(Levels("root", 0.8, Ink.SHADES), (), 76).plain
    'root 0    ░ 0.05 ░░░▒ 0.2 ▒▒▒▓ 0.45 ▓▓██ 0.8 = largest weight of the map'
    >>> legend(Levels("sink", 0.8, Ink.SHADES), (), 76).plain
    'linear 0    ░ 0.2 ░░░▒ 0.4 ▒▒▒▓ 0.6 ▓▓██ 0.8 = largest beyond the first key'
    >>> legend(linear, (), 15).plain
    '0  ░░▒▒▓██ 0.8'
    >>> legend(Levels("linear", 0.0, Ink.SHADES), (), 30).plain
    'no weight above 0'
    >>> signed = Levels("linear", 0.8, Ink.SHADES, is_signed=True)
    >>> [legend(signed, (), width).plain for width in (72, 18)]
    ['linear -0.8 -█-▓-▒-░ 0 +░+▒+▓+█ +0.8 = difference', '-0.8 -█ 0 +█ +0.8']
    """
    if not levels.largest and (levels.is_signed or levels.scale != "log"):
        return Text("no difference" if levels.is_signed else "no weight above 0", no_wrap=True)
    before = f"{pooled}{'  ' if pooled else ''}{'linear' if levels.scale == 'sink' else levels.scale} "
    ends = {"log": "the maximum", "sink": "largest beyond the first key"}
    end = ends.get(levels.scale, "largest of the map" if pooled else "largest weight of the map")
    legends, end = (_signed_legends, "difference") if levels.is_signed else (_unsigned_legends, end)

    def paint(shown: Iterable[int]) -> Text:
        if levels.ink is Ink.COLOUR:
            return Text.assemble(*((" ", colours[level]) for level in shown))
        return Text("".join(levels.cells[level] for level in shown))

    texts = [Text.assemble(*parts, no_wrap=True) for parts in legends(levels, paint, before, f" = {end}")]
    return next((text for text in texts if text.cell_len <= width), texts[-1])


def levels_between(low: str, styles: Sequence[Style], signs: str, high: str) -> Text:
    """Write all levels between the numbers at both ends: their colours, or signs where they have one style."""
    levels = [(" ", Style(bgcolor=each.bgcolor)) for each in styles] if len(styles) > 1 else [signs]
    return Text.assemble(f"{low} ", *levels, f" {high}", no_wrap=True)


_Paint = Callable[[Iterable[int]], Text]
"""Shows some levels side by side."""


def _unsigned_legends(levels: Levels, paint: _Paint, before: str, words: str) -> Iterator[list[str | Text]]:
    """Yield legends of weights, longest first."""
    count, scale = levels.ink.levels, levels.scale
    bounds = [brief_number(bound) for bound in bounds_of(scale, levels.largest, count)]
    for groups, end in ((4, words), (4, ""), (1, words), (1, "")):
        parts: list[str | Text] = [f"{before}{'≤' if scale == 'log' else ''}{bounds[0]}"]
        for stop in range(count // groups, count + 1, count // groups):
            parts += [" ", paint(range(stop - count // groups, stop)), f" {bounds[stop]}"]
        yield [*parts, end]
    for step in (1, 2, 4):
        yield [f"{bounds[0]} ", paint(range(step - 1, count, step)), f" {bounds[-1]}"]


def _signed_legends(levels: Levels, paint: _Paint, before: str, words: str) -> Iterator[list[str | Text]]:
    """Yield legends of differences, longest first."""
    top, steps = brief_number(1.0 if levels.scale == "log" else levels.largest), levels.steps
    falls, rises = range(steps), range(steps + 1, 2 * steps + 1)
    for begin, end in ((before, words), (before, ""), ("", "")):
        yield [f"{begin}-{top} ", paint(falls), " 0 ", paint(rises), f" +{top}{end}"]
    yield [f"-{top} ", paint(falls[:1]), " 0 ", paint(rises[-1:]), f" +{top}"]


@dataclass(frozen=True, slots=True)
class ValueScale:
    """The range of values that a map or a plot shows.

    Attributes
    ----------
    scale : linear, or logarithmic with both ends above zero.
    is_signed : whether zero is in its middle.
    is_whole : whether all values are whole numbers.
    """

    low: float
    high: float
    scale: Scale = "linear"
    is_signed: bool = False
    is_whole: bool = False

    def heights(self, values: FloatArray) -> FloatArray:
        """Map values to heights from 0, at or below the lower end, to 1; NaN for what is not finite."""
        low, high, finite = self.low, self.high, np.where(np.isfinite(values), values, np.nan)
        if high <= low:
            return finite * 0.0 + 0.5
        if self.scale == "log":
            low, high, finite = float(np.log(low)), float(np.log(high)), np.log(np.maximum(finite, low))
        return np.clip((finite - low) / (high - low), 0.0, 1.0)

    def levels(self, values: FloatArray, ink: Ink, cells: int) -> NDArray[np.uint8]:
        """Sort values into ``cells`` levels, lowest first, or into those of signed values; `NOT_FINITE` for others."""
        if self.is_signed:
            return Levels("linear", self.high, ink, is_signed=True).of(np.asarray(values, dtype=np.float64))
        return levels_of(self.heights(values), "linear", 1.0, cells)

    def bins(self, columns: int, count: int) -> int:
        """Choose the number of bars of a histogram; one for each whole number where they fit."""
        span = round(self.high - self.low) + 1
        if self.is_whole and self.scale == "linear" and span <= columns:
            return span
        return max(1, min(columns, math.ceil(BINS * math.pow(count, 1 / 3))))

    def bin_of(self, values: FloatArray, bins: int) -> NDArray[np.intp]:
        """Return the bar of each finite value."""
        heights = np.nan_to_num(self.heights(values))
        if self.is_whole and self.scale == "linear" and bins == round(self.high - self.low) + 1:
            return np.rint(heights * (bins - 1)).astype(np.intp)
        return np.minimum((heights * bins).astype(np.intp), bins - 1)


def scale_of(values: FloatArray, wanted: Scale, is_signed: bool) -> ValueScale | None:
    """Choose the scale of finite values; None without values.

    A logarithmic scale starts at the smallest value above zero, and needs values that are not negative.

    Examples
    --------
    >>> scale_of(np.array([0.0, 2.0, 8.0]), "log", False)
    ValueScale(low=2.0, high=8.0, scale='log', is_signed=False, is_whole=True)
    >>> scale_of(np.array([-0.5, 0.25]), "log", True)
    ValueScale(low=-0.5, high=0.5, scale='linear', is_signed=True, is_whole=False)
    """
    if not values.size:
        return None
    low, high = float(values.min()), float(values.max())
    is_whole = bool((values == np.rint(values)).all())
    if is_signed:
        largest = max(abs(low), abs(high))
        return ValueScale(-largest, largest, "linear", True)
    if wanted == "log" and low >= 0 and high > 0:
        return ValueScale(float(values[values > 0].min()), high, "log", is_whole=is_whole)
    return ValueScale(low, high, is_whole=is_whole)


def glyphs_of(ink: Ink, width: int, is_signed: bool) -> tuple[str, ...]:
    """Return the characters of each level's cell, 1 or an even number wide.

    Unsigned levels start with the second of the ink: the lowest looks like no head.

    Examples
    --------
    >>> glyphs_of(Ink.SHADES, 1, False), glyphs_of(Ink.SHADES, 2, False)[:3]
    (('░', '▒', '▓', '█'), (' ░', '░░', '░▒'))
    """
    if width == 1 and ink is Ink.SHADES:
        return tuple("░▒▓█")
    cells = ink.signed_cells if is_signed else ink.cells[1:]
    return tuple(cell[0] if width == 1 else cell * (width // 2) for cell in cells)
