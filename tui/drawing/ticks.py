"""Numbers in as few characters as an axis or a legend has room for."""

from __future__ import annotations


def brief(value: float, digits: int = 2) -> str:
    """Write a number with as many significant digits, in the form that takes the fewest characters.

    Examples
    --------
    >>> [brief(value) for value in (0, 1, 0.25, 0.0123, 0.0001, 123.4, 1e-12, 6.02e23)]
    ['0', '1', '0.25', '0.012', '1e-4', '123', '1e-12', '6e23']
    >>> brief(3.2149, 3), brief(2.04e-5, 3), brief(1e30, 3)
    ('3.21', '2e-5', '1e30')
    >>> brief(0.001), brief(0.0009999999)  # the form follows from what is written
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
