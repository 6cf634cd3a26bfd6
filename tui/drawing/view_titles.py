"""The title of a view in the cells that there are: what gives way first, and what last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from rich.cells import cell_len, set_cell_size
from rich.text import Span, Text

from tui.drawing.title_words import (
    CELL,
    LESS_THIS_MODEL,
    MEAN_OF_ALL,
    MEANS,
    OFF,
    SHORTER,
    is_less,
    off_counted,
    off_in_few_words,
    shorter,
    with_minus,
)

COMPUTING = "computing …"
"""How far a view is of which nothing more is known."""

WORTH_SEEING = 10
"""Cells of a title's last part, with the blanks before it, below which it is left out."""

_GAP = re.compile(r" {2,}| · |, (?=ε )| (?=\(energy ε )")
"""What stands between two parts of a title."""

_NAME = re.compile(r"\bL\d+(?:H\d+)?\b|\blayer \d+")
"""The name of a head or a layer in a title."""

_NUMBER = re.compile(r"\d[\d.e+-]*")

STAYS, COUNT, FILTER, FACT = range(4)
"""How soon parts give way: those with the highest number first."""


@dataclass(frozen=True)
class _Part:
    """A part of a title.

    Attributes
    ----------
    text : what it says.
    gap : what stands between it and the part before, if there is one.
    yields : how soon it gives way.
    is_state : whether it is the view's state.
    """

    text: Text
    gap: Text
    yields: int = STAYS
    is_state: bool = False


@dataclass(frozen=True)
class ViewTitle:
    """What stands over a view.

    Attributes
    ----------
    text : the view's name, bold, and behind it the parts of what is shown, the most telling first. The first stays with
        the name, unless two blanks are between them.
    state : how far the view is, or which of several things it shows, in many words and in fewer; at last none, where
        it can be missed.
    count, words : how many rows a filter leaves, and the filter.
    hints : what is said besides where there is room for all else, in many words and in fewer.
    """

    text: Text = field(default_factory=Text)
    state: Sequence[str] = ()
    count: str = ""
    words: str = ""
    hints: Sequence[str] = ()

    def within(self, width: int) -> Text:
        """Write as much as there is room for; of a width of 0 nothing is known.

        Hints give way first, then words of which there are fewer, parts from the last one on, words of the state, and
        all of the filter but its first words, or how many rows it leaves, before which the state goes if it can. The
        view's name, its state and the name of the head are left at last; of these the view's gives way, where the
        others would not be seen. No part of a number is left that could be taken for the number.

        Examples
        --------
        >>> title = ViewTitle(Text.assemble(("ranks ", "bold"), "layer 3  energy rank, ε 0.01"))
        >>> [title.within(width).plain for width in (36, 32, 16)]
        ['ranks layer 3  energy rank, ε 0.01', 'ranks L3  energy rank, ε 0.01', 'ranks L3']
        >>> title = ViewTitle(Text.assemble(("lens ", "bold"), "  chance 0.1"), ("computing … heads", "computing …"))
        >>> [title.within(width).plain for width in (34, 33, 16)]
        ['lens computing … heads  chance 0.1', 'lens computing … heads', 'lens computing …']
        """
        name, parts = self._taken_apart()
        whole = _joined(name, parts)
        for hint in self.hints:
            if width and (line := Text.assemble(whole, f"  {hint}")).cell_len <= width:
                return line
        before, line = parts, whole
        for fewer, is_named in self._steps(parts):
            begin = name if is_named else Text()
            line = _joined(begin, fewer)
            if not width or line.cell_len <= width:
                if not before or before[:-1] != fewer:
                    return line
                longer = _joined(begin, before)
                if before[-1].yields == FILTER:
                    longer = _before_a_number(longer, width)
                return longer if _is_worth_seeing(line, longer, width) else line
            before = fewer
        return _last(name, line, width)

    def _taken_apart(self) -> tuple[Text, list[_Part]]:
        """Give the view's name, and the parts in the order in which they stand."""
        end = next((span.end for span in self.text.spans if span.start == 0 and span.style == "bold"), 0)
        name, rest = self.text[:end], self.text[end:]
        cell = CELL.search(rest.plain)
        inside = range(*cell.span()) if cell is not None else range(0)
        parts, gap, start = list[_Part](), Text(), 0
        for match in (*(each for each in _GAP.finditer(rest.plain) if each.start() not in inside), None):
            said = rest[start : len(rest.plain) if match is None else match.start()]
            said.rstrip()
            if said.plain:
                stays = (
                    not gap.plain or said.plain == LESS_THIS_MODEL or OFF.match(said.plain) or CELL.search(said.plain)
                )
                parts.append(_Part(said, gap, STAYS if stays else FACT))
            gap, start = (rest[match.start() : match.end()], match.end()) if match is not None else (gap, 0)
        if self.state:
            place = 1 if parts and parts[0].yields == STAYS else 0
            parts.insert(place, _Part(Text(self.state[0]), Text("  "), is_state=True))
        behind = ((self.count, COUNT), (self.words, FILTER))
        parts += (_Part(Text(each), Text("  "), yields) for each, yields in behind if each)
        return name, parts

    def _steps(self, parts: list[_Part]) -> Iterator[tuple[list[_Part], bool]]:
        """Yield the parts, each time with one thing less, and whether the view's name is before them."""
        yield parts, True
        for pattern, words in SHORTER:
            yield (parts := _said(parts, partial(shorter, pattern, words))), True
        yield (parts := _said(parts, off_in_few_words)), True
        while (soonest := _soonest(parts)) == FACT:
            yield (parts := _without_the_last(soonest, parts)), True
        for state in filter(None, self.state[1:]):
            yield (parts := _with_state(parts, state)), True
        if self.words:
            yield from self._with_a_filter(parts)
        if self.state and not self.state[-1]:
            yield (parts := _with_state(parts, "")), True
        parts = [_in_few_words(each) for each in parts]
        while soonest := _soonest(parts):
            yield (parts := _without_the_last(soonest, parts)), True
        for pattern, words in MEANS:
            parts = _said(parts, partial(shorter, pattern, words))
        yield (parts := _said(parts, off_counted)), True
        if any(is_less(each.text) for each in parts):
            yield parts, False
            yield (parts := _said(parts, with_minus)), True
            yield parts, False
            yield _said(parts, partial(shorter, *MEAN_OF_ALL)), False

    def _with_a_filter(self, parts: list[_Part]) -> Iterator[tuple[list[_Part], bool]]:
        """Yield parts that say that a filter holds: its first words, or how many rows it leaves, in the end no view."""
        yield _without_the_last(FILTER, parts), True
        parts = [_in_few_words(each) for each in parts]
        is_of_head = not parts[0].gap and _NAME.search(parts[0].text.plain) is not None
        for is_named in (True, False)[: 1 + is_of_head]:
            yield parts, is_named
            yield (counted := _without_the_last(FILTER, parts)), is_named
        if is_of_head and self.state and not self.state[-1]:
            yield sorted(counted, key=lambda part: part.is_state), False
            yield _with_state(counted, ""), False


