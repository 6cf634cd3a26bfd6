"""A picture of a view can be read wherever it is opened: its letters stand out, and each is drawn as it was typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.color import Color

from tests.tui.drawing.test_contrast import between
from tests.tui.explorer import explorer, settle, type_keys
from tests.tui.painted import good_terminal
from tui.app.explorer import Explorer

SVG = "{http://www.w3.org/2000/svg}"


def read_on(root: ElementTree.Element) -> Iterator[tuple[str, Color, Color]]:
    """Give what is written in a picture, in which colour and on which; white is the page that it lies on."""
    style = "".join(root.itertext())
    fills = dict(re.findall(r"\.([\w-]+) \{ fill: (#\w+)", style))
    rects = [each.attrib for each in root.iter(f"{SVG}rect") if "fill" in each.attrib]
    for text in root.iter(f"{SVG}text"):
        x, y = float(text.attrib["x"]) + 1, float(text.attrib["y"]) - 5
        behind = [
            each["fill"]
            for each in rects
            if 0 <= x - float(each["x"]) < float(each["width"]) and 0 <= y - float(each["y"]) < float(each["height"])
        ]
        ground = behind[-1] if behind else "#ffffff"
        yield "".join(text.itertext()), Color.parse(fills[text.attrib["class"]]), Color.parse(ground)


@pytest.mark.parametrize("theme", ["ansi", "ansi-dark", "ansi-light"])
async def test_letters_stand_out_in_a_picture_whose_colours_are_the_terminals(
    theme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    monkeypatch.chdir(tmp_path)
    async with explorer("demo", size=(80, 24)) as (app, pilot):
        assert isinstance(app, Explorer)
        app.theme = theme
        await type_keys(pilot, "e", "S")
        await settle(pilot)
    (path,) = tmp_path.glob("*.svg")
    pieces = list(read_on(ElementTree.parse(path).getroot()))
    assert len(pieces) > 20
    faint = {
        (text, ink.name, ground.name, round(ratio, 2))
        for text, ink, ground in pieces
        if re.search(r"\w", text) and (ratio := between(ink, ground, "truecolor")) < 4.5
    }
    assert not faint
