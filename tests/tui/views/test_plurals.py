"""One thing is said to be one: no view, toast or message of a model with a single head uses the plural."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, outline_of, screen_text, settle, type_keys
from tui.drawing.facts import model_facts

ONE = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}

WRONG = re.compile(r"\b1 (?!Δ)[a-z]{3,}s\b(?!:)|\b(\d+) to \1\b")
"""One of several, and a range of one number."""

NAMED = {"\n": "enter", "\x1b": "escape", "/": "slash"}
"""Keys by what is typed."""


async def test_one_head_of_one_layer_is_in_the_singular(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []
    async with explorer(tiny_model("llama", **ONE), text="the", size=(160, 50)) as (app, pilot):
        for keys in ("PC", "A", "3Y", "2/head = 0 and matrix = Q\n", "ev", ":L0H3\n", "\x1b:L9\n"):
            await type_keys(pilot, *(NAMED.get(key, key) for key in keys))
            await settle(pilot)
            seen += [screen_text(app), *(str(each.message) for each in app._notifications)]
        seen.append(model_facts(outline_of(app)))
    everything = "\n".join(seen)
    for said in ("1 layer × 1 head ", "compare spectra 1 head ", "1 row, ", "has head 0 alone"):
        assert said in everything, said
    assert [found.group() for found in WRONG.finditer(everything)] == []
