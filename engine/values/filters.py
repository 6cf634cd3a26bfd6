"""Conditions on a table's rows: SQL for Polars, in which quotes may be left out.

`parse_filter` writes a condition out for Polars:

- Columns are quoted, so that none is taken for a word of SQL. ``chance`` after a measure is its column of chance.
- A word or number compared with a column of text becomes a text; without quotes, case and blanks at its ends are
  ignored. Compared by size, such a column counts as a number: ``head > 3``.
- ``contains`` searches one column, and a word by itself every column of text. The name of a head or layer (``L1H0``,
  ``L1``) finds its rows, by itself and after ``layer =`` and ``head =``.
- ``0.2 < x <= 0.3`` is both comparisons; ``x = ""`` is ``x IS NULL``.

Polars is imported when the first condition is read, which is after the first frame is on screen.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from engine.values.display_text import visible
from engine.values.errors import EngineError
from engine.values.heads import SHORT_LABELS
from engine.values.table import CHANCE, TEXTS, Kind, Row, kind_of

if TYPE_CHECKING:
    import polars

MOST_TOKENS = 1000
"""The most words and signs of a condition."""

SHOWN_CHARACTERS = 40
"""The most characters of a word in a message."""

CONTAINS = "contains"
MIRRORED_SIGNS = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}
"""The comparisons of SQL, and their mirror images."""

SIGNS = {sign: sign for sign in MIRRORED_SIGNS} | {"==": "=", "!=": "<>"}
JOINING_WORDS = {"and", "or", "not"}
_SQL = {*JOINING_WORDS, CONTAINS, "in", "between", "like", "ilike", "is", "null", "true", "false", *"+-*/%"}
"""Words of the language; in quotes they are texts."""

HEAD_COLUMNS = (("layer", "head"), ("from_layer", "from_head"))
"""Pairs of columns that name a head: the row's own, and the one that feeds it."""

WORDED_COLUMN = "layer"
"""The column of whole numbers in which some cells are words, such as ``mean`` and ``embedding``."""

_LONG_LABELS = {short: label for label, short in SHORT_LABELS.items()}

