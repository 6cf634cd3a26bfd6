"""What every line goes through before it is painted takes as many cells as before, whatever was typed or pasted."""

from __future__ import annotations

import itertools
import unicodedata

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from tests.tui.explorer import explorer, press, type_keys
from tests.tui.painted import NASTY
from tui.toolkit.line_filters import SafeCharacters, ascii_cells, safe_cells

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
"""One picture of three people, which the toolkit takes for two cells, and terminals for two or for six."""


def test_filtered_lines_keep_their_width_on_every_terminal() -> None:
    for parts in itertools.product([*NASTY, FAMILY * 2, "\u2764\ufe0f\ufe0f", "x"], repeat=2):
        text = "".join(parts)
        assert cell_len(settled := safe_cells(text)) == cell_len(text), ascii(text)
        assert sum(map(cell_len, settled)) == cell_len(text), "no character's width depends on the others"
        assert len(ascii_cells(settled)) == cell_len(text), ascii(text)


def test_characters_that_join_turn_or_move_are_filtered() -> None:
    unsettled = {"\ufe0e", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400))}
    for character in map(chr, (*range(0x3100), *range(0xF900, 0x10000), *range(0x1F300, 0x1F600), 0xD800, 0xE0041)):
        (line,) = SafeCharacters().apply([Segment(f"a{character}b")], Color(0, 0, 0))
        is_settled = (
            unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in unsettled
        )
        assert (character in line.text) is is_settled, ascii(character)


async def test_a_field_keeps_every_part_of_a_joined_emoji() -> None:
    async with explorer("demo") as (app, pilot):
        await type_keys(pilot, "i", "ctrl+u", "x", *"\U0001f469\u200d\U0001f469", "left", "left", "\u200c")
        assert app.main.sentence_input.value == "x\U0001f469\u200c\u200d\U0001f469"
        await press(pilot, "enter")
        assert app.session.shown.sentence == "x\U0001f469\u200c\u200d\U0001f469"
