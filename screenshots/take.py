"""Take the README's screenshots of the demo model: ``python screenshots/take.py [FOLDER]``."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.service.options import EngineOptions, limit_threads

COLOURS = {"COLORTERM": "truecolor", "TERM": "xterm-256color"}
"""What a terminal with all colours says of itself."""


@dataclass(frozen=True)
class Shot:
    """One picture: its file's name, the terminal's size, the keys that lead there, and the theme."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...]
    theme: str = "textual-dark"


SHOTS = (
    Shot("explorer-160x50", (160, 50), ()),
    Shot("spectra-80x24", (80, 24), ("1", "right", "right", "right")),
    Shot("ranks-80x24", (80, 24), ("2", "m", "m")),
    Shot("attention-80x24", (80, 24), ("3", "down", "down", "down", "down")),
    Shot("predictions-80x24", (80, 24), ("8",)),
    Shot("explain-160x50", (160, 50), ("3", "G", "x")),
    Shot("keys-80x24", (80, 24), ("3", "question_mark")),
    Shot("light-160x50", (160, 50), (), "textual-light"),
)


async def take(shot: Shot, folder: Path, head: str) -> None:
    """Run the explorer without a terminal, press the keys, and save what it shows."""
    from engine.service.engine import Engine
    from tui.app import Explorer
    from tui.start import Start

    app = Explorer(Engine(EngineOptions(use_cache=False)), Start("demo", head=head))
    app.theme = shot.theme
    async with app.run_test(size=shot.size) as pilot:
        while not (app.is_ready and app.conductor.is_idle):
            await pilot.pause(0.1)
        await pilot.press(*shot.keys)
        while not app.conductor.is_idle:
            await pilot.pause(0.1)
        await pilot.pause(0.5)
        (folder / f"{shot.name}.svg").write_text(app.export_screenshot(title="attn-tui demo"), encoding="utf-8")


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    limit_threads(None)
    os.environ |= COLOURS
    os.environ.pop("NO_COLOR", None)
    for shot in SHOTS:
        asyncio.run(take(shot, folder, "L1H0"))
        print(folder / f"{shot.name}.svg")


if __name__ == "__main__":
    main()
