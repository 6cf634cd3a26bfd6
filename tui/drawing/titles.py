"""Titles of views: lists of parts, of which the least telling shorten first where room is short."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from rich.cells import set_cell_size
from rich.style import Style
from rich.text import Text

from engine.values.display_text import quantity
from engine.values.heads import NAMED_HEADS, head_text
from tui.drawing.text import escape_text, quote_text

if TYPE_CHECKING:
    from engine.values.attention import MapName
    from engine.values.heads import Head, Off
    from engine.values.outline import ModelOutline

COMPUTING = "computing …"
"""Progress of a view of which nothing more is known."""

WORTH_SEEING = 10
"""Cells of a filter, with the blanks before it, below which it is left out."""

RULE = 3
"""Least cells between the left and the right of a frame's top line: a piece of the line and two blanks."""

LAST, NAME, BRIEF, COUNT, FILTER, STATE, FACT, WORDS = range(8)
"""Priorities: the highest number gives way first, and among equals the last part."""

_NUMBER = re.compile(r"\d[\d.e+-]*")


@dataclass(frozen=True)
class Part:
    """A part of a title."""

    text: str
    gap: str = "  "
    fewer: Sequence[tuple[int, str]] = ()
    style: str | Style = ""


@dataclass(frozen=True)
class Title:
    """A title."""

    parts: Sequence[Part] = ()

    @classmethod
    def of(
        cls,
        name: str,
        parts: Sequence[Part] = (),
        *,
        state: Sequence[str] = (),
        count: Sequence[str] = (),
        words: str = "",
        columns: int = 0,
    ) -> Self:
        """Make the title of a view.

        Parameters
        ----------
        parts : what is shown, the most telling first.
        state : progress, or which of several things is shown, in many words and in fewer, at last none if it can go. It
            follows the parts that belong to the name.
        count : rows that a filter leaves, in many words and in fewer.
        columns : how many columns are to the right of those in view.
        """
        parts = [part for part in parts if part.text]
        place = next((at for at, part in enumerate(parts) if part.gap != " "), len(parts))
        said = [Part(state[0], fewer=[(STATE if each else LAST, each) for each in state[1:]])] if state else []
        every = [*parts[:place], *said, *parts[place:]]
        if count:
            every.append(Part(count[0], fewer=[(COUNT, each) for each in count[1:]]))
        if words:
            every.append(Part(words, fewer=((FILTER, ""),)))
        named = Part(name, fewer=((NAME, name.split()[-1]), (NAME, "")), style="bold")
        fewer = (WORDS, f"→ {columns} more"), (FACT, "")
        beyond = (Part(f"→ {quantity(columns, 'more column')}", fewer=fewer),) if columns else ()
        return cls((named, *(replace(each, gap=" ") for each in every[:1]), *every[1:], *beyond))

    def fit(self, width: int) -> Text:
        """Write as much as fits; a width of 0 is unlimited.

        Numbers are never cut.

        Examples
        --------
        >>> title = Title.of("ranks", [layer_part(3)], state=("energy rank, ε 0.01", "energy rank"))
        >>> [title.fit(width).plain for width in (36, 32, 24)]
        ['ranks layer 3  energy rank, ε 0.01', 'ranks L3  energy rank, ε 0.01', 'ranks L3  energy rank']
        """
        line = _join(self._shorten(width))
        return _cut(line, width) if width else line

    def fit_frame(self, width: int) -> tuple[Text, Text]:
        """Write the left and the right of a frame's top line: what is shown, and its state.

        Examples
        --------
        >>> title = Title.of("ranks", [layer_part(3)], state=("energy rank", ""), count=("2 of 9",))
        >>> [each.plain for each in title.fit_frame(40)]
        ['ranks layer 3', 'energy rank · 2 of 9']
        """
        for room in (width, width - RULE):
            parts = [part for part in self._shorten(room) if part.text]
            place = next((at for at, part in enumerate(parts) if at and part.gap == "  "), len(parts))
            state = [replace(part, gap=" · " if part.gap == "  " else part.gap) for part in parts[place:]]
            left, right = _join(parts[:place]), _join(state)
            if left.cell_len + bool(right) * (right.cell_len + RULE) <= width:
                return left, right
        return self.fit(width), Text()

    def _shorten(self, width: int) -> Sequence[Part]:
        """Return the parts in as many words as fit."""
        parts = list(self.parts)
        length = _join(parts).cell_len
        turns = [(soon, place, said) for place, part in enumerate(parts) for soon, said in part.fewer]
        for soon, place, said in sorted(turns, key=lambda turn: (turn[0], turn[1]), reverse=True):
            if not width or length <= width:
                break
            before, parts[place] = parts[place], replace(parts[place], text=said)
            length = _join(parts).cell_len
            if soon == FILTER and width - length >= WORTH_SEEING:
                parts[place] = before
                break
        return parts


