"""Take the pictures of README and ``docs/`` of the demo model: ``python screenshots/take.py [FOLDER]``.

The same pictures are kept as text in ``tests/tui/snapshots``, which the tests compare with what the explorer shows now.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.segment import Segment, Segments

from engine.values.options import limit_threads
from tests.tui.snapshots import FOLDER, SHOTS, Shot, cells_of, described, environment_of, strips_of
from tui.export.pictures import portable_svg

FORMAT = CONSOLE_SVG_FORMAT.replace("font-size", "font-variant-ligatures: none;\n        font-size", 1)
"""A window with the cells, each of which shows the character that is in it."""


def picture(shot: Shot, lines: list[list[Segment]], name: str = "demo") -> str:
    """Draw the cells of a terminal as SVG, with the model or survey in its title."""
    width, height = shot.size
    console = Console(
        width=width, height=height, file=StringIO(), force_terminal=True, color_system="truecolor", record=True,
        legacy_windows=False, safe_box=False,
    )  # fmt: skip
    console.print(Segments([segment for line in lines for segment in (*line, Segment.line())]), end="", crop=False)
    return portable_svg(console.export_svg(title=f"attn-tui {name}", unique_id="attn-tui", code_format=FORMAT))


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    limit_threads(None)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {f"XDG_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
        for shot in SHOTS:
            for name, value in environment_of(shot).items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            lines = asyncio.run(strips_of(shot))
            (FOLDER / f"{shot.name}.txt").write_text(described(cells_of(lines)), encoding="utf-8")
            if shot.is_shown:
                (folder / f"{shot.name}.svg").write_text(picture(shot, lines), encoding="utf-8")
            print(shot.name)


if __name__ == "__main__":
    main()
