"""Text in terminal cells, with any Unicode in it: escaped, cut, stacked, centred, broken into lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from unicodedata import category

from rich import get_console
from rich.cells import cell_len
from rich.text import Text

# Terminals disagree on how wide what these join or select is, and a row would slip. Without them an emoji sequence is
# its parts, one after the other, and all agree.
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}

ROOM = "\u2800"
"""A blank that keeps a cell free after a spacing mark, such as a vowel sign of Devanagari.

Textual counts no cell for such a mark, most terminals one (tmux, xterm), others none. With this blank all agree.
"""

_SPACING = "Mc"
"""Unicode's category of spacing marks."""


def first_fitting(width: int, *texts: str) -> str:
    """Return the first text that fits into some cells, or else the last; a width of 0 is unlimited.

    Examples
    --------
    >>> first_fitting(6, "chance 0.5", "0.5"), first_fitting(0, "chance 0.5", "0.5"), first_fitting(2, "1.25", "1.3")
    ('0.5', 'chance 0.5', '1.3')
    """
    return next((text for text in texts if not width or cell_len(text) <= width), texts[-1])


def escape_text(text: str) -> str:
    r"""Escape whatever moves the cursor, changes colours or turns the writing direction; drop joiners.

    What is left are characters one or two cells wide, each with its combining marks and a blank for each spacing mark.
    A joiner or a skin tone with nothing before it is escaped as well.

    Examples
    --------
    >>> escape_text("\x1b[31m"), escape_text("\ufe0f"), escape_text("a\ufe0f")
    ('\\x1b[31m', '\\ufe0f', 'a')
    """
    kept: list[str] = []
    for character in text:
        kind = category(character)
        is_of_another = character in _JOINERS or (kind == "Sk" and not cell_len(character))
        if is_of_another and kept and not kept[-1].isspace():
            continue
        if is_of_another or kind in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            kept.append(character.encode("unicode_escape").decode("ascii"))
        elif cell_len(character) > 0:
            kept.append(character)
        else:  # a combining mark needs a base
            kept.append(character if kept else "◌" + character)
    shown = "".join(kept)
    if shown.isascii() or not any(category(each) == _SPACING for each in shown):
        return shown
    return "".join(_add_room(cluster) for cluster, _ in clusters(shown))


def quote_text(text: str) -> str:
    r"""Quote a text, so that its spaces show, and escape it.

    Examples
    --------
    >>> quote_text(" the"), quote_text("\t"), quote_text("it's")
    ("' the'", "'\\t'", '"it\'s"')
    """
    sign = '"' if "'" in text and '"' not in text else "'"
    return f"{sign}{escape_text(text)}{sign}"


def _add_room(cluster: str) -> str:
    return cluster if cluster.endswith(ROOM) else cluster + ROOM * sum(category(mark) == _SPACING for mark in cluster)


def label(token: str) -> str:
    """Shorten a token to its label: without the spaces around it, unless it has nothing else.

    Examples
    --------
    >>> label(" cat"), label("  "), label("")
    ('cat', '␣␣', '∅')
    """
    shown = escape_text(token)
    return shown.strip() or "␣" * cell_len(shown) or "∅"


def fit(text: str, width: int, *, align: Literal["left", "right"] = "left") -> str:
    """Pad escaped text with spaces, or cut it with an ellipsis, to exactly ``width`` cells.

    Examples
    --------
    >>> fit("tokens", 4), fit("ok", 4, align="right"), fit("日本語", 4)
    ('tok…', '  ok', '日… ')
    """
    if cell_len(text) > width:
        kept, used = "", 0
        for cluster, cells in clusters(text):
            if used + cells > width - 1:
                break
            kept, used = kept + cluster, used + cells
        text = kept + "…" if width > 0 else ""
    padding = " " * (width - cell_len(text))
    return padding + text if align == "right" else text + padding


def fit_end(text: str, width: int) -> str:
    """Bring escaped text to exactly ``width`` cells as `fit` does, but cut its beginning.

    Examples
    --------
    >>> fit_end("layers.0.mlp", 8), fit_end("ok", 4)
    ('…s.0.mlp', 'ok  ')
    """
    if cell_len(text) <= width or width <= 0:
        return fit(text, width)
    kept, used = "", 1
    for cluster, cells in reversed(list(clusters(text))):
        if used + cells > width:
            break
        kept, used = cluster + kept, used + cells
    return fit("…" + kept, width)


def stack_text(text: str, height: int, width: int) -> list[str]:
    """Break escaped text into lines of ``width`` cells, of which the last ``height`` are filled.

    Text that is too long loses its end, with an ellipsis if there is room for more than two characters.

    Examples
    --------
    >>> stack_text("ab", 2, 2), stack_text("gives", 2, 2), stack_text("gives", 1, 2), stack_text("日本", 2, 3)
    (['  ', 'ab'], ['gi', 'v…'], ['gi'], ['日 ', '本 '])
    """
    lines, taken = [""], 0
    for cluster, cells in clusters(text):
        if taken + cells > width:
            lines.append("")
            taken = 0
        lines[-1], taken = lines[-1] + cluster, taken + cells
    if len(lines) > height and height * width > 2:
        lines[height - 1] += lines[height]
    lines = [fit(line, width) for line in lines[:height]]
    return [" " * width] * (height - len(lines)) + lines


