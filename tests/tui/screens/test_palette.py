"""The palette: heads, views, commands and themes by their names."""

from __future__ import annotations

import pytest
from textual.events import Click
from textual.pilot import Pilot
from textual.widgets import OptionList

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, press, screen_text, settle, type_keys
from tui.app.explorer import Explorer
from tui.screens.export_screen import ExportScreen
from tui.screens.palette import Palette
from tui.widgets.field import Field


async def search(app: Explorer, pilot: Pilot[None], text: str) -> list[str]:
    """Open the palette, type, and give what it offers."""
    await press(pilot, "ctrl+p")
    assert isinstance(app.screen, Palette)
    await type_keys(pilot, *text)
    await app.workers.wait_for_complete()
    await settle(pilot)
    options = app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(place).prompt) for place in range(options.option_count)]


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
        assert any(each.startswith("Back") for each in await search(app, pilot, ""))
        await type_keys(pilot, *"0.1", "enter")  # without waiting for what is found
        await settle(pilot)
        assert app.session.shown.selected == Head("decoder", 0, 1)


CALLED = {
    "patterns": "Patterns  (7)",
    "lens": "Lens view",
    "dark": "theme dark",
    "Theme light": "theme light",
    "next-layer": "Next layer  (})",
    "help": "Help: the keys  (?)",
    "off": "Switch the head off or on  (space)",
    "ON": "Switch the head off or on  (space)",
    "Larger epsilon": "larger epsilon · Larger ε  (+ =)",
    "layer 1": "L1",
    "head 3": "L0H3",
    "Layer 1 head 2": "L1H2",
    "logit lens": "logit lens · Lens view",
}
"""What is typed into the palette, and what it offers first."""


@pytest.mark.parametrize(("kind", "called"), [("llama", CALLED), ("t5", {"cross": "cross L0"})])
async def test_the_palette_puts_exact_names_first(tiny_model: TinyModel, kind: str, called: dict[str, str]) -> None:
    async with explorer(tiny_model(kind)) as (app, pilot):
        for typed, first in called.items():
            found = await search(app, pilot, typed)
            assert found[0] == first
            assert len(set(found)) == len(found), typed
            assert typed == "ON" or not any(each.startswith("Export") for each in found), "which writes a file at once"
            await press(pilot, "escape")


async def test_the_palette_finds_export_by_formats_and_says_at_once_that_nothing_matches() -> None:
    async with explorer("demo", head="L0H0") as (app, pilot):
        for typed in ("csv", "NPZ", "parquet", "save"):
            found = await search(app, pilot, typed)
            assert found == [f"{typed.lower()} · Export  (e)"]
            await press(pilot, "enter")
            assert isinstance(app.screen, ExportScreen)
            await press(pilot, "escape")
        for text in ("zzz", "undo", "png"):  # of the last two the letters are scattered over many descriptions
            assert len(await search(app, pilot, text)) == 1
            assert screen_text(app).count(f"nothing matches '{text}'") == 1
            await press(pilot, "escape")


async def test_the_palette_knows_a_layers_heads_the_prompt_and_the_commands_of_the_view(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        assert (await search(app, pilot, "L1"))[:5] == ["L1", "L1H0", "L1H1", "L1H2", "L1H3"]
        await press(pilot, "ctrl+n", "ctrl+n", "ctrl+n", "ctrl+p", "enter")
        assert app.session.shown.selected == Head("decoder", 1, 1)
        assert (await search(app, pilot, "go to"))[0] == "Go to, or do, anything by name  (:)"
        await press(pilot, "enter")
        assert app.focused is app.main.prompt.input
        await press(pilot, *"0.3", "enter")
        assert app.session.shown.selected == Head("decoder", 0, 3)
        await press(pilot, "4", "unbound:app.tree")
        assert (await search(app, pilot, "sort"))[0] == "Sort by this column: down, up, as it was"
        await press(pilot, "enter")
        assert active_table(app).grid._shown.sort is not None


async def test_a_second_key_that_leaves_the_palette_does_not_close_the_explorer() -> None:
    async with explorer("demo") as (app, pilot):
        await press(pilot, "ctrl+p")
        field = app.screen.query_one(Field)
        app.screen.dismiss()
        await field.action_copy()
        await settle(pilot)
        assert app.screen is app.main
        assert app.unexpected_error is None


async def test_a_click_that_the_terminal_has_become_too_small_for_is_ignored() -> None:
    async with explorer("demo") as (app, pilot):
        await press(pilot, "ctrl+p")
        palette = app.screen
        palette.post_message(Click(palette, 98, 25, 0, 0, 1, False, False, False, 98, 25))
        await settle(pilot)
        assert app.screen is palette
