"""One thing is said to be one: no view, toast or message of a model with a single head uses the plural."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from tests.conftest import TinyModel
from tests.tui.explorer import command, explorer, filter_table, outline_of, press, screen_text
from tui.drawing.facts import model_facts

ONE = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}

WRONG = re.compile(r"\b1 (?!Δ)[a-z]{3,}s\b(?!:)|\b(\d+) to \1\b")
"""One of several, and a range of one number."""


async def test_one_head_of_one_layer_is_in_the_singular(tiny_model: TinyModel, folder: Path) -> None:
    seen: list[str] = []
    async with explorer(tiny_model("llama", **ONE), text="the", size=(160, 50)) as (app, pilot):
        for act in (
            partial(press, pilot, "P", "C"),
            partial(press, pilot, "A"),
            partial(press, pilot, "3", "Y"),
            partial(press, pilot, "2"),
            partial(filter_table, pilot, "head = 0 and matrix = Q"),
            partial(press, pilot, "e", "v"),
            partial(command, pilot, "L0H3"),
            partial(command, pilot, "L9"),
        ):
            await act()
            seen += [screen_text(app), *(str(each.message) for each in app._notifications)]
        seen.append(model_facts(outline_of(app)))
    everything = "\n".join(seen)
    for said in ("1 layer × 1 head ", "compare spectra 1 head ", "1 row, ", "has head 0 alone"):
        assert said in everything, said
    assert [found.group() for found in WRONG.finditer(everything)] == []
