"""What the terminal can do, by its description in the system's terminfo."""

from __future__ import annotations

import os
import sys


def erases_in_colour() -> bool:
    """Say whether erased cells have the colour that is behind letters, on the terminal that ``TERM`` names.

    Where there is no description of it, or no terminfo at all, it is taken not to; nor in GNU screen under the name of
    another terminal, as it has its own way whatever it is called.
    """
    if "STY" in os.environ and not os.environ.get("TERM", "").startswith("screen"):
        return False
    try:
        import curses
    except ImportError:
        return False
    try:
        curses.setupterm(fd=sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    except (curses.error, OSError, ValueError):
        return False
    return curses.tigetflag("bce") == 1 and curses.tigetstr("ech") == b"\x1b[%p1%dX"
