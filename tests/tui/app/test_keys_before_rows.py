"""Keys in a view that is still being computed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.analysis import heads
from engine.analysis.heads import Part
from engine.values.heads import Head
from engine.values.progress import Work
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, foot, screen_text, settle, type_keys, until

TEXT = "the cat sat on the mat"


def heads_held_back(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Have no row of the table of all heads come before an event is set."""
    free, make = threading.Event(), heads._part

    def late(*asked: Any) -> Work[Part]:
        while not free.wait(0.01):
            yield None
        return (yield from make(*asked))

    monkeypatch.setattr(heads, "_part", late)
    return free


CONDITION = "/layer = 1 and head > 1 and ov_stable_rank > 0"
"""A filter that leaves no row of the head that is selected."""


async def test_keys_about_a_row_say_that_there_is_none_yet(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = heads_held_back(monkeypatch)
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, *"ww", *CONDITION, "enter")
        await until(pilot, lambda: "0 of 8 so far" in screen_text(app))
        for key, said in (
            ("P", "no rows yet"),
            ("space", "no row"),
            ("enter", "no row"),
            ("j", "no row"),
            ("o", "no row"),
        ):
            await type_keys(pilot, key)
            assert said in foot(app)
        free.set()
        await settle(pilot)
        assert not app.session.shown.pins
        assert not app.session.shown.off.heads
        assert app.session.shown.selected == Head("decoder", 0, 0)


async def test_keys_say_that_there_is_nothing_yet_to_move_on(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        for view, said in (("3", "no map yet"), ("T", "no text yet"), ("A", "no maps yet")):
            await type_keys(pilot, view)
            for key in ("j", "l", "pagedown", "G"):
                await type_keys(pilot, key)
                assert said in foot(app), (view, key)
