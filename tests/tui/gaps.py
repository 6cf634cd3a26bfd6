"""The longest gaps of the event loop, measured by a heartbeat in the explorer in a pseudo-terminal."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.terminal import FIRST_HEAD, Terminal

HEARTBEAT = """
import asyncio, json, sys, time
import tui.app.explorer
from tui.cli.command_line import main

place, gaps = sys.argv.pop(1), [0.0, 0.0]

def has_torch():
    torch = sys.modules.get("torch")
    return torch is not None and not torch.__spec__._initializing

async def beat():
    was_there, last = False, time.perf_counter()
    while True:
        await asyncio.sleep(0.001)
        now, is_there = time.perf_counter(), has_torch()
        gaps[was_there] = max(gaps[was_there], (now - last - 0.001) * 1e3)
        was_there, last = is_there, now

class Watched(tui.app.explorer.Explorer):
    async def _begin(self):
        self.beating = asyncio.create_task(beat())
        await super()._begin()

    async def action_quit(self):
        with open(place, "w") as file:
            json.dump(gaps, file)
        await super().action_quit()

tui.app.explorer.Explorer = Watched
main()
"""
"""The command, with a task in its event loop that wakes every millisecond."""


def longest_gaps(
    model: str, sentence: str, columns: int, rows: int, environment: Mapping[str, str], seconds: float
) -> tuple[float, float]:
    """Run the explorer while stepping through heads, and give the longest gaps in milliseconds.

    Returns
    -------
    before, after : before torch is imported, and after.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "gaps.json"
        command = (sys.executable, "-c", HEARTBEAT, str(place), model, "--text", sentence)
        with Terminal(*command, columns=columns, rows=rows, environment=environment) as terminal:
            terminal.wait_for(FIRST_HEAD)
            for turn in range(int(seconds / 0.25)):
                terminal.send("]" if turn % 2 == 0 else "[")
                terminal.read(0.25)
            terminal.send("q")
            terminal.exit_code()
        before, after = json.loads(place.read_text())
    return before, after
