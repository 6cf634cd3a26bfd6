"""The command line in the tests' own process, where libraries are imported once."""

from __future__ import annotations

import csv
import io
from contextlib import chdir
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from engine.store.export import text_of
from engine.values.table import AnyTable
from tui.cli.command_line import command


def attn_tui(*arguments: str | Path, folder: Path | None = None) -> CompletedProcess[str]:
    """Run the command in a folder; give what a process would."""
    with chdir(folder or "."):
        done = CliRunner().invoke(command, [*map(str, arguments)], prog_name="attn-tui")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["export", *map(str, arguments)])


def rows_in(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def exported(*arguments: str | Path) -> list[dict[str, str]]:
    """Export to standard output and read the table back."""
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return rows_in(done.stdout)


def written(folder: Path, pattern: str) -> list[dict[str, str]]:
    """Read the one CSV file of a folder whose name matches a pattern."""
    (file,) = folder.glob(pattern)
    return rows_in(file.read_bytes().decode())


def as_exported(table: AnyTable) -> list[dict[str, str]]:
    """Write a table as an export of it, and read it back."""
    return rows_in("".join(text_of(table.pieces(), "csv")))


def exported_maps(model: str | Path, text: str, file: Path, *arguments: str) -> dict[str, NDArray[np.float32]]:
    """Export a sentence's maps to a file and read them back: (heads, queries, keys) by layer."""
    done = run(model, "attention", "--text", text, "-o", file, *arguments)
    assert done.exit_code == 0, done.output
    with np.load(file) as arrays:
        return dict(arrays)


def refusal(*arguments: str | Path, code: int = 1) -> str:
    """Give the one line that refuses a request, or the message about wrong usage."""
    done = run(*arguments)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    if code == 1:
        assert done.stderr.startswith("attn-tui: ")
        assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr
