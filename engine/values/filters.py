"""Conditions on a table's rows: SQL, read by Polars, in which a person may leave quotes out.

Before Polars reads a condition, `parse_filter` writes it out:

- A column is quoted, so that none is taken for a word of SQL. ``chance`` behind a measure is its column of chance.
- A word or number that is compared with a column of text becomes a text. Without quotes, case and blanks at its ends do
  not count. Compared by size, such a column counts as a number: ``head > 3``.
- ``contains`` looks for a text in a column, and a word by itself in every column of text. The name of a head or layer
  (``L1H0``, ``L1``, ``"layer 1"``) finds its rows; behind ``layer`` and ``head`` it is a number.
- ``0.2 < x <= 0.3`` is both comparisons; ``x = ""`` is ``x IS NULL``.

Polars is imported when the first condition is read, which is after the first frame is on screen.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from engine.values.display_text import visible
from engine.values.errors import EngineError
from engine.values.table import CHANCE, TEXTS, Kind, Row, kind_of

if TYPE_CHECKING:
    import polars

DEEPEST = 40
"""Parentheses and ``not`` inside each other: the parser of Polars takes 50."""
LONGEST = 1000
"""Words and signs of a condition."""
SHOWN = 40
"""Characters of a word that a message repeats."""

ORDERS = {"<", "<=", ">", ">="}
EQUALS = {"=", "==", "!=", "<>"}
CONTAINS = "contains"
JOINING = {"and", "or", "not"}
"""Words that are part of the language; in quotes they are texts."""
PREDICATES = {"in", "between", "like", "ilike", "is"}
ARITHMETIC = {"+", "-", "*", "/", "%"}
_SQL = {*JOINING, *PREDICATES, *ARITHMETIC, CONTAINS, "null", "true", "false"}

NAMING = (("layer", "head"), ("from_layer", "from_head"))
"""Columns that name a head together: the row's own, and the one that feeds it."""
WORDED = {"layer"}
"""Columns of whole numbers of which some cells are words, as ``mean`` and ``embedding``."""
SHORT_LABELS = {"previous": "prev", "first": "1st", "duplicate": "dup", "induction": "ind"}
"""Labels as the tree writes them, which is narrow."""
_LONG_LABELS = {short: label for label, short in SHORT_LABELS.items()}

