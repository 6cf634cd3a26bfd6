"""The palette: heads, views, commands and themes by their names."""

from __future__ import annotations

from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, press, screen_text, settle
from tui.app.explorer import Explorer
from tui.screens.export_screen import ExportScreen
from tui.screens.palette import Palette


async def search(app: Explorer, pilot: Pilot[None], text: str) -> list[str]:
    """Open the palette, type, and give what it offers."""
    await press(pilot, "ctrl+p")
    assert isinstance(app.screen, Palette)
    app.screen.query_one(Input).value = text
    await pilot.pause()
    await app.workers.wait_for_complete()
    await settle(pilot)
    options = app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(place).prompt) for place in range(options.option_count)]


CALLED = {
    "patterns": "Patterns  (7)",
    "lens": "Lens view",
    "Theme light": "theme light",
    "next-layer": "Next layer  (})",
    "help": "Help: the keys  (?)",
    "off": "Switch the head off or on  (space)",
    "Larger epsilon": "larger epsilon · Larger ε  (+ =)",
    "Layer 1 head 2": "L1H2",
    "logit lens": "logit lens · Lens view",
}
"""What is typed into the palette, and what it offers first."""


async def test_the_palette_goes_to_heads_and_views_and_runs_commands(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        assert (await search(app, pilot, "1.2"))[0] == "L1H2"
        await press(pilot, "enter")
        assert app.session.shown.selected == Head("decoder", 1, 2)
        assert (await search(app, pilot, "0.3"))[0] == "L0H3"
        await press(pilot, "escape")
        assert app.screen is app.screen_stack[0]
        assert "Circuits  (4)" in await search(app, pilot, "circuits")
        await press(pilot, "enter")
        assert app.views.active.view == "circuits"
        await search(app, pilot, "theme nord")
        await press(pilot, "enter")
        assert app.theme == "nord"
        assert (await search(app, pilot, "L1"))[:5] == ["L1", "L1H0", "L1H1", "L1H2", "L1H3"]
        await press(pilot, "ctrl+end", "ctrl+home", "ctrl+n", "ctrl+n", "ctrl+n", "ctrl+p", "enter")
        assert app.session.shown.selected == Head("decoder", 1, 1)
        await press(pilot, "4", "unbound:app.tree")
        assert (await search(app, pilot, "sort"))[0] == "Sort by this column: down, up, as it was"
        await press(pilot, "enter")
        assert active_table(app).grid.sort is not None
        for typed, first in CALLED.items():
            found = await search(app, pilot, typed)
            assert found[0] == first
            assert len(set(found)) == len(found), typed
            await press(pilot, "escape")
        assert await search(app, pilot, "NPZ") == ["npz · Export  (e)"]
        await press(pilot, "enter")
        assert isinstance(app.screen, ExportScreen)
        await press(pilot, "escape")
        for typed, said in (
            ("undo", "nothing matches 'undo'"),  # whose letters are scattered over many descriptions
            ("5.3", "no attention in layer 5; decoder has it in 2 layers"),
        ):
            await search(app, pilot, typed)
            assert screen_text(app).count(said) == 1
            await press(pilot, "escape")


async def test_the_palette_and_the_prompt_know_the_stacks(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("t5")) as (app, pilot):
        assert (await search(app, pilot, "cross"))[0] == "cross L0"
        await press(pilot, "escape", ":", *"off l1h2", "tab", "tab", "tab")
        assert app.main.prompt.input.value == "off cross.L1H2"
        await press(pilot, *["backspace"] * 20, *"cross.l1h", "tab", "tab", "enter")
        assert app.session.shown.selected == Head("cross", 1, 1)