def _joined(name: Text, parts: Sequence[_Part]) -> Text:
    """Put parts behind the view's name."""
    line = name.copy()
    if not parts:
        line.rstrip()
    for place, part in enumerate(parts):
        line.append_text(part.gap if place else Text()).append_text(part.text)
    spans = list[Span]()
    for span in line.spans:  # a gap is of one piece with what is behind it, as it was
        is_on = bool(spans) and spans[-1].end == span.start and spans[-1].style == span.style
        spans[-1:] = [Span(spans[-1].start, span.end, span.style)] if is_on else [*spans[-1:], span]
    line.spans = spans
    return line


def _said(parts: Sequence[_Part], in_words: Callable[[Text], Text]) -> list[_Part]:
    """Say what parts say in other words."""
    return [replace(each, text=in_words(each.text)) for each in parts]


def _soonest(parts: Sequence[_Part]) -> int:
    """Say how soon those of the parts give way that do before all others."""
    return max((each.yields for each in parts), default=STAYS)


def _with_state(parts: Sequence[_Part], state: str) -> list[_Part]:
    """Say the view's state in other words, or not at all."""
    said = (replace(each, text=Text(state)) if each.is_state else each for each in parts)
    return [each for each in said if each.text.plain]


def _in_few_words(part: _Part) -> _Part:
    """Say in few words how many rows a filter leaves."""
    match = re.match(r"(\d+) of (\d+)", part.text.plain) if part.yields == COUNT else None
    return part if match is None else replace(part, text=Text(f"{match[1]}/{match[2]}"))


def _without_the_last(soonest: int, parts: list[_Part]) -> list[_Part]:
    """Leave out the last of the parts that give way so soon."""
    last = max(place for place, each in enumerate(parts) if each.yields == soonest)
    return parts[:last] + parts[last + 1 :]


def _is_worth_seeing(line: Text, longer: Text, width: int) -> bool:
    """Say whether enough would be seen of a last part that does not fit, and no part of a number."""
    seen = len(set_cell_size(longer.plain, width - 1))
    return min(width, longer.cell_len) - line.cell_len >= WORTH_SEEING and not _divided(longer, seen)


def _before_a_number(line: Text, width: int) -> Text:
    """Cut a line before the number of which only a part would be seen, if there is one."""
    divided = _divided(line, len(set_cell_size(line.plain, width - 1)))
    return line if divided is None else Text.assemble(line[: divided.start()], "…")


def _divided(line: Text, seen: int) -> re.Match[str] | None:
    """Find the number of which only a part is among the characters that are seen."""
    return next((each for each in _NUMBER.finditer(line.plain) if each.start() < seen < each.end()), None)


def _last(name: Text, line: Text, width: int) -> Text:
    """Leave out what of the view's name lets all the rest be seen, or words before a head's name that is not."""
    for begin in (name.plain.rstrip().rfind(" ") + 1, len(name.plain)):
        if begin < len(line.plain) and (rest := line[begin:]).cell_len <= width:
            return rest
    line = _with_the_name(line, width)
    cut = _divided(line, len(set_cell_size(line.plain, width - 1))) if line.cell_len > width else None
    return line if cut is None else Text.assemble(line[: cut.start()], "…")


def _with_the_name(title: Text, width: int) -> Text:
    """Leave out as many words before a head's name as keep it from being seen; a sign that stands before them stays."""
    said = title.plain
    match = _NAME.search(said.partition("  ")[0])
    if match is None:
        return title
    room = width - (match.end() < len(said))  # behind the name there is a sign that more follows
    sign = 2 if re.match(r"[^\w\s] ", said) else 0
    begins = (sign, *(space.end() for space in re.compile(" ").finditer(said, sign, match.start())))
    begin = next((at for at in begins if sign + cell_len(said[at : match.end()]) <= room), match.start())
    return title if begin == sign else Text.assemble(title[:sign], title[begin:])