_TOKEN = re.compile(
    r"""\s*(?:(?P<sign><=|>=|==|!=|<>|[<>=(),])|(?P<quoted>"[^"]*"|'(?:[^']|'')*')|(?P<word>[^\s<>=(),!"']+))"""
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf", re.IGNORECASE)
_NAME = re.compile(
    r"(?:(?P<stack>[a-z][a-z-]*)[.: ]\s*)?(?:l(?:ayer)?\s*(?P<layer>\d{1,9}))?[\s,.]*"
    r"(?:h(?:ead)?\s*(?P<head>\d{1,9}))?",
    re.IGNORECASE,
)


class FilterError(EngineError):
    """What is wrong with a condition.

    Attributes
    ----------
    place : of the first character that does not fit, from 0.
    """

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class Filter:
    """A condition that fits a table.

    Attributes
    ----------
    text : as typed.
    names : the table's columns.
    sql : as Polars reads it; empty keeps every row.
    columns : those that it compares.
    """

    text: str
    names: tuple[str, ...] = ()
    sql: str = ""
    columns: frozenset[str] = frozenset()

    @cached_property
    def _expression(self) -> polars.Expr:
        import polars

        return polars.sql_expr(self.sql)

    @cached_property
    def read(self) -> tuple[str, ...]:
        """The columns that decide: those it compares, and every text that a word is searched in."""
        return tuple(name for name in self.names if f'"{name}"' in self.sql) or self.names[:1]

    def kept(self, rows: Sequence[Row]) -> Sequence[int]:
        """List the numbers of the rows of which it is true."""
        from engine.values.table import Table

        if not self.sql:
            return range(len(rows))
        places = [self.names.index(name) for name in self.read]
        return self._true(Table.of_rows("", self.read, ([row[place] for place in places] for row in rows)).frame)

    def rows_of(self, frame: polars.DataFrame) -> polars.DataFrame:
        """Take the rows of which it is true."""
        return frame[self._true(frame.select(self.read))] if self.sql else frame

    def _true(self, frame: polars.DataFrame) -> list[int]:
        """List the rows of which it is true; what is no number in a column of numbers is null."""
        import polars

        types = {Kind.WHOLE: polars.Int64, Kind.NUMBER: polars.Float64}
        kinds = {name: Kind.TEXT if name in WORDED else kind_of(name) for name in frame.columns}
        typed = frame.cast({name: types.get(kind, polars.String()) for name, kind in kinds.items()}, strict=False)
        return typed.with_row_index("row number").filter(self._expression)["row number"].to_list()


def parse_filter(text: str, columns: Sequence[str]) -> Filter:
    """Read a condition on a table with these columns; one without words keeps every row.

    Raises
    ------
    FilterError : where it cannot be read, saying what does not fit and where.

    Examples
    --------
    >>> rows = [("0", 0.9), ("1", 0.1), ("2", None)]
    >>> parse_filter("copying > 0.5 or head = 1", ("head", "copying")).kept(rows)
    [0, 1]
    """
    writer = _Writer(text, columns)
    found = Filter(text, tuple(columns), writer.sql(), frozenset(writer.compared))
    if found.sql:
        import polars

        try:
            found.kept(())
        except polars.exceptions.PolarsError as error:
            said = str(error).partition("\n")[0].replace("filter predicate must be", "a condition must be")
            raise FilterError(f"it cannot be read: {said}", len(text)) from error
    return found


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a text in quotes, or a sign, and where it begins."""

    text: str
    place: int
    kind: str

    @property
    def is_quoted(self) -> bool:
        return self.kind == "quoted"

    @property
    def shown(self) -> str:
        """What a message says of it: its beginning, and nothing that would do harm to a terminal."""
        clipped = self.text if len(self.text) <= SHOWN else f"{self.text[:SHOWN]}…"
        return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in clipped)

    @property
    def word(self) -> str:
        """What it is in the language: in lower case, and nothing where it is in quotes."""
        return "" if self.is_quoted else self.text.lower()

    @property
    def number(self) -> str:
        """The number that it is in SQL; nothing where it is none."""
        if not _NUMBER.fullmatch(self.text):
            return ""
        is_plain = self.text.isdecimal() and len(self.text) < 19
        return self.text if is_plain else f"CAST('{self.text}' AS DOUBLE)"  # else a decimal, or no word of SQL

    @property
    def is_operand(self) -> bool:
        return self.kind != "sign" and self.word not in _SQL


def _tokens(text: str) -> Iterator[_Token]:
    """Cut a condition into words, texts and signs; what cannot be seen is written as tables write it."""
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            wrong = place + len(text[place:]) - len(text[place:].lstrip())
            if text[wrong] in "\"'":
                raise FilterError(f"the quote at {wrong + 1} does not end", wrong)
            raise FilterError(f"'{text[wrong]}' at {wrong + 1} means nothing here; != is 'is not'", wrong)
        kind, word = match.lastgroup or "", match[match.lastgroup or ""]
        if kind == "quoted":
            word = word[1:-1].replace("''", "'") if word[0] == "'" else word[1:-1]
        yield _Token(visible(word), match.start(kind), kind)
        place = match.end()


def _wrong(token: _Token, said: str, before: str = "", behind: str = "") -> FilterError:
    return FilterError(f"{before}'{token.shown}' at {token.place + 1}{said}{behind}", token.place)


class _Writer:
    """Writes one condition as SQL, from the left to the right."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self._tokens = tuple(_tokens(text))
        self._columns = tuple(columns)
        self._end = len(text.rstrip())
        self._next = 0
        self.compared: set[str] = set()

    def sql(self) -> str:
        """Write all of it."""
        if len(self._tokens) > LONGEST:
            raise FilterError(f"it has more than {LONGEST} words", self._tokens[LONGEST].place)
        written: list[str] = []
        opened: list[bool] = []  # whether each parenthesis is that of a function
        nots = 0
        while (token := self._at()) is not None:
            begins = (not written or written[-1].lower() in {*JOINING, "("}) and not (opened and opened[-1])
            if begins and token.is_operand and self._word(1) != "(":
                written.append(self._comparison())
                continue
            if begins and token.word in ("and", "or", ")"):
                self._take("a column or a word")
            if token.word == "(":
                opened.append(bool(written) and written[-1].lower() not in {*_SQL, "("} and not begins)
            elif token.word == ")":
                if not opened:
                    raise _wrong(token, ": expected and, or, or the end")
                opened.pop()
            nots = nots + (token.word == "not") if token.word in ("not", "(") else 0
            if len(opened) + nots > DEEPEST:
                raise _wrong(token, " is nested too deeply")
            self._next += 1
            is_as_it_is = not token.is_operand or (self._word() == "(" and not token.is_quoted)
            written.append(token.word.upper() if is_as_it_is else self._operand(token))
        if opened or (written and self._tokens[-1].word in JOINING):
            expected = ") or more" if opened else "a column or a word"
            raise FilterError(f"it ends at {self._end + 1}: expected {expected}", self._end)
        return " ".join(written)

    def _at(self, ahead: int = 0) -> _Token | None:
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def _word(self, ahead: int = 0) -> str:
        token = self._at(ahead)
        return token.word if token is not None else ""

    def _comparison(self) -> str:
        """Write operands and what relates them, or a word by itself."""
        first = self._take("a column or a word")
        operands, operators = [first], list[_Token]()
        while self._word() in ORDERS | EQUALS | {CONTAINS} and "(" not in (self._word(1), self._word(2)):
            operators.append(self._take("an operator", is_operand=False))
            operands.append(self._take(f"what comes after {operators[-1].text}"))
        if self._word() in ARITHMETIC or self._word() in ORDERS | EQUALS:  # SQL reads it
            self._next -= 2 * len(operators)
            return self._operand(first)
        if operators:
            can_begin = first.is_quoted or first.number or self._column(first) or _head_named(first.text)
            if not any(map(self._column, operands)) or not can_begin:
                raise self._unknown(first, "column")
            relations = map(self._relation, operands, operators, operands[1:])
            sql = f"({' AND '.join(relations)})"
        elif self._word() in PREDICATES or (self._word() == "not" and self._word(1) in PREDICATES):
            sql = f"({self._predicate(first)})"
        else:
            sql = self._alone(first)
        token = self._at()
        if token is not None and token.word not in ("and", "or", ")"):
            raise _wrong(token, ": expected and, or, or the end")
        return sql

    def _predicate(self, first: _Token) -> str:
        """Write ``in (…)``, ``between … and …``, ``like …`` or ``is null``, and with ``not``, behind a column."""
        written, beside = [self._operand(first)], self._column(first)
        is_text = kind_of(beside) in TEXTS
        verb = ""
        while (token := self._at()) is not None and not (token.word in ("and", "or", ")") and verb != "between"):
            self._next += 1
            verb = token.word if token.word in PREDICATES else "" if token.word == "and" else verb
            if not token.is_operand:
                written.append(token.word.upper())
            else:
                written.append(_quoted(token.text) if is_text and not self._column(token) else self._operand(token))
        if verb == "in" and self._word() == ")":
            self._next += 1
            written.append(")")
        return " ".join(written)

    def _take(self, expected: str, *, is_operand: bool = True) -> _Token:
        """Go on over a word or a text, or over a sign."""
        token = self._at()
        if token is None:
            raise FilterError(f"it ends at {self._end + 1}: expected {expected}", self._end)
        if is_operand and not token.is_operand:
            quoted = f"; to mean the word, write '{token.shown}' in quotes" if token.word.isalpha() else ""
            raise _wrong(token, f": expected {expected}{quoted}")
        self._next += 1
        return token

    def _column(self, token: _Token) -> str:
        """Give the column that a word names; nothing where it names none."""
        names = () if token.is_quoted else (token.text, token.word)
        return next((name for name in names if name in self._columns), "")

    def _named(self, column: str) -> str:
        self.compared.add(column)
        return f'"{column}"'

    def _unknown(self, token: _Token, what: str = "column or number") -> FilterError:
        """Say that a word is no column, and which it may have meant."""
        alike = difflib.get_close_matches(token.text[:80], self._columns, 1)
        return _wrong(token, "", f"no {what} ", f"; did you mean {alike[0]}?" if alike else "")

    def _operand(self, token: _Token) -> str:
        """Write a column, a number or a text that no column stands beside."""
        if (column := self._column(token)) or token.number or token.is_quoted:
            if column in WORDED:
                return self._sized(column)
            return self._named(column) if column else token.number or _quoted(token.text)
        raise self._unknown(token)

    def _relation(self, left: _Token, sign: _Token, right: _Token) -> str:
        """Write a comparison of two operands."""
        column, other = self._column(left), self._column(right)
        if column and not other and right.word == CHANCE.lstrip("_") and f"{column}{CHANCE}" in self._columns:
            other = f"{column}{CHANCE}"
        if sign.word == CONTAINS:
            if not column:
                raise self._unknown(left, "column")
            text = _LONG_LABELS.get(right.word, right.text) if column == "label" else right.text
            return _holds(f"CAST({self._named(column)} AS VARCHAR)", text)
        is_equal = sign.word in EQUALS
        operator = {"==": "=", "!=": "<>"}.get(sign.text, sign.text)
        if column and other:
            kinds = kind_of(column), kind_of(other)
            if is_equal and kinds == (Kind.TEXT, Kind.TEXT):
                raise _wrong(right, " is a column, too; to mean the word, write it in quotes")
            if not (is_equal and kinds[0] in TEXTS and kinds != (Kind.TOKEN, Kind.TOKEN)):
                are_tokens = kinds == (Kind.TOKEN, Kind.TOKEN)
                names = [f"TRIM({self._named(each)})" if are_tokens else self._sized(each) for each in (column, other)]
                return f"{names[0]} {operator} {names[1]}"
        elif not column:
            column, right, left = other, left, right
            mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
            operator = mirrored.get(operator, operator)
        return self._against(column, operator, right, is_equal=is_equal)

    def _sized(self, column: str) -> str:
        named = self._named(column)
        return f"TRY_CAST({named} AS DOUBLE)" if kind_of(column) in TEXTS or column in WORDED else named

    def _against(self, column: str, operator: str, token: _Token, *, is_equal: bool) -> str:
        """Write the comparison of a column with what a word, text or number says."""
        kind, named, no = kind_of(column), self._named(column), "NOT " if operator == "<>" else ""
        if is_equal and not token.text:
            empty = f"{named} IS NULL" if kind is not Kind.TOKEN else f"{named} = ''"
            return f"{no}({empty})"
        pair = next((each for each in NAMING if column in each), None)
        name = None if pair is None else _head_named(token.text)
        if pair is not None and name is not None and not name["stack"] and None in (name["layer"], name["head"]):
            if (number := name["layer" if column == pair[0] else "head"]) is not None:
                token = _Token(str(int(number)), token.place, "word")
        elif pair is not None and name is not None and column == pair[1] and (found := self._of_head(name, [pair])):
            return f"{no}{found}"
        if is_equal and (kind in TEXTS or (column in WORDED and not token.number)):
            if token.is_quoted:
                return f"{named} {operator} {_quoted(token.text)}"
            text = _LONG_LABELS.get(token.word, token.word) if column == "label" else token.word
            return f"LOWER(TRIM({named})) {operator} {_quoted(text)}"
        if not token.number:
            raise self._unknown(token)
        return f"{self._sized(column)} {operator} {token.number}"

    def _of_head(self, name: re.Match[str], pairs: Sequence[tuple[str, str]]) -> str:
        """Write that a row is of a head or layer, or is fed by it; nothing where no column could say so."""
        stack, number, head = name["stack"], name["layer"], name["head"]
        fitting = [
            pair for pair in pairs
            if (number is None or pair[0] in self._columns) and (head is None or pair[1] in self._columns)
        ]  # fmt: skip
        if not fitting and "name" in self._columns and not stack and head is None and number is not None:
            return f"""REGEXP_LIKE("name", '^([^.]*[^.0-9][^.]*[.]|[.])*0*{int(number)}([.]|$)')"""
        if not fitting or (stack and "stack" not in self._columns):
            return ""
        either = []
        for pair in fitting:
            of = zip(pair, (number, head), strict=True)
            both = [f"""CAST("{column}" AS VARCHAR) = '{int(part)}'""" for column, part in of if part is not None]
            either.append(" AND ".join(both))
        of_stack = f'LOWER("stack") = {_quoted(stack.lower())} AND ' if stack else ""
        return f"({of_stack}(({') OR ('.join(either)})))"

    def _alone(self, token: _Token) -> str:
        """Look for a word in every text of a row; a head's or layer's name finds its rows too."""
        if self._column(token):
            raise FilterError(f"{token.text} is a column; compare it, {token.text} > 0, or quote it", token.place)
        texts = [_holds(f'"{name}"', token.text) for name in self._columns if kind_of(name) in TEXTS]
        if "label" in self._columns and token.word in _LONG_LABELS:
            texts.append(f"\"label\" = '{_LONG_LABELS[token.word]}'")
        name = _head_named(token.text)
        texts += filter(None, [name and self._of_head(name, NAMING)])
        return f"({' OR '.join(f'COALESCE({each}, FALSE)' for each in texts) or 'FALSE'})"


def _head_named(text: str) -> re.Match[str] | None:
    """Read ``L1H0``, ``L1``, ``H0``, ``layer 1 head 0`` or ``decoder.L1H0`` as stack, layer and head.

    Examples
    --------
    >>> _head_named("decoder.l1h0").groups(), _head_named("Layer 3")["layer"], _head_named("induction")
    (('decoder', '1', '0'), '3', None)
    """
    match = _NAME.fullmatch(text.strip())
    return match if match is not None and (match["layer"] or match["head"]) else None


def _holds(sql: str, text: str) -> str:
    """Write that a text holds another, whatever the case."""
    return f"REGEXP_LIKE({sql}, {_quoted('(?i)' + re.escape(text))})"  # STRPOS reads patterns, too


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
