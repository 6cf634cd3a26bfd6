"""Filters of a table's rows: ``ov_copying > 0.5 and not (head = 3 or kind contains key)``.

::

    either  = both, { "or", both }
    both    = term, { "and", term }
    term    = "not", term | "(", either, ")" | comparison | word
    comparison = operand, operator, operand, { operator, operand }
    operator = "<" | "<=" | ">" | ">=" | "=" | "==" | "!=" | "contains"
    operand = column | number | text, in quotes or not; what comes after "contains" is always a text

A column whose name has a dot, such as ``ov.energy_rank``, may be written in capitals too, as matrices are. A word that
is compared with a column of texts is a text, though a column of numbers may be called so (``label = induction``), and
``chance`` behind a measure is what chance gives for it. Upper and lower case are alike in what is typed without quotes;
two columns are the same where their texts are, to the case of a letter.

A word by itself is looked for in every text of a row; the name of a head or a layer (``L1H0``, ``L1``, ``"layer 1"``)
finds its rows, too, and behind ``layer`` and ``head`` it is a number. An empty cell is in no relation to anything, so
that a row is neither kept by ``x < 1`` nor by ``not x < 1`` where x is empty; ``x = ""`` asks for it. (Three truth
values, Kleene 1938: what is unknown stays so under ``not``.) Nothing that is typed is ever executed.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.values.columns import CHANCE
from engine.values.filter_tokens import FilterError, Token, tokens
from engine.values.kinds import OWN_WORDS, Kind, kind_of
from engine.values.named_rows import LABEL, long_label, named, number_named, test_of_head
from engine.values.relations import Truth, any_of, contains, is_ordered, is_same, number, opposite
from engine.values.tables import Cell

Row = Sequence[Cell]
Test = Callable[[Row], Truth]

DEEPEST = 50
"""Parentheses and ``not`` inside each other."""

ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
EQUALS = {"=": True, "==": True, "!=": False}
CONTAINS = "contains"
OPERATORS = {*ORDERS, *EQUALS, CONTAINS}
TEXTS = (Kind.TEXT, Kind.TOKEN)
JOINING = {"and", "or", "not"}
"""Words that are part of the language; in quotes they are texts."""


@dataclass(frozen=True)
class Filter:
    """A filter that fits a table.

    Attributes
    ----------
    text : as typed.
    test : whether it is true of a row; None where it cannot be told.
    columns : those it compares.
    """

    text: str
    test: Test
    columns: frozenset[str]

    def kept(self, rows: Iterable[Row]) -> Iterator[int]:
        """Yield the numbers of the rows that it is true of."""
        return (number for number, row in enumerate(rows) if self.test(row) is True)

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows that it is true of, as they come."""
        return (row for row in rows if self.test(row) is True)


def parse_filter(text: str, columns: Sequence[str]) -> Filter:
    """Read a filter of a table with these columns; one without words keeps every row.

    Raises
    ------
    FilterError : where it cannot be read, saying what does not fit and where.

    Examples
    --------
    >>> rows = [("0", 0.9), ("1", 0.1), ("2", "")]
    >>> list(parse_filter("copying > 0.5 or head = 1", ("head", "copying")).kept(rows))
    [0, 1]
    """
    reading = _Reading(text, columns)
    return Filter(text, reading.test(), frozenset(reading.compared))


