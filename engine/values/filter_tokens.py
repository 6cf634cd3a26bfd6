"""What the words, texts and signs of a filter are, before anything is known of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.values.errors import EngineError
from engine.values.escapes import visible

LONGEST = 40
"""Characters of a word that a message repeats."""

_TOKEN = re.compile(r"""\s*(?:(?P<sign><=|>=|==|!=|[<>=()])|(?P<quoted>"[^"]*"|'[^']*')|(?P<word>[^\s<>=()!"']+))""")


class FilterError(EngineError):
    """What is wrong with a filter.

    Attributes
    ----------
    place : of the first character that does not fit, from 0.
    """

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a text in quotes, or a sign, and where it begins.

    Attributes
    ----------
    is_word : whether it is no column, though one is called so.
    """

    text: str
    place: int
    is_quoted: bool = False
    is_word: bool = False

    @property
    def shown(self) -> str:
        """What a message says of it: its beginning, and nothing that would do harm to a terminal."""
        clipped = self.text if len(self.text) <= LONGEST else f"{self.text[:LONGEST]}…"
        return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in clipped)

    @property
    def sign(self) -> str:
        """What it is in the language: in lower case, and nothing where it is in quotes."""
        return "" if self.is_quoted else self.text.lower()


def tokens(text: str) -> tuple[Token, ...]:
    """Cut a filter into words, texts and signs; what cannot be seen, such as a joiner, is written as tables write it.

    Raises
    ------
    FilterError : at a quote that does not end, or a sign that means nothing.
    """
    found: list[Token] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            wrong = place + len(text[place:]) - len(text[place:].lstrip())
            if text[wrong] in "\"'":
                raise FilterError(f"the quote at {wrong + 1} does not end", wrong)
            raise FilterError(f"'{text[wrong]}' at {wrong + 1} means nothing here; != is 'is not'", wrong)
        kind = match.lastgroup or ""
        word = match[kind]
        is_quoted = kind == "quoted"
        text_meant = visible(word[1:-1] if is_quoted else word)
        found.append(Token(text_meant, match.start(kind), is_quoted))
        place = match.end()
    return tuple(found)