def write_apart(labels: Iterable[tuple[int, str]], width: int) -> tuple[str, range]:
    """Write labels into a line, each from its place on, but none that would touch one before it in the order.

    One that would reach beyond the end of the line starts earlier.

    Returns
    -------
    line : of ``width`` characters.
    first : where in it the first label is.

    Examples
    --------
    >>> write_apart([(3, "30"), (0, "10"), (2, "20"), (9, "100")], 10)
    ('10 30  100', range(3, 5))
    """
    line, first = " " * width, range(0)
    for place, text in labels:
        start = max(min(place, width - len(text)), 0)
        end = start + len(text)
        if not line[max(start - 1, 0) : end + 1].strip():
            line, first = line[:start] + text + line[end:], first or range(start, end)
    return line[:width], first


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield each character of escaped text with its combining marks, and its cells.

    Examples
    --------
    >>> [(len(cluster), cells) for cluster, cells in clusters(escape_text("हिन"))]
    [(3, 2), (1, 1)]
    """
    cluster, cells = "", 0
    for character in text:
        wide = cell_len(character)
        if wide > 0 and cluster and not (character == ROOM and any(category(each) == _SPACING for each in cluster)):
            yield cluster, cells
            cluster, cells = "", 0
        cluster, cells = cluster + character, cells + wide
    if cluster:
        yield cluster, cells


def centre_text(text: str, width: int, height: int) -> list[str]:
    r"""Break escaped text between words and at newlines, and centre it in ``width`` by ``height`` cells.

    Examples
    --------
    >>> centre_text("press i", 6, 4)
    ['      ', 'press ', '  i   ', '      ']
    >>> centre_text("a b\nc", 3, 2)
    ['a b', ' c ']
    """
    wrapped = Text(text).wrap(get_console(), width, justify="center", overflow="ellipsis")
    lines = [fit(line.plain, width) for line in wrapped[:height]]
    above, blank = (height - len(lines)) // 2, " " * width
    return [blank] * above + lines + [blank] * (height - above - len(lines))


@dataclass(frozen=True, slots=True)
class Piece:
    """A token on a line, or part of a token longer than a line.

    Attributes
    ----------
    token : number of the token.
    text : what is on this line.
    x, width : its first cell, and its cells without the gap after it.
    ends : whether the token ends here, so that a gap follows.
    """

    token: int
    text: str
    x: int
    width: int
    ends: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """Tokens broken into lines.

    Attributes
    ----------
    lines : pieces of each.
    begins : by token, its first line.
    """

    lines: tuple[tuple[Piece, ...], ...]
    begins: tuple[int, ...]

    def token_at(self, x: int, y: int) -> int | None:
        """Return the token at a cell; a gap belongs to the token before it."""
        if not 0 <= y < len(self.lines):
            return None
        line = self.lines[y]
        return next((piece.token for piece in reversed(line) if piece.x <= x), None)

    def step(self, token: int, down: int) -> int:
        """Return the nearest token some lines below or above; at an edge the same token."""
        begin = self.begins[token]
        y = min(max(begin + down, 0), len(self.lines) - 1)
        if y == begin:
            return token
        middle = next(piece.x + piece.width / 2 for piece in self.lines[begin] if piece.token == token)
        return min(self.lines[y], key=lambda piece: abs(piece.x + piece.width / 2 - middle)).token


@lru_cache(maxsize=4)
def flow(labels: tuple[str, ...], width: int, gap: int) -> Flow:
    """Break tokens into lines of ``width`` cells; a token longer than a line is broken.

    Parameters
    ----------
    labels : escaped text of each token.
    gap : free cells after each.

    Examples
    --------
    >>> [[piece.text for piece in line] for line in flow(("The", " cat", " sat"), 9, 1).lines]
    [['The', ' cat'], [' sat']]
    """
    width = max(width, gap + 2)
    lines: list[list[Piece]] = [[]]
    begins: list[int] = []
    x = 0
    for token, label in enumerate(labels):
        wide = cell_len(label)
        if x and x + wide + gap > width:
            lines.append([])
            x = 0
        begins.append(len(lines) - 1)
        if wide + gap <= width:
            lines[-1].append(Piece(token, label, x, wide, ends=True))
            x += wide + gap
            continue
        part, used = "", 0
        for cluster, cells in clusters(label):
            if used + cells + gap > width:
                lines[-1].append(Piece(token, part, 0, used, ends=False))
                lines.append([])
                part, used = "", 0
            part, used = part + cluster, used + cells
        lines[-1].append(Piece(token, part, 0, used, ends=True))
        x = used + gap
    return Flow(tuple(map(tuple, lines)), tuple(begins))