_TOKEN = re.compile(
    r"""\s*(?:(?P<sign><=|>=|==|!=|<>|[<>=(),])|(?P<quoted>"[^"]*"|'(?:[^']|'')*')|(?P<word>[^\s<>=(),!"']+))"""
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf", re.IGNORECASE)
_NAME = re.compile(r"(?:(?P<stack>[a-z-]+)\.)?(?=[lh]\d)(?:l(?P<layer>\d{1,9}))?(?:h(?P<head>\d{1,9}))?", re.IGNORECASE)


class FilterError(EngineError):
    """A condition cannot be read."""


@dataclass(frozen=True)
class Filter:
    """A condition on the rows of a table.

    Attributes
    ----------
    text : as typed.
    names : the table's columns.
    sql : as Polars reads it; empty keeps every row.
    columns : the columns that it compares.
    """

    text: str
    names: tuple[str, ...] = ()
    sql: str = ""
    columns: frozenset[str] = frozenset()

    @cached_property
    def input_columns(self) -> tuple[str, ...]:
        """The columns that it reads: those it compares, and every text that a word is searched in."""
        return tuple(name for name in self.names if f'"{name}"' in self.sql) or self.names[:1]

    def matches(self, rows: Sequence[Row]) -> Sequence[int]:
        """List the numbers of the rows that it keeps."""
        from engine.values.table import Table

        if not self.sql:
            return range(len(rows))
        places = [self.names.index(name) for name in self.input_columns]
        cells = ([row[place] for place in places] for row in rows)
        return self._kept(Table.of_rows("", self.input_columns, cells).frame)

    def rows_of(self, frame: polars.DataFrame) -> polars.DataFrame:
        """Select the rows that it keeps."""
        return frame[self._kept(frame.select(self.input_columns))] if self.sql else frame

    def _kept(self, frame: polars.DataFrame) -> list[int]:
        import polars

        types = {Kind.WHOLE: polars.Int64, Kind.NUMBER: polars.Float64}
        kinds = {name: Kind.TEXT if name == WORDED_COLUMN else kind_of(name) for name in frame.columns}
        typed = frame.cast({name: types.get(kind, polars.String()) for name, kind in kinds.items()}, strict=False)
        condition = polars.sql_expr(f"({self.sql})")  # without parentheses, Polars ignores what follows a condition
        return typed.with_row_index("row number").filter(condition)["row number"].to_list()


def parse_filter(text: str, columns: Sequence[str]) -> Filter:
    """Read a condition on a table with these columns; an empty one keeps every row.

    Raises `FilterError` if it cannot be read, saying what is wrong and where.

    Examples
    --------
    >>> rows = [("0", 0.9), ("1", 0.1), ("2", None)]
    >>> parse_filter("copying > 0.5 or head = 1", ("head", "copying")).matches(rows)
    [0, 1]
    """
    writer = _Writer(text, columns)
    found = Filter(text, tuple(columns), writer.sql(), frozenset(writer.compared))
    if found.sql:
        import polars

        try:
            found.matches(())
        except polars.exceptions.PolarsError as error:
            said = str(error).partition("\n")[0].replace("filter predicate must be", "a condition must be")
            if said.startswith("unable to"):  # it repeats the SQL, which nobody typed
                said = writer.advice()
            raise FilterError(f"it cannot be read: {said}") from error
    return found


class _Token(NamedTuple):
    text: str
    place: int
    kind: str

    @property
    def is_quoted(self) -> bool:
        return self.kind == "quoted"

    @property
    def word(self) -> str:
        """The word in lower case; empty if it is quoted."""
        return "" if self.is_quoted else self.text.lower()

    @property
    def number(self) -> str:
        """The number in SQL; empty if it is none."""
        if not _NUMBER.fullmatch(self.text):
            return ""
        is_plain = self.text.isdecimal() and len(self.text) < 19
        return self.text if is_plain else f"CAST('{self.text}' AS DOUBLE)"  # SQL knows no 1e-3, and .5 is a decimal

    @property
    def is_operand(self) -> bool:
        return self.kind in ("word", "quoted") and self.word not in _SQL


def _tokens(text: str) -> Iterator[_Token]:
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            wrong = place + len(text[place:]) - len(text[place:].lstrip())
            is_quote = text[wrong] in "\"'"
            said = "does not end" if is_quote else "means nothing here; != is 'is not'"
            raise FilterError(f"{'the quote' if is_quote else repr(text[wrong])} at character {wrong + 1} {said}")
        kind, word = match.lastgroup or "", match[match.lastgroup or ""]
        if kind == "quoted":
            word = word[1:-1].replace("''", "'") if word[0] == "'" else word[1:-1]
        yield _Token(visible(word), match.start(kind), kind)  # escaped as in tables
        place = match.end()
    yield _Token("", end, "end")


class _Writer:
    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self._tokens = tuple(_tokens(text))
        self._columns = tuple(columns)
        self.compared: set[str] = set()

    def sql(self) -> str:
        """Write the condition out; Polars judges its grammar."""
        if len(self._tokens) > MOST_TOKENS:
            raise FilterError(f"it has more than {MOST_TOKENS} words")
        written: list[str] = []
        place, begins, is_between, is_text = 0, True, False, False
        while (token := self._tokens[place]).kind != "end":
            is_function = token.is_operand and not token.is_quoted and self._tokens[place + 1].text == "("
            count = self._clause_length(place) if begins and not is_function else 0
            place += count or 1
            if count:
                written.append(self._clause(self._tokens[place - count : place]))
                begins = False
                continue
            if not token.is_operand or is_function:
                written.append(token.word.upper())
            elif is_text and not begins and not self._column(token):
                written.append(_quoted(token.text))
            else:
                written.append(self._operand(token))
                is_text = kind_of(self._column(token)) in TEXTS
            if token.word != "(":
                begins = token.word in JOINING_WORDS and not is_between
                is_between = token.word == "between" or (is_between and token.word != "and")
        return " ".join(written)

    def advice(self) -> str:
        """Say how to mend a condition that Polars cannot read."""
        last = self._tokens[-2]
        if not last.is_operand and last.word != ")":
            return f"something is missing after '{last.text}'"
        return "compare as in x > 0.5, with 'and' or 'or' between two comparisons, and close what you open"

    def _clause_length(self, place: int) -> int:
        """Count the tokens of a single word, or of operands and the signs between them; 0 for anything else."""
        end = place
        while self._tokens[end].is_operand:
            end += 1
            if self._tokens[end].word not in {*SIGNS, CONTAINS}:
                return end - place if self._tokens[end].word in ("", ")", "and", "or") else 0
            end += 1
        return 0

    def _clause(self, tokens: Sequence[_Token]) -> str:
        if len(tokens) == 1:
            return self._search(tokens[0])
        if not any(map(self._column, tokens)):
            raise self._unknown_error(tokens[0], "column")
        return f"({' AND '.join(map(self._relation, tokens[::2], tokens[1::2], tokens[2::2]))})"

    def _column(self, token: _Token) -> str:
        names = () if token.is_quoted else (token.text, token.word)
        return next((name for name in names if name in self._columns), "")

    def _named(self, column: str) -> str:
        self.compared.add(column)
        return f'"{column}"'

    def _sized(self, column: str) -> str:
        named = self._named(column)
        return f"TRY_CAST({named} AS DOUBLE)" if kind_of(column) in TEXTS or column == WORDED_COLUMN else named

    def _unknown_error(self, token: _Token, what: str = "column or number") -> FilterError:
        alike = difflib.get_close_matches(token.text[:80], self._columns, 1)
        if not alike and len(token.word) > 1:
            alike = [name for name in self._columns if token.word in name and not name.endswith(CHANCE)][:3]
        meant = f"; did you mean {', '.join(alike)}?" if alike else ""
        shown = token.text if len(token.text) <= SHOWN_CHARACTERS else f"{token.text[:SHOWN_CHARACTERS]}…"
        return FilterError(f"no {what} '{shown}'{meant}")

    def _operand(self, token: _Token) -> str:
        if column := self._column(token):
            return self._sized(column) if column == WORDED_COLUMN else self._named(column)
        if token.number or token.is_quoted:
            return token.number or _quoted(token.text)
        raise self._unknown_error(token)

    def _relation(self, left: _Token, sign: _Token, right: _Token) -> str:
        column = self._column(left)
        if sign.word == CONTAINS:
            if not column:
                raise self._unknown_error(left, "column")
            return _contains(f"CAST({self._named(column)} AS VARCHAR)", _text_in(column, right))
        operator = SIGNS[sign.text]
        if not column:
            column, operator, right = self._column(right), MIRRORED_SIGNS[operator], left
        kind, other, number = kind_of(column), self._column(right), right.number
        if right.word == CHANCE.lstrip("_") and not other and f"{column}{CHANCE}" in self._columns:
            other = f"{column}{CHANCE}"
        if operator not in ("=", "<>"):
            if not other and not number:
                raise self._unknown_error(right)
            return f"{self._sized(column)} {operator} {self._sized(other) if other else number}"
        named, no = self._named(column), "NOT " if operator == "<>" else ""
        if not right.text:
            return f"{no}({named} IS NULL)" if kind is not Kind.TOKEN else f"{named} {operator} ''"
        for pair in HEAD_COLUMNS:
            if column in pair and (name := _NAME.fullmatch(right.text)) and (head := self._head_sql(name, [pair])):
                return f"{no}{head}"
        if kind not in TEXTS and (other or number):
            return f"{self._sized(column)} {operator} {self._sized(other) if other else number}"
        if kind not in TEXTS and column != WORDED_COLUMN:
            raise self._unknown_error(right)
        if right.is_quoted:
            return f"{named} {operator} {_quoted(right.text)}"
        return f"LOWER(TRIM({named})) {operator} {_quoted(_text_in(column, right).lower())}"

    def _head_sql(self, name: re.Match[str], pairs: Sequence[tuple[str, str]]) -> str:
        """Write that a row belongs to a head or layer, or is fed by it; empty if the table has no such columns."""
        stack, layer, head = name["stack"], name["layer"], name["head"]
        if "name" in self._columns and not stack and head is None:
            return f"""REGEXP_LIKE("name", '^([^.]*[^.0-9][^.]*[.]|[.])*0*{int(layer)}([.]|$)')"""
        if stack and "stack" not in self._columns:
            return ""
        either = []
        for pair in pairs:
            parts = {column: part for column, part in zip(pair, (layer, head), strict=True) if part is not None}
            if parts.keys() <= set(self._columns):
                of_one = [f"""CAST("{column}" AS VARCHAR) = '{int(part)}'""" for column, part in parts.items()]
                either.append(f"({' AND '.join(of_one)})")
        of_stack = f'LOWER("stack") = {_quoted(stack.lower())} AND ' if stack else ""
        return f"({of_stack}({' OR '.join(either)}))" if either else ""

    def _search(self, token: _Token) -> str:
        if self._column(token):
            raise FilterError(f"{token.text} is a column; compare it, {token.text} > 0, or quote it")
        found = [_contains(f'"{name}"', _text_in(name, token)) for name in self._columns if kind_of(name) in TEXTS]
        if (name := _NAME.fullmatch(token.text)) and (head := self._head_sql(name, HEAD_COLUMNS)):
            found.append(head)
        return f"({' OR '.join(f'COALESCE({each}, FALSE)' for each in found) or 'FALSE'})"


def _text_in(column: str, token: _Token) -> str:
    return _LONG_LABELS.get(token.word, token.text) if column == "label" else token.text


def _contains(sql: str, text: str) -> str:
    return f"REGEXP_LIKE({sql}, {_quoted('(?i)' + re.escape(text))})"  # STRPOS reads patterns, too


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
