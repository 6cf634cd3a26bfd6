"""Numbers for a narrow screen; files have them in full."""

from __future__ import annotations

import math
from collections.abc import Sequence

LONGEST = 9
"""Characters of a number that is not whole, without its sign, at most."""


def short_number(value: float) -> str:
    """Format a number in at most nine characters and a sign: integers whole, others with four digits.

    Trailing zeros stay: numbers in a column are mostly of similar size and then align. Very small and very large ones
    have a power of ten.

    Examples
    --------
    >>> [short_number(x) for x in (61, 3.14159, 0.5, 0.000123456, -0.001234567, 42751.2, 123456.0, math.inf)]
    ['61', '3.142', '0.5000', '0.0001235', '-0.001235', '42751', '1.235e+05', '∞']
    >>> short_number(0.0000123456), short_number(1e-300)
    ('1.235e-05', '1.00e-300')
    """
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "∞"
    if math.isnan(value):
        return "–"
    if value != 0 and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.3e}" if 1e-99 <= abs(value) < 1e99 else f"{value:.2e}"
    return _format_digits(value, 4) if 0 < abs(value) < 9999.5 else f"{value:.0f}"


def fit_number(value: float, width: int, *, digits: int = 1) -> str:
    """Format a number as `short_number` does, in fewer digits where room is short, but never fewer than ``digits``.

    Examples
    --------
    >>> [fit_number(x, 7) for x in (42751.2, -0.001234567, 0.00123456, -0.000123456)], fit_number(0.5, 2)
    (['42751', '-0.0012', '0.00123', '-1e-04'], '…')
    >>> fit_number(0.5, 3, digits=2), fit_number(0.000136, 5, digits=2)
    ('0.5', '…')
    """
    fewer = (_format_digits(value, 3), _format_digits(value, 2), f"{value:.2g}", f"{value:.1e}")
    ways = (short_number(value), *fewer, *(f"{value:.0e}",) * (digits < 2))
    return next((each for each in ways if len(each) <= width), "…")


def align_numbers(rows: Sequence[Sequence[float | None]], room: int) -> list[str]:
    """Format rows of numbers in columns, as precisely as fits; where not all fit, the first column alone.

    Examples
    --------
    >>> align_numbers([(5.643, 19.478), (12, None)], 11), align_numbers([(5.643, 19.478), (12, None)], 8)
    (['5.643 19.48', '   12      '], ['5.6 19', ' 12   '])
    >>> align_numbers([(0.77862, 0.42287), (1.24703, 0.086528)], 13)  # one digit less is enough
    ['0.7786 0.4229', ' 1.247 0.0865']
    >>> align_numbers([(5.643, 19.478)], 5), align_numbers([(5.643, 19.478)], 2)
    (['5.643'], [''])
    """
    for count in (max(map(len, rows)), 1):
        for digits in range(LONGEST, 2, -1):
            written = [["" if each is None else fit_number(each, digits) for each in row[:count]] for row in rows]
            widths = [max(map(len, column)) for column in zip(*written, strict=True)]
            lines = [" ".join(f"{each:>{width}}" for each, width in zip(row, widths, strict=True)) for row in written]
            if len(lines[0]) <= room and "…" not in "".join(lines):
                return lines
    return [""] * len(rows)


def rough_number(value: float) -> str:
    """Format a value by chance in a column: with three digits, of which trailing zeros stay.

    Examples
    --------
    >>> rough_number(31.0), rough_number(30.94), rough_number(1e-5)
    ('31.0', '30.9', '1e-05')
    """
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e3:
        return _format_digits(value, 3)
    return "∞" if math.isinf(value) else f"{value:.0e}"


def _format_digits(value: float, digits: int) -> str:
    """Format a number with some significant digits, trailing zeros included."""
    return f"{value:#.{digits}g}".rstrip(".")


def brief_number(value: float, digits: int = 2) -> str:
    """Format a number with some significant digits, in the form with the fewest characters.

    Examples
    --------
    >>> [brief_number(value) for value in (0, 1, 0.25, 0.0123, 0.0001, 123.4, 1e-12, 6.02e23)]
    ['0', '1', '0.25', '0.012', '1e-4', '123', '1e-12', '6e23']
    >>> brief_number(3.2149, 3), brief_number(2.04e-5, 3), brief_number(1e30, 3)
    ('3.21', '2e-5', '1e30')
    >>> brief_number(0.001), brief_number(0.0009999999)  # chosen after rounding
    ('0.001', '0.001')
    """
    if value == 0:
        return "0"
    if float(f"{abs(value):.{digits - 1}e}") >= 0.001 and abs(value) < 9999.5:
        return f"{value:.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    mantissa, _, exponent = f"{value:.{max(digits - 2, 0)}e}".partition("e")
    if not exponent:  # nan, inf
        return mantissa
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}"
