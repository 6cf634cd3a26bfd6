"""A key without effect says so in one line, also in a view that is still being computed, and refusals are true."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from engine.analysis import heads
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_adapters import LAYER, low_rank, write_adapter
from tests.engine.service.test_progress import hold_back
from tests.tui.explorer import (
    active_table,
    explorer,
    foot,
    press,
    screen_text,
    see,
    settle,
    title,
    type_keys,
    until,
    words,
)

TEXT = "the cat sat on the mat and the dog"


@pytest.mark.parametrize(("size", "is_hidden"), [((80, 24), True), ((160, 50), False)])
async def test_unzooming_gives_the_focus_back_to_the_tree(size: tuple[int, int], is_hidden: bool) -> None:
    async with explorer("demo", head="L0H0", size=size) as (app, pilot):
        await see(pilot, "4", "unbound:app.tree", "z", focus="view")
        assert app.main.tree_widget.display is not is_hidden
        await see(pilot, "j", "z", focus="tree")
        await see(pilot, "4", "z", "z", focus="view")  # which had the keys before
        await see(pilot, "unbound:app.tree", "z", "2", "z", view="ranks", focus="view")  # where a person has gone


async def test_norms_that_cannot_be_folded_are_not_said_to_be_folded(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("bert"), head="L0H0") as (app, pilot):
        await see(pilot, "6", "unbound:table.fold", slowly=True, no_text="--fold-norm")
        assert ":fold unfolds norms" in words(app)
        assert "folded in" not in words(app)
        await see(pilot, "unbound:table.fold", no_text="no norm before")


async def test_keys_that_do_nothing_say_why_in_a_line() -> None:
    async with explorer("demo", text=TEXT, head="L1H0") as (app, pilot):
        for keys, said in (
            ("unbound:app.by_mean", "no head is off; space switches one off, now by its mean"),
            ("O", "all heads are on"),
            ("3 >", "each cell is a single weight"),
            ("<", "the whole map is in view"),
            ("unbound:heatmap.fit", "the whole map is in view; each cell is a single weight"),
            ("T" + " enter" * 8, "this token has the largest weight"),
            ("8 .", "this is the last of "),
            (", " * 30, "this is the first of "),
            ("2" + " +" * 30, "ε 0.5 is the largest that the keys go to"),
            ("- " * 30, "ε 0.001 is the smallest that the keys go to"),
            ("P ] C C unbound:app.distance", "maps have no distance; C shows spectra, which have one"),
            ("C unbound:app.distance", "maps have no distance; C shows spectra, which have one"),
            ("unbound:app.tree gg 1 s", "nothing on screen has a scale; "),
            ("unbound:app.baseline", "only spectra of a head or a layer show chance; choose one"),
            ("unbound:app.distance", "QK at a distance needs "),
        ):
            await see(pilot, *keys.split(), foot=said)
        assert app.session.shown.distance is None
        await see(pilot, *":L1H0", "enter", "3", "i", "ctrl+u", *("a b " * 40), "enter", foot="< Zoom out")
        await see(pilot, "unbound:heatmap.fit", foot="> Zoom  ⏎ Largest")


async def test_a_condition_in_the_overview_filters_the_table_of_heads(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await see(pilot, "w", "slash", *"head = 1", text="Enter filters the table of all heads by that")
        await press(pilot, "enter")
        pane = active_table(app)
        await until(pilot, lambda: pane.counts == (2, 8))
        assert [row[2] for row in pane.table_on_screen()] == ["1", "1"]
        assert pane.grid.has_focus
        await press(pilot, "w", "slash", *"head > ", "enter")
        await until(pilot, lambda: app.main.prompt.input.has_focus)
        await see(pilot, text="it cannot be read: ")  # it is there to be mended
        filters = "Enter filters the table of all heads by that"
        await see(pilot, "escape", "unbound:app.tree", "slash", *"head > 1 and layer = 0", text=filters)
        await press(pilot, "enter")
        await until(pilot, lambda: pane.counts == (2, 8) and pane.grid.has_focus)
        assert not app.main.prompt.display


async def test_the_change_of_an_adapter_has_one_title_and_one_refusal(tiny_model: TinyModel, tmp_path: Path) -> None:
    base = tiny_model("llama")
    folder = write_adapter(tmp_path / "adapter", str(base), low_rank(f"{LAYER}.q_proj", 32, 32))
    async with explorer(folder, other=base, text=TEXT, head="L1H1", size=(200, 40)) as (app, pilot):
        await press(pilot, "3", "D")
        assert "L1H1 · other model less this one" in title(app)
        app.session.change(selected=Head("decoder-delta", 1, 1))
        refused = "a change of weights has no attention; choose the stack decoder"
        for key in ("3", "T"):
            await see(pilot, key, text=refused, no_text="other model less")
            await see(pilot, no_text="other less")
            assert app.views.attention.message == refused


async def test_the_command_in_the_menu_of_exports_is_seen_whole() -> None:
    text = "Anna has a red ball. Anna gives the red ball to Ben and Ben gives the red ball back to Anna, as ever."
    async with explorer("demo", head="L0H3", text=text) as (app, pilot):
        await press(pilot, "space", "3", "e")
        for _ in range(6):
            if "attn-tui export" in screen_text(app):
                break
            await press(pilot, "j")
        said = " ".join(words(app).replace("│", " ").split())
        assert f"--text '{text}'" in said
        assert "--off L0H3" in said


async def test_a_filter_says_and_shows_what_it_is_about(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H1") as (app, pilot):
        await press(pilot, "7")
        await see(pilot, "slash", *"head", text="Enter goes to head: ")
        table = active_table(app)
        app.post_message(events.Paste(" < 2\nand head > 0\n"))
        await until(pilot, lambda: table.counts == (1, 4))
        await press(pilot, "escape", "3")
        await press(pilot, "up", "x")
        await see(pilot, "slash", *"value > -9", says="filter: value > -9")
        await see(pilot, "enter", view="explain")
        assert app.main.exporting.shaped_by("explain") == {
            "rows": "as on screen", "text": TEXT, "position": 9, "key": 3, "where": "value > -9",
        }  # fmt: skip
        await see(pilot, "enter", view="attention")


async def test_keys_about_a_row_say_that_there_is_none_yet(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, _ = hold_back(monkeypatch, heads, "_part")
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await type_keys(pilot, *"ww")
        active_table(app).filter_by("layer = 1 and head > 1 and ov_stable_rank > 0")  # no row of the selected head
        await until(pilot, lambda: "0 of 8 so far" in screen_text(app))
        assert "computing …" in title(app)
        for key in ("P", "space", "enter", "j", "o"):
            await type_keys(pilot, key)
            assert "no row" in foot(app), key
        free.set()
        await settle(pilot)
        assert not app.session.shown.pins
        assert not app.session.shown.off.heads
        assert app.session.shown.selected == Head("decoder", 0, 0)


async def test_keys_say_that_there_is_nothing_yet_to_move_on(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (_, pilot):
        for view, said in (("3", "no map yet"), ("T", "no text yet"), ("A", "no maps yet")):
            await press(pilot, view)
            for key in ("j", "l", "pagedown", "G"):
                await see(pilot, key, foot=said)
        await see(pilot, "T", "enter", says="no weights yet; wait for the map")
