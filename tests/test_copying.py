"""What is copied says what it is of: a rollout is no mean, and of heads beside each other every one has its part."""

from __future__ import annotations

import csv
import io

from textual.pilot import Pilot

from tests.explorer import explorer, settle
from tui.app import Explorer

TEXT = "the cat sat on the mat"


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def copied(app: Explorer) -> list[list[str]]:
    """Give the lines of what was copied last."""
    return list(csv.reader(io.StringIO(app.clipboard), delimiter="\t"))


async def test_the_coloured_text_of_a_rollout_is_copied_as_one() -> None:
    async with explorer("demo", text=TEXT, head="L0H0") as (app, pilot):
        await press(pilot, "3", "a", "a", "a", "T", "Y")
        assert copied(app)[0][:3] == ["decoder", "mean", "mean"]
        await press(pilot, "a", "Y")
        assert copied(app)[0][:3] == ["decoder", "rollout", "rollout"]
        await press(pilot, "ctrl+y")
        names, *rows = copied(app)
        assert names[:3] == ["stack", "layer", "head"]
        assert {tuple(row[:3]) for row in rows} == {("decoder", "rollout", "rollout")}
