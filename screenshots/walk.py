"""Film the walk of the README through the demo model as one animated SVG: ``python screenshots/walk.py [FILE]``.

The explorer runs without a terminal and gets the keys of `STEPS`. Each line of text is stored once, however many frames
show it. A viewer without animation shows the first frame.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from html import escape
from io import StringIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.segment import Segment, Segments

from engine.service.engine import Engine
from engine.values.options import EngineOptions, limit_threads
from tests.tui.explorer import settle
from tests.tui.snapshots import painted_lines
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.export.pictures import portable_svg

COLUMNS, ROWS = 120, 34
SECONDS = 2.8
"""For which each frame is shown."""

STEPS = (
    ("", (), "attn-tui demo: a cell for each head"),
    ("w", ("w",), "go into the overview"),
    ("j", ("j",), "one layer on: L1H0 stands out"),
    ("⏎", ("enter",), "open it: an induction head, and its singular values beside chance"),
    ("3", ("3",), "where it looks: at what came after the same word before"),
    ("x", ("x",), "why it looks there: the score, term by term"),
    ("5", ("5",), "which earlier heads feed it: L0H0 looks at the previous token"),
    ("8", ("8",), "what the model predicts next: the same again"),
    ("e", ("e",), "take it away as a table or a picture"),
    ("v", ("v",), "the table is written"),
)
"""Of each frame: the key as it is shown, the keys that lead there, and what they do."""

FONT = '"Fira Code", ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'
BAR = 52
"""Height of the line that names the key."""

_LINE = re.compile(r'clip-path="url\(#walk-line-(\d+)\)"')
_BACKGROUND = re.compile(r'<rect fill="([^"]*)" x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)"[^>]*/>')
PAPER = "#121212"
"""The colour of what is empty."""


async def frames() -> list[list[list[Segment]]]:
    """Press the keys, and give the lines of each frame."""
    app = Explorer(Engine(EngineOptions(use_cache=False)), Start("demo"))
    app.theme = "textual-dark"
    found = []
    async with app.run_test(size=(COLUMNS, ROWS), notifications=True) as pilot:
        await settle(pilot)
        for _, keys, _ in STEPS:
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            found.append(painted_lines(app, "truecolor"))
    app.engine.stop()
    return found


def film(shown: list[list[list[Segment]]]) -> str:
    """Draw the frames as one SVG, each for `SECONDS`."""
    numbers: dict[tuple[Segment, ...], int] = {}
    places = [[numbers.setdefault(tuple(line), len(numbers)) for line in frame] for frame in shown]
    console = Console(
        width=COLUMNS, height=len(numbers), file=StringIO(), force_terminal=True, color_system="truecolor", record=True,
        legacy_windows=False, safe_box=False,
    )  # fmt: skip
    console.print(Segments([each for line in numbers for each in (*line, Segment.line())]), end="", crop=False)
    parts = "\f".join(f"{{{name}}}" for name in ("styles", "backgrounds", "matrix", "char_width", "line_height"))
    drawn = console.export_svg(title="", unique_id="walk", code_format=parts).split("\f")
    styles, backgrounds, matrix = drawn[:3]
    char_width, line_height = map(float, drawn[3:])
    lines: list[list[str]] = [[] for _ in numbers]
    for line, rectangles in groupby(
        _BACKGROUND.findall(backgrounds), key=lambda found: int(float(found[2]) / line_height)
    ):
        lines[line] += _joined(rectangles)
    for text in matrix.splitlines():
        for piece in re.findall(r"<text.*?</text>", text):
            if (place := _LINE.search(piece)) is not None:
                lines[int(place[1])].append(portable_svg(_LINE.sub("", piece)))
    width, height = COLUMNS * char_width + 24, ROWS * line_height + BAR + 12
    whole = len(shown) * SECONDS
    body = []
    for number, frame in enumerate(places):
        key, _, does = STEPS[number]
        uses = "".join(f'<use href="#l{line}" y="{(row - line) * line_height:g}"/>' for row, line in enumerate(frame))
        body.append(f'<g class="f" style="animation-delay:{number * SECONDS:g}s">{_bar(key, does, number, width)}'
                    f'<g transform="translate(12,{BAR})">{uses}</g></g>')  # fmt: skip
    defined = "".join(f'<g id="l{number}">{"".join(pieces)}</g>' for number, pieces in enumerate(lines))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width:g} {height:g}">
<title>A walk through the demo model</title>
<style>
text {{ font-family: {FONT}; font-size: 20px; font-variant-ligatures: none; white-space: pre; }}
.f {{ visibility: hidden; animation: walk {whole:g}s step-end infinite; }}
.f:first-of-type {{ visibility: visible; }}
@keyframes walk {{ 0% {{ visibility: visible; }} {100 / len(shown):.4f}%, 100% {{ visibility: hidden; }} }}
@media (prefers-reduced-motion: reduce) {{ .f {{ animation: none; }} }}
{styles}
</style>
<defs>{defined}</defs>
<rect width="100%" height="100%" rx="10" fill="{PAPER}"/>
{"".join(body)}
</svg>
"""


def _joined(rectangles: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Draw the rectangles of a line, neighbours of one colour as one, and none of the paper's colour."""
    for fill, run in groupby(rectangles, key=itemgetter(0)):
        (_, left, top, _, height), *_ = own = list(run)
        if fill != PAPER:
            width = sum(float(each[3]) for each in own)
            yield f'<rect fill="{fill}" x="{left}" y="{top}" width="{width:g}" height="{height}"/>'


def _bar(key: str, does: str, number: int, width: float) -> str:
    """Draw the key that was pressed, what it does, and which frame of how many it is."""
    cap = 0.0
    drawn = ""
    if key:
        cap = 12.2 * len(key) + 22
        drawn = (
            f'<rect x="14" y="9" width="{cap:g}" height="32" rx="6" fill="#ffa62b"/>'
            f'<text x="25" y="32" fill="#121212" font-weight="bold">{escape(key)}</text>'
        )
    return (
        f'{drawn}<text x="{14 + cap + (12 if key else 0):g}" y="32" fill="#e0e0e0">{escape(does)}</text>'
        f'<text x="{width - 14:g}" y="32" fill="#808080" text-anchor="end">{number + 1} / {len(STEPS)}</text>'
    )


def main() -> None:
    """Film the walk."""
    file = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("walk.svg")).resolve()
    limit_threads(None)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {f"XDG_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        os.environ.pop("NO_COLOR", None)
        exports = Path(tempfile.gettempdir(), "walk")
        exports.mkdir()
        os.chdir(exports)
        try:
            file.write_text(film(asyncio.run(frames())), encoding="utf-8")
        finally:
            os.chdir(home)
            shutil.rmtree(exports)
    print(f"{file.name}: {len(STEPS)} frames, {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
