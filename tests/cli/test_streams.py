"""Standard output that is full, closed or a file; interrupts; pictures without colours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exporting import attn_tui, exported, refusal
from tests.opening import ROOT

COMMAND = [sys.executable, "-c", "from tui.entry import main; main()"]


def run(words: str, redirected: str) -> subprocess.CompletedProcess[str]:
    """Run the command with its output going elsewhere, as a shell does it."""
    line = f'exec "$@" {words} {redirected}'
    return subprocess.run(["sh", "-c", line, "sh", *COMMAND], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "redirected", "why"),
    [("--help", ">&-", "closed"), ("export demo ranks --head L0H0", ">/dev/full", "No space left")],
)
def test_what_cannot_be_written_is_one_line(words: str, redirected: str, why: str) -> None:
    done = run(words, redirected)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("attn-tui: standard output cannot be written")
    assert why in line


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run([*COMMAND, "export", "demo", "ranks"], stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("redirected", ["", "<&-"])
def test_without_a_terminal_the_explorer_says_what_to_use_instead(redirected: str) -> None:
    done = run("demo", redirected)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("attn-tui: the explorer needs a terminal")
    assert "attn-tui export MODEL VIEW" in line


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from engine.service.engine import Engine
from tui.cli.command_line import main
rows, stop = Engine.rows, int(sys.argv.pop())

def interrupted(engine, *given):
    for number, group in enumerate(rows(engine, *given)):
        if number == 2:  # in the middle of the rows
            signal.raise_signal(stop)
        yield group

Engine.rows = interrupted
main()
"""


@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "attn-tui: stopped\n"), (signal.SIGTERM, "")])
def test_a_stopped_command_leaves_no_file(number: signal.Signals, said: str, folder: Path) -> None:
    words = ("export", "demo", "ranks", "-o", "ranks.csv", "--no-cache", str(int(number)))
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (128 + number, said)
    assert not list(folder.iterdir())


def test_dash_and_dev_stdout_are_standard_output_and_replace_no_file(tmp_path: Path) -> None:
    file = tmp_path / "all"
    line = f'exec >"{file}"; echo first; "$@" export demo ranks --head L0H0 --matrix Q -o /dev/stdout; echo last'
    subprocess.run(["sh", "-c", line, "sh", *COMMAND], check=True)
    lines = file.read_text().splitlines()
    assert (lines[0], len(lines), lines[-1]) == ("first", 4, "last")
    table = exported("demo", "ranks", "--head", "L0H0", "--matrix", "QK")
    assert exported("demo", "ranks", "--head", "L0H0", "--matrix", "QK", "-o", "-") == table
    words = "RANKS --head l0h0 --layer L0 --stack Decoder --matrix qk --format CSV --dtype Float32 --device CPU"
    assert exported("demo", *words.split()) == table
    assert exported("demo", "ranks", "--head", "All") == exported("demo", "ranks", "--head", "all")


def test_a_file_whose_ending_says_another_format_is_told_of(tmp_path: Path) -> None:
    for name, said in (("a.xyz", " as csv, which"), ("a.csv", "")):
        done = attn_tui("export", "demo", "ranks", "--head", "L0H0", "-o", name, folder=tmp_path)
        assert done.stderr.startswith(f"attn-tui: wrote {name}{said}")
    assert "a table, not arrays" in refusal("demo", "ranks", "--format", "npz", code=2)


def test_a_variable_that_an_option_does_not_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTN_TUI_ENERGY", "9")
    done = attn_tui("config")
    assert done.returncode == 2
    assert "Invalid value for '--energy'" in done.stderr