class _Reading:
    """Reads one filter from the left to the right."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self._tokens = tokens(text)
        self._columns = {name: number for number, name in enumerate(columns)}
        self._end = len(text.rstrip())
        self.compared: set[str] = set()
        self._next = 0
        self._depth = 0

    def test(self) -> Test:
        """Read all of it."""
        if not self._tokens:
            return lambda row: True
        whole = self._either()
        if self._next < len(self._tokens):
            token = self._tokens[self._next]
            raise FilterError(f"'{token.shown}' at {token.place + 1}: expected and, or, or the end", token.place)
        return whole

    def _sign(self) -> str:
        """Look at what comes next."""
        return self._tokens[self._next].sign if self._next < len(self._tokens) else ""

    def _take(self, expected: str) -> Token:
        """Go on over what comes next."""
        if self._next == len(self._tokens):
            raise FilterError(f"it ends at {self._end + 1}: expected {expected}", self._end)
        self._next += 1
        return self._tokens[self._next - 1]

    def _either(self) -> Test:
        """Read what is joined by ``or``."""
        tests = [self._both()]
        while self._sign() == "or":
            self._take("or")
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda row: any_of(test(row) for test in tests)

    def _both(self) -> Test:
        """Read what is joined by ``and``."""
        tests = [self._term()]
        while self._sign() == "and":
            self._take("and")
            tests.append(self._term())
        return tests[0] if len(tests) == 1 else lambda row: opposite(any_of(opposite(test(row)) for test in tests))

    def _term(self) -> Test:
        """Read what cannot be torn apart."""
        sign = self._sign()
        if sign not in ("not", "("):
            return self._comparison()
        opening = self._take("not")
        self._depth += 1
        if self._depth > DEEPEST:
            raise FilterError(f"'{opening.shown}' at {opening.place + 1} is nested too deeply", opening.place)
        test = self._term() if sign == "not" else self._either()
        if sign == "(" and self._take(") or more").sign != ")":
            wrong = self._tokens[self._next - 1]
            raise FilterError(f"'{wrong.shown}' at {wrong.place + 1}: expected and, or, or )", wrong.place)
        self._depth -= 1
        return (lambda row: opposite(test(row))) if sign == "not" else test

    def _comparison(self) -> Test:
        """Read operands and what relates them, or a word by itself."""
        operands = [self._operand("a column or a word")]
        operators: list[Token] = []
        while self._sign() in OPERATORS:
            operators.append(self._take("an operator"))
            operands.append(self._operand(f"what comes after {operators[-1].text}"))
        if not operators:
            return self._alone(operands[0])
        operands = self._numbered(operands)
        first = operands[0]
        is_value = first.is_quoted or number(first.text) is not None
        if not any(map(self._is_column, operands)) or not (is_value or self._is_column(first)):
            raise FilterError(f"no column '{first.shown}' at {first.place + 1}{self._hint(first)}", first.place)
        for at, sign in enumerate(operators):
            operands[at + 1] = self._meant(operands[at], sign, operands[at + 1])
        tests = [
            self._relation(sign, left, right)
            for sign, left, right in zip(operators, operands, operands[1:], strict=False)
        ]
        return tests[0] if len(tests) == 1 else lambda row: opposite(any_of(opposite(test(row)) for test in tests))

    def _numbered(self, operands: list[Token]) -> list[Token]:
        """Write the name of a layer as its number where it is compared with a column of layers, and of a head so."""
        meant = list(operands)
        for at, operand in enumerate(operands):
            for other in operands[max(at - 1, 0) : at + 2]:
                if (column := self._column(other)) is not None and self._column(operand) is None:
                    meant[at] = replace(meant[at], text=number_named(column, meant[at].text))
        return meant

    def _operand(self, expected: str) -> Token:
        """Take a word or a text."""
        token = self._take(expected)
        if token.sign in {*OPERATORS, *JOINING, "(", ")"}:
            quoted = f"; to mean the word, write '{token.shown}' in quotes" if token.sign.isalpha() else ""
            raise FilterError(f"'{token.shown}' at {token.place + 1}: expected {expected}{quoted}", token.place)
        return token

    def _meant(self, left: Token, sign: Token, right: Token) -> Token:
        """Say what a word behind an operator is where it could be two things: a column's name, or what cells hold.

        ``chance`` is what chance gives for the column before it.
        """
        column, other = self._column(left), self._column(right)
        if column is not None and other is None and right.sign == CHANCE.lstrip("_"):
            other = f"{column}{CHANCE}"
            return replace(right, text=other) if other in self._columns else right
        kinds = (Kind.NUMBER if column is None else kind_of(column), None if other is None else kind_of(other))
        if other is None or sign.sign not in EQUALS or kinds[0] not in TEXTS or kinds == (Kind.TOKEN, Kind.TOKEN):
            return right
        if kinds[1] is kinds[0]:
            what = f"'{right.shown}' at {right.place + 1} is a column, too"
            raise FilterError(f"{what}; to mean the word, write it in quotes", right.place)
        return replace(right, is_word=True)

    def _is_column(self, token: Token) -> bool:
        """Say whether a word names a column."""
        return self._column(token) is not None

    def _column(self, token: Token) -> str | None:
        """Give the column that a word names; where the name has a dot, in whatever case."""
        if token.is_quoted or token.is_word:
            return None
        name = token.text if token.text in self._columns or "." not in token.text else token.text.lower()
        return name if name in self._columns else None

    def _hint(self, token: Token) -> str:
        """Name the column that a word may have meant."""
        alike = difflib.get_close_matches(token.text[:80], self._columns, 1)
        return f"; did you mean {alike[0]}?" if alike else ""

    def _alone(self, token: Token) -> Test:
        """Look for a text in every text of a row."""
        if self._is_column(token):
            raise FilterError(f"{token.text} is a column; compare it, {token.text} > 0, or quote it", token.place)
        wanted, label = token.text.casefold(), long_label(token.text)
        at = self._columns.get(LABEL) if label != token.text else None
        name = named(token.text)
        is_named = None if name is None else name.test(self._columns)

        def holds(row: Row) -> bool:
            return (
                any(isinstance(cell, str) and wanted in cell.casefold() for cell in row)
                or (at is not None and row[at] == label)
                or (is_named is not None and is_named(row))
            )

        return holds

    def _relation(self, sign: Token, left: Token, right: Token) -> Test:
        """Relate two operands."""
        columns = {name for each in (left, right) if (name := self._column(each)) is not None}
        if columns == {LABEL}:
            left, right = (replace(each, text=long_label(each.text)) for each in (left, right))
        if sign.sign == CONTAINS:
            cell = self._cell(left)
            return lambda row: contains(cell(row), right.text)
        if sign.sign in ORDERS:
            for operand in (left, right):
                is_known = operand.is_quoted or self._is_column(operand) or number(operand.text) is not None
                if not is_known:
                    message = f"no column or number '{operand.shown}' at {operand.place + 1}"
                    raise FilterError(f"{message}{self._hint(operand)}", operand.place)
            order, one, other = ORDERS[sign.sign], self._cell(left), self._cell(right)
            return lambda row: is_ordered(order, one(row), other(row))
        is_equal, one, other = EQUALS[sign.sign], self._cell(left), self._cell(right)
        asks_for_nothing = not (left.text and right.text)
        is_exact = (left.is_quoted or right.is_quoted) and not (columns and columns <= OWN_WORDS)
        is_of_columns = self._is_column(left) and self._is_column(right)

        sides = ((left, right), (right, left))
        tests = (test_of_head(self._column(one) or "", other.text, self._columns) for one, other in sides)
        is_head = next(filter(None, tests), None)

        def equal(row: Row) -> Truth:
            if is_head is not None:
                return is_head(row) if is_equal else opposite(is_head(row))
            if asks_for_nothing:
                return (one(row) == other(row)) is is_equal
            same = is_same(one(row), other(row), is_exact=is_exact, heeds_case=is_of_columns)
            return same if is_equal else opposite(same)

        return equal

    def _cell(self, token: Token) -> Callable[[Row], Cell]:
        """Give what an operand stands for in a row."""
        column = self._column(token)
        if column is not None:
            self.compared.add(column)
            return operator.itemgetter(self._columns[column])
        return lambda row: token.text