def _join(parts: Sequence[Part]) -> Text:
    line = Text()
    for part in parts:
        if part.text:
            line.append(part.gap if line else "").append(part.text, part.style)
    return line


def _cut(line: Text, width: int) -> Text:
    """Cut a line, before a number rather than within it."""
    if line.cell_len <= width:
        return line
    seen = len(set_cell_size(line.plain, width - 1))
    numbers = (each.start() for each in _NUMBER.finditer(line.plain) if each.start() < seen < each.end())
    return Text.assemble(line[: next(numbers, seen)], "…")


def fact_part(text: str, gap: str = "  ", style: str = "") -> Part:
    """Make a part that is left out where room is short."""
    return Part(text, gap, ((FACT, ""),), style)


def pair_part(token: str, against: str, difference: str = "") -> Part:
    """Name the two tokens whose logits are compared, and their difference.

    Examples
    --------
    >>> pair_part(" ball", " dog").text, pair_part(" ball", " dog", "1.5").text
    ("' ball' − ' dog'", "' ball' − ' dog' = 1.5")
    """
    pair = f"{quote_text(token)} − {quote_text(against)}"
    return Part(f"{pair} = {difference}", fewer=((FACT, pair),)) if difference else Part(pair)


def layer_part(layer: int, stack: str = "") -> Part:
    """Name a layer: ``encoder layer 3``, or ``L3``; with a stack if given."""
    before = f"{stack} " if stack else ""
    return Part(f"{before}layer {layer}", " ", ((WORDS, f"{before}L{layer}"), (LAST, f"L{layer}")))


def head_part(head: Head, outline: ModelOutline) -> Part:
    """Name a head or a layer, with its stack if there are several: ``encoder L3H1``, or ``L3H1``."""
    return Part(head_text(head, outline.stacks), " ", ((LAST, str(head)),))


def map_part(name: MapName, outline: ModelOutline) -> Part:
    """Name a map, with its stack if there are several: ``L3, mean over heads``, or ``mean of L3``."""
    stack = f"{name.stack} " if len(outline.stacks) > 1 else ""
    fewer: Sequence[tuple[int, str]] = ()
    if name.layer is None and name.head is None:
        fewer = () if name.is_rollout else ((BRIEF, f"{stack}mean of all"), (LAST, f"{stack}mean"))
    elif name.layer is None or name.head is None:
        fewer = ((BRIEF, f"mean of {stack}{f'H{name.head}' if name.layer is None else f'L{name.layer}'}"),)
    elif stack:
        fewer = ((LAST, str(name)),)
    return Part(f"{stack}{name}", " ", fewer)


def off_part(off: Off, stacks: Sequence[str], gap: str = " · ", *, is_difference: bool = False) -> Part:
    """Name the heads that are off, or at last their number; for a difference, also that to all heads on."""
    count = len(off.heads)
    names = quantity(count, "head") if count > NAMED_HEADS else ", ".join(head_text(each, stacks) for each in off.heads)
    mean = " by mean" if off.by_mean else ""
    whole, less, least = (" less with all on", " less all on", "−on") if is_difference else ("", "", "")
    fewer = (WORDS, f"{names} off{mean}{less}"), (BRIEF, f"{count} off{less}"), (LAST, f"{count} off{least}")
    return Part(f"with {off.text(stacks)}{whole}", gap, fewer)


def difference_part() -> Part:
    """Say that a map is the difference of two models."""
    fewer = ((WORDS, "other less this"), (LAST, "other−this"))
    return Part("other model less this one", " · ", fewer)


def cell_part(cell: tuple[int, int], asked: str, read: str) -> Part:
    """Name a query and a key by position and token, or by position alone."""
    (query, key), asked, read = cell, escape_text(asked), escape_text(read)
    fewer = (WORDS, f'q {query} "{asked}" k {key} "{read}"'), (WORDS, f"q {query} k {key}")
    return Part(f'query {query} "{asked}", key {key} "{read}"', " ", fewer)


def mean_part(name: MapName, cell: Part) -> Part:
    """Warn that a cell is of one head while the map is a mean over several; at last the warning goes."""
    if name.layer is not None and name.head is not None:
        return cell
    before = f"not the {'rollout' if name.is_rollout else 'mean'}: "
    fewer = [(soon, f"{before}{said}") for soon, said in cell.fewer]
    return Part(f"{before}{cell.text}", cell.gap, [*fewer, *((FACT, said) for _, said in cell.fewer[-1:])])
