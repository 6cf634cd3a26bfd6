"""Whether the terminal can show more than ASCII, as far as the environment says so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
"""Which of them that is not empty comes first says what characters are written as."""

BEGUN_WITH = Path("/proc/self/environ")
"""What the process was begun with, on Linux. Python itself sets ``LC_CTYPE`` where the locale is C (PEP 538)."""


def ascii_because() -> str:
    """Give what says that the terminal shows ASCII alone, such as ``LANG=C``; nothing where nothing says so.

    Where none of the variables is set, as in a container, that says nothing of the terminal.
    """
    return said_by(_environment())


def said_by(environment: Mapping[str, str]) -> str:
    """Give what in an environment says so.

    Examples
    --------
    >>> said_by({"LANG": "C"}), said_by({"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}), said_by({"LANG": "de_DE@euro"})
    ('LANG=C', 'LC_ALL=POSIX', '')
    >>> said_by({"LANG": "C.UTF-8"}), said_by({"LC_ALL": "", "LC_CTYPE": "C.utf8", "LANG": "C"}), said_by({})
    ('', '', '')
    """
    for name in VARIABLES:
        if value := environment.get(name):
            return f"{name}={value}" if value in ("C", "POSIX") else ""
    return ""


def _environment() -> Mapping[str, str]:
    """Give the environment that the process was begun with, where the system tells, else as it is."""
    try:
        begun = BEGUN_WITH.read_bytes()
    except OSError:
        return os.environ
    pairs = (each.partition("=") for each in os.fsdecode(begun).split("\0"))
    return {name: value for name, _, value in pairs}
