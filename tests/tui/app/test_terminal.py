"""The program in a pseudo-terminal: it starts light, leaves at once, and restores the terminal."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from engine.store.files import log_file
from tests.conftest import TinyModel
from tests.terminal import COMMAND, FIRST_HEAD, Terminal
from tests.tui.toolkit.test_hostile_names import ESCAPED, HOSTILE, IN_LINES, foreign

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
"""What a terminal is sent to show its other screen, and to go back."""

STYLE = re.compile(rb"\x1b\[[\d;]*m")
"""What tells a terminal in what style to write, the last of which it keeps to."""


def assert_restored(terminal: Terminal) -> str:
    """Make sure that the terminal is as it was, and give what was written after that."""
    assert terminal.output.count(ENTER) == terminal.output.count(LEAVE) == 1
    assert b"\x1b[?25h" in terminal.output.rpartition(ENTER)[2]  # the cursor shows again
    assert STYLE.findall(terminal.output)[-1] == b"\x1b[0m"
    return terminal.text(terminal.output.rindex(LEAVE))


def scripted(body: str, *arguments: str | Path) -> Terminal:
    """Run the command with something in it changed first."""
    code = f"import sys\n{body}\nfrom tui.cli.command_line import main\nsys.argv = ['attn-tui', *sys.argv[1:]]\nmain()"
    return Terminal(sys.executable, "-c", code, *map(str, arguments))


def leave(terminal: Terminal, keys: str = "q", seconds: float = 10.0) -> None:
    """Leave with a key; nothing is written after the end."""
    terminal.send(keys)
    assert terminal.exit_code(seconds) == 0
    assert assert_restored(terminal) == ""


def test_keys_typed_during_the_start_are_done_and_without_a_shell_the_program_goes_on(tiny_model: TinyModel) -> None:
    with Terminal(COMMAND, str(tiny_model("llama"))) as terminal:
        terminal.send(":L1H2\n2")  # Enter as it comes of a terminal that is still to be set up
        terminal.wait_for("layer 1")
        terminal.ask("\x1a", "cannot suspend: no shell runs")
        leave(terminal)


def test_keys_work_while_the_engine_is_busy_and_quitting_waits_for_nothing(tiny_model: TinyModel) -> None:
    deep_in_work = (
        "import asyncio, time, textual.app\nfrom engine.analysis.spectra import SpectraStore\n"
        "def spectra(self, *asked, **narrowed):\n    time.sleep(30)\n    yield\n"
        "SpectraStore.head = SpectraStore.layer = spectra\n"
        "async def close(self): await asyncio.sleep(3600)\n"  # as widgets do that are removed one by one
        "textual.app.App._close_all = close"
    )
    with scripted(deep_in_work, tiny_model("llama")) as terminal:
        terminal.wait_for("computing")
        terminal.settle()
        for key, answer in (("j", "L0H1"), ("]", "L0H2"), ("?", "Type a sentence")):
            terminal.ask(key, answer, 5.0)
        terminal.send("\x1b")
        terminal.settle()
        leave(terminal, "\x03", seconds=5.0)


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal_and_sets_the_exit_status(tiny_model: TinyModel, name: signal.Signals) -> None:
    with Terminal(COMMAND, str(tiny_model("llama"))) as terminal:
        terminal.wait_for(FIRST_HEAD)
        os.kill(terminal.process, name)
        assert terminal.exit_code() == 128 + name
        assert_restored(terminal)


def test_ctrl_z_returns_to_the_shell_and_fg_draws_the_screen_again(tiny_model: TinyModel) -> None:
    in_shell = 'set -m; "$0" "$@"; echo "back in the shell"; read -r line; fg; echo "all done"'
    with Terminal("sh", "-c", in_shell, COMMAND, str(tiny_model("llama")), columns=120, rows=40) as terminal:
        terminal.wait_for(FIRST_HEAD)
        terminal.ask("?", "Suspend, until fg")
        terminal.settle()
        since = len(terminal.output)
        terminal.send("\x1a")
        terminal.wait_for("back in the shell", since=since)
        left = terminal.output[since:].partition(b"back in the shell")[0]
        assert all(mode in left for mode in (LEAVE, b"\x1b[?25h", b"\x1b[?1003l", b"\x1b[?2004l", b"\x1b[?1004l"))
        assert STYLE.findall(terminal.output[: terminal.output.rindex(LEAVE)])[-1] == b"\x1b[0m"
        since = len(terminal.output)
        terminal.send("\n")
        terminal.wait_for("Suspend, until fg", since=since)  # the list, and around it what the terminal has forgotten
        terminal.wait_for("d_model", since=since)
        terminal.settle()
        back = terminal.output[since:]
        assert re.match(rb"\x1b\[0[;m]", STYLE.findall(back)[0]), "no style of the shell's is left"
        assert all(mode in back for mode in (ENTER, b"\x1b[?25l", b"\x1b[?1003h", b"\x1b[?2004h", b"\x1b[?1004h"))
        terminal.ask("q4", "symmetry")  # which only the engine can answer
        terminal.ask("q", "all done")


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_a_crash_restores_the_terminal_and_leaves_one_line_and_a_log_of_text_alone(
    tiny_model: TinyModel, debug: tuple[str, ...]
) -> None:
    broken = (
        "import tui.views.ranks_view\n"
        f"def broken(self, step): raise ZeroDivisionError({'x' + HOSTILE!r})\n"
        "tui.views.ranks_view.RanksPane.action_measure = broken"
    )
    with scripted(broken, tiny_model("llama"), *debug) as terminal:
        terminal.wait_for(FIRST_HEAD)
        terminal.send("m")
        assert terminal.exit_code() == 1
        said = assert_restored(terminal)
    assert foreign(terminal.output) == []
    assert f"ZeroDivisionError: x{ESCAPED}" in said
    assert ("Traceback" in said) == bool(debug)
    if not debug:
        assert said.strip().startswith("attn-tui: unexpected ZeroDivisionError")
        assert f"its traceback is in {log_file()}" in said
        log = log_file().read_bytes()
        assert foreign(log, IN_LINES) == []
        assert ESCAPED.encode() in log


def test_torch_is_not_imported_when_the_first_frame_is_painted(tiny_model: TinyModel) -> None:
    code = (
        "import sys\n"
        "from engine.service.engine import Engine\n"
        "from tui.app.explorer import Explorer\n"
        "from tui.app.start import Start\n"
        "class Watched(Explorer):\n"
        "    async def _begin(self):\n"
        "        heavy = 'torch', 'transformers', 'huggingface_hub', 'numpy', 'polars', 'engine.analysis.open_model'\n"
        "        loaded = [name for name in heavy if name in sys.modules]\n"
        "        self.exit(message=f'loaded {loaded}')\n"
        f"Watched(Engine(), Start({str(tiny_model('llama'))!r})).run()\n"
    )
    with Terminal(sys.executable, "-c", code) as terminal:
        assert terminal.exit_code() == 0
        assert "loaded []" in terminal.text()


def test_the_screen_is_drawn_when_standard_error_goes_to_a_file(tiny_model: TinyModel, tmp_path: Path) -> None:
    command = f"{shlex.quote(COMMAND)} {shlex.quote(str(tiny_model('llama')))} 2> {tmp_path / 'said'}"
    with Terminal("sh", "-c", command) as terminal:
        terminal.wait_for(FIRST_HEAD)
        terminal.ask("2", "stable rank: how many directions share the strength")
        leave(terminal)
    assert (tmp_path / "said").read_text(encoding="utf-8") == ""


def test_without_a_model_the_demo_is_offered() -> None:
    with Terminal(COMMAND) as terminal:
        terminal.wait_for("shipped with attn-tui")
        leave(terminal, "\tq")
