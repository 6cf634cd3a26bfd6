"""Numbers as a narrow screen shows them; files hold them in full."""

from __future__ import annotations

import math


def short(value: float) -> str:
    """Write a number in at most seven characters: counts whole, others with three or four digits.

    Examples
    --------
    >>> [short(x) for x in (61, 3.14159, 0.000123456, 123456.0, math.inf)]
    ['61', '3.142', '1.2e-04', '1.2e+05', '∞']
    """
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "∞"
    if math.isnan(value):
        return "–"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}"
    return f"{value:.4g}"


def rough(value: float) -> str:
    """Write what chance gives, where fewer digits do."""
    if value == 0:
        return "0"
    return "∞" if math.isinf(value) else f"{value:.3g}" if 1e-3 <= abs(value) < 1e3 else f"{value:.0e}"
