"""``attn-tui export`` in the tests' own process, where libraries are imported once."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from click.testing import CliRunner, Result

from tui.command_line import command


def run(*arguments: str | Path) -> Result:
    """Run the command."""
    return CliRunner().invoke(command, ["export", *map(str, arguments)])


def exported(*arguments: str | Path) -> list[dict[str, str]]:
    """Export to standard output and read the table back."""
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(io.StringIO(done.stdout)))


def refusal(*arguments: str | Path, code: int = 1) -> str:
    """Give what is said of a request that is refused."""
    done = run(*arguments)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    return done.stderr
