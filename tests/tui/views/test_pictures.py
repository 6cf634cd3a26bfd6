"""A picture of a view can be read wherever it is opened: its letters stand out, and each is drawn as it was typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.color import Color
from rich.segment import Segment
from textual.strip import Strip

from tests.tui.explorer import explorer, press, settle
from tests.tui.painted import contrast_ratio, good_terminal
from tui.export.pictures import svg_of

SVG = "{http://www.w3.org/2000/svg}"


def read_on(root: ElementTree.Element) -> Iterator[tuple[str, Color, Color]]:
    """Give what is written in a picture, in which colour and on which; white is the page that it lies on."""
    style = "".join(root.itertext())
    fills = dict(re.findall(r"\.([\w-]+) \{ fill: (#\w+)", style))
    rects = [each.attrib for each in root.iter(f"{SVG}rect") if "fill" in each.attrib]
    for text in root.iter(f"{SVG}text"):
        if not len(text):
            continue
        x, y = float(text[0].attrib["x"]) + 1, float(text.attrib["y"]) - 5
        behind = [
            each["fill"]
            for each in rects
            if 0 <= x - float(each["x"]) < float(each["width"]) and 0 <= y - float(each["y"]) < float(each["height"])
        ]
        ground = behind[-1] if behind else "#ffffff"
        yield "".join(text.itertext()), Color.parse(fills[text.attrib["class"]]), Color.parse(ground)


async def test_letters_of_pictures_are_legible_in_ansi_themes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    async with explorer("demo", size=(80, 24)) as (app, pilot):
        app.theme = "ansi"
        await settle(pilot)
        await press(pilot, "e", "S")
    (path,) = folder.glob("*.svg")
    pieces = list(read_on(ElementTree.parse(path).getroot()))
    assert len(pieces) > 20
    faint = {
        (text, ink.name, ground.name, round(ratio, 2))
        for text, ink, ground in pieces
        if re.search(r"\w", text) and (ratio := contrast_ratio(ink.get_truecolor(), ground.get_truecolor())) < 4.5
    }
    assert not faint


def test_no_font_joins_characters_of_a_picture() -> None:
    """Browsers heed the style; of others, no text may hold two characters side by side that fonts join."""
    typed = "<|start|> a->b != === <0x0A> www && ~= [bold] 10x"
    svg = svg_of([Strip([Segment(typed)])], "a token")
    assert "font-variant-ligatures: none" in svg
    root = ElementTree.fromstring(svg)
    text = next(root.iter(f"{SVG}text"))
    assert "".join(text.itertext()).split() == typed.split()
    joined = re.compile(r"[^\w\s][^\w\s]|0x|ww")
    assert not [each for each in text.itertext() if joined.search(each)]
