"""Snapshots of the explorer on the demo, a T5 and an adapter, as text and styles of cells.

``python screenshots/take.py`` takes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.app import App

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.engine.checkpoints.test_adapters import adapter_of
from tests.tiny_configurations import tiny_configuration
from tests.tiny_models import build, save
from tests.tui.explorer import press, settle
from tui.app.explorer import Explorer
from tui.app.start import Start

FOLDER = Path(__file__).with_name("snapshots")
"""The folder of the snapshots."""

RETAKE = "if it is meant to look like this: python screenshots/take.py"

SYSTEMS = {"256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR, "none": ColorSystem.TRUECOLOR}
"""Rich's colour system for each kind of terminal; without colour, Textual has made them grey before."""


@dataclass(frozen=True)
class Shot:
    """One snapshot: what the explorer looks like after some keys; the README shows it too if `is_shown`."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...]
    theme: str = "textual-dark"
    colours: str = "truecolor"
    """One of `SYSTEMS`."""
    is_shown: bool = True
    model: Callable[[Path], Path] | None = None
    """Writes the model into a folder; None is the demo."""
    head: str = "L1H0"


def _write_t5(folder: Path) -> Path:
    return save(build(tiny_configuration("t5"), with_head=True), folder / "t5")


def _write_adapter(folder: Path) -> Path:
    base = save(build(tiny_configuration("llama"), with_head=True), folder / "llama")
    return adapter_of(base, folder / "adapter")


SMALL, LARGE = (80, 24), (160, 50)

SHOTS = (
    Shot("overview-80x24", SMALL, ("w",)),
    Shot("explorer-160x50", LARGE, ()),
    Shot("spectra-80x24", SMALL, ("1", "right", "right", "right")),
    Shot("ranks-80x24", SMALL, ("2", "m", "m")),
    Shot("attention-80x24", SMALL, ("3", "down", "down", "down", "down")),
    Shot("numbers-80x24", SMALL, ("3", "z", "unbound:heatmap.numbers", "G", "k", "k"), colours="256"),
    Shot("predictions-80x24", SMALL, ("8",)),
    Shot("explain-160x50", LARGE, ("3", "G", "x")),
    Shot("text-160x50", LARGE, ("3", "G", "T")),
    Shot("compare-160x50", LARGE, ("P", "]", "P", "C")),
    Shot("keys-80x24", SMALL, ("3", "question_mark")),
    Shot("light-160x50", LARGE, (), "textual-light"),
    Shot("256-colours-80x24", SMALL, ("3",), colours="256"),
    Shot("no-colour-80x24", SMALL, ("3",), colours="none"),
    Shot("circuits-160x50", LARGE, ("4", *["right"] * 4), is_shown=False),
    Shot("heads-80x24", SMALL, ("7",), is_shown=False),
    Shot("weights-80x24", SMALL, ("unbound:app.weights",), is_shown=False),
    Shot("t5-80x24", SMALL, ("3", "G"), is_shown=False, model=_write_t5, head="cross.L1H0"),
    Shot("t5-160x50", LARGE, ("}", "w"), is_shown=False, model=_write_t5, head="cross.L1H0"),
    Shot("adapter-160x50", LARGE, ("3",), is_shown=False, model=_write_adapter, head="decoder.L1H0"),
)


def environment_of(shot: Shot) -> dict[str, str | None]:
    """Give the terminal's environment; None is unset."""
    return {
        "TERM": "xterm-256color",
        "COLORTERM": None if shot.colours == "256" else "truecolor",
        "NO_COLOR": "1" if shot.colours == "none" else None,
    }


async def strips_of(shot: Shot) -> list[list[Segment]]:
    """Run the explorer, press the keys, and give the lines as a terminal gets them.

    Every place counts for the history, however fast the keys come.
    """
    with patch("tui.state.places.REST", 0.0), TemporaryDirectory() as folder:
        start = Start("demo", head=shot.head)
        if shot.model is not None:
            start = replace(start, model=str(shot.model(Path(folder))), text="the cat sat on the mat. the cat sat")
        app = Explorer(Engine(EngineOptions(use_cache=False)), start)
        app.theme = shot.theme
        async with app.run_test(size=shot.size) as pilot:
            await settle(pilot)
            for key in shot.keys:
                await press(pilot, key)
            lines = painted_lines(app, shot.colours)
    app.engine.stop()
    return lines


def painted_lines(app: App[None], colours: str) -> list[list[Segment]]:
    """Give the displayed lines in the colours that a terminal can show."""
    strips = app.screen._compositor.render_strips()
    return [[Segment(text, _style(style, SYSTEMS[colours])) for text, style, _ in strip] for strip in strips]


def _style(style: Style | None, system: ColorSystem) -> Style:
    if style is None:
        return Style()
    front, back = (None if each is None else _colour(each, system) for each in (style.color, style.bgcolor))
    return style.without_color + Style(color=front, bgcolor=back)


def _colour(colour: Color, system: ColorSystem) -> Color:
    shown = colour if colour.is_default else colour.downgrade(system)
    return shown if shown.is_default else Color.from_triplet(shown.get_truecolor())


def cells_of(lines: list[list[Segment]]) -> list[list[tuple[str, str]]]:
    """Give the runs of cells of each line: the text, and the style in words."""
    return [
        [
            ("".join(segment.text for segment in run), style)
            for style, run in groupby(line, key=lambda segment: _words(segment.style))
        ]
        for line in lines
    ]


def _words(style: Style | None) -> str:
    if style is None:
        return ""
    names = [name for name in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, name)]
    for sign, colour in (("", style.color), ("on ", style.bgcolor)):
        if colour is not None and not colour.is_default:
            names.append(f"{sign}{colour.get_truecolor().hex}")
    return " ".join(names)


def described(lines: list[list[tuple[str, str]]]) -> str:
    """Write the text, and below it the styles of each line with their numbers of cells."""
    text = "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines)
    styles = "\n".join(
        f"{number:>2}  " + " · ".join(f"{len(piece)} {style}".rstrip() for piece, style in line)
        for number, line in enumerate(lines)
    )
    return f"{text}\n\nstyles, by line: cells and what they look like\n{styles}\n"


NOTHING = 1e-5
"""The rounding of float32 for numbers about one."""

_NUMBER = re.compile(r"[ -]?\d+(?:\.\d+)?e[+-]\d+|[ -]?\d+\.\d+")


def differences(expected: str, found: str) -> Iterator[str]:
    """Give the lines that differ; machines may round numbers apart by one in the last digit.

    Numbers below `NOTHING` are rounding errors, which differ between machines.
    """
    before, after = expected.splitlines(), found.splitlines()
    for number in range(max(len(before), len(after))):
        old, new = (lines[number] if number < len(lines) else "" for lines in (before, after))
        if not _alike(old, new):
            yield f"line {number + 1}\n  kept {old}\n  now  {new}"


def _alike(old: str, new: str) -> bool:
    if old == new:
        return True
    numbers = _NUMBER.findall(old), _NUMBER.findall(new)
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    for one, other in zip(*numbers, strict=True):
        mantissa, _, exponent = one.partition("e")
        unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        if max(abs(float(one)), abs(float(other))) > NOTHING and abs(float(one) - float(other)) > 1.5 * unit:
            return False
    return True
