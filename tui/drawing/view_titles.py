"""The title of a view in the cells that there are: a list of parts, each with what it says in fewer words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from rich.cells import set_cell_size
from rich.text import Text

COMPUTING = "computing …"
"""How far a view is of which nothing more is known."""

LESS_THIS_MODEL = "other model less this one"
"""What is looked at where a map is the difference of two models'."""

WORTH_SEEING = 10
"""Cells of a filter, with the blanks before it, below which it is left out."""

LAST, NAME, BRIEF, COUNT, FILTER, STATE, FACT, WORDS = range(8)
"""How soon something gives way: what has the highest number first, and of those alike what stands last."""


@dataclass(frozen=True)
class Part:
    """A part of a title.

    Attributes
    ----------
    text : what it says.
    gap : what stands between it and what is before it.
    fewer : what it says when there is less room, and how soon it gives way to that; nothing leaves it out.
    """

    text: Text
    gap: str = "  "
    fewer: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True)
class ViewTitle:
    """What stands over a view.

    Attributes
    ----------
    parts : in the order in which they stand.
    hints : what is said besides where there is room for all else, in many words and in fewer.
    """

    parts: Sequence[Part] = ()
    hints: Sequence[str] = ()

    @classmethod
    def of(
        cls, text: Text, state: Sequence[str] = (), count: str = "", words: str = "", hints: Sequence[str] = ()
    ) -> Self:
        """Make a title of what is said with gaps between: two blanks, or a dot.

        Parameters
        ----------
        text : the view's name, bold, and behind it what is shown, the most telling first. The first stays with the
            name, unless two blanks are between them.
        state : how far the view is, or which of several things it shows, in many words and in fewer; at last none,
            where it can be missed.
        count, words : how many rows a filter leaves, and the filter.
        hints : as of the title.
        """
        end = next((span.end for span in text.spans if span.start == 0 and span.style == "bold"), 0)
        name = text[:end].plain.rstrip()
        parts = _parts_of(text[end:])
        if state:
            place = 1 if parts and parts[0].fewer != _FACT else 0
            said = [(STATE if each else LAST, each) for each in state[1:]]
            parts.insert(place, Part(Text(state[0]), fewer=said))
        if count:
            parts.append(Part(Text(count), fewer=((COUNT, re.sub(r"^(\d+) of (\d+).*", r"\1/\2", count)),)))
        if words:
            parts.append(Part(Text(words), fewer=((FILTER, ""),)))
        if name:
            fewer = ((NAME, name.split()[-1]), (NAME, ""))
            parts = [Part(Text(name, "bold"), fewer=fewer), *(replace(each, gap=" ") for each in parts[:1]), *parts[1:]]
        return cls(parts, hints)

    def within(self, width: int) -> Text:
        """Write as much as there is room for; of a width of 0 nothing is known.

        No part of a number is left that could be taken for the number.

        Examples
        --------
        >>> title = ViewTitle.of(Text.assemble(("ranks ", "bold"), "layer 3  energy rank, ε 0.01"))
        >>> [title.within(width).plain for width in (36, 32, 16)]
        ['ranks layer 3  energy rank, ε 0.01', 'ranks L3  energy rank, ε 0.01', 'ranks L3']
        """
        parts = list(self.parts)
        line = _joined(parts)
        for hint in self.hints:
            if width and (longer := Text.assemble(line, f"  {hint}")).cell_len <= width:
                return longer
        turns = [(soon, place, said) for place, part in enumerate(parts) for soon, said in part.fewer]
        for soon, place, said in sorted(turns, key=lambda turn: (turn[0], turn[1]), reverse=True):
            if not width or line.cell_len <= width:
                break
            parts[place], before = replace(parts[place], text=Text(said, parts[place].text.style)), line
            line = _joined(parts)
            if soon == FILTER and width - line.cell_len >= WORTH_SEEING:
                line = before
                break
        return _cut(line, width) if width else line


def _parts_of(text: Text) -> list[Part]:
    """Take what is shown apart at its gaps; a cell of the map, whose tokens may hold such, stays whole."""
    cell = _CELL.search(text.plain)
    inside = range(*cell.span()) if cell is not None else range(0)
    gaps = [each for each in _GAP.finditer(text.plain) if each.start() not in inside]
    parts: list[Part] = []
    for before, after in zip((None, *gaps), (*gaps, None), strict=True):
        said = text[before.end() if before else 0 : after.start() if after else len(text)]
        if said.plain.strip():
            gap = before[0] if before else " "
            stays = gap == " " or _STAYS.search(said.plain)
            parts.append(Part(said, gap, _in_fewer_words(said.plain) if stays else _FACT))
    return parts


def _in_fewer_words(said: str) -> list[tuple[int, str]]:
    """Say something in fewer and fewer words."""
    fewer: list[tuple[int, str]] = []
    for soon, pattern, words in _SHORTER:
        if (shorter := re.sub(pattern, words, said)) != said:
            fewer.append((soon, shorter))
            said = shorter
    return fewer


def _joined(parts: Sequence[Part]) -> Text:
    """Put parts beside each other."""
    line = Text()
    for part in parts:
        if part.text.plain:
            line.append(part.gap if line else "").append_text(part.text)
    return line


def _cut(line: Text, width: int) -> Text:
    """Cut a line, before the number of which only a part would be seen, if there is one."""
    if line.cell_len <= width:
        return line
    seen = len(set_cell_size(line.plain, width - 1))
    numbers = (each.start() for each in re.finditer(r"\d[\d.e+-]*", line.plain) if each.start() < seen < each.end())
    return Text.assemble(line[: next(numbers, seen)], "…")


_GAP = re.compile(r" {2,}| · |, (?=ε )| (?=\(energy ε )")
_FACT = ((FACT, ""),)
_CELL = re.compile(r'\bquery (\d+) (".*"), key (\d+) (".*")')
_STAYS = re.compile(rf"^{LESS_THIS_MODEL}$|^with .* off|{_CELL.pattern}")

_SHORTER: tuple[tuple[int, str | re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (WORDS, r"\blayer (\d+)", r"L\1"),
    (WORDS, _CELL, r"q \1 \2 k \3 \4"),
    (WORDS, r'\bq (\d+) ".*" k (\d+) ".*"', r"q \1 k \2"),
    (WORDS, r"\bnot the (?:mean|rollout): (?=q \d)", ""),
    (WORDS, f"^{LESS_THIS_MODEL}$", "other less this"),
    (WORDS, r"^with (\d+ heads off.*?): .* …", r"\1"),
    (WORDS, r"^with (.* off)", r"\1"),
    (WORDS, r"(?<= off) by (?:its|their) mean", " by mean"),
    (WORDS, " less with all on$", " less all on"),
    (BRIEF, r"^((?:\S+ )?L\d+), mean over heads$", r"mean of \1"),
    (BRIEF, r"^((?:\S+ )?H\d+), mean over layers$", r"mean of \1"),
    (BRIEF, r"^((?:\S+ )?)mean over layers and heads$", r"\1mean of all"),
    (BRIEF, r"^(\d+) heads off( by mean)?", r"\1 off"),
    (BRIEF, r"^((?:\S+\.)?L\d+H\d+(?:, \S+)*) off( by mean)?", lambda match: f"{match[1].count(',') + 1} off"),
    (LAST, "^other less this$", "other−this"),
    (LAST, r"^(\d+ off) less all on$", r"\1−on"),
    (LAST, r"^((?:\S+ )?)mean of all$", r"\1mean"),
    (LAST, r"^\S+ (?=L\d)", ""),
)
"""How soon words give way to fewer: names and cells first, at last their signs alone."""
