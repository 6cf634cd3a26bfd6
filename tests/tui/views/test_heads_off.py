"""Heads are switched off by their names, by a filter or a search, and by their rows, whose keys mean them."""

from __future__ import annotations

from functools import partial

from engine.values.heads import Head
from engine.values.outline import heads_named
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.opening import open_on_thread, refused
from tests.tui.explorer import active_table, explorer, filter_table, press, screen_text, see, shown, until
from tui.export.files import Choice, What

TEXT = "the cat sat"


def test_heads_are_named_singly_by_layer_or_all_at_once(tiny_model: TinyModel) -> None:
    outline = open_on_thread(tiny_model("llama")).outline
    for text, named in (
        ("L1H3 L1H2", "L1H3 L1H2"), ("1.3, 0.0", "L1H3 L0H0"), ("l0", "L0H0 L0H1 L0H2 L0H3"),
        ("L1H1 L1", "L1H1 L1H0 L1H2 L1H3"), ("h0 decoder.L0H3", "L1H0 L0H3"),
    ):  # fmt: skip
        assert " ".join(map(str, heads_named(text, outline, Head("decoder", 1, 2)))) == named
    assert len(heads_named("all", outline)) == 8
    assert "write L3 for the layer, 3.0 for a head" in refused(partial(heads_named, "L0H1 3", outline))
    outline = open_on_thread(tiny_model("t5")).outline
    assert heads_named("L0H1", outline, Head("cross", 2)) == (Head("cross", 0, 1),)
    said = "any of encoder, decoder, cross; name the stack, as in encoder.L0H0"
    assert said in refused(partial(heads_named, "L0H1", outline))


def test_off_takes_a_layer_or_several_heads(tiny_model: TinyModel) -> None:
    asked = (tiny_model("llama", with_head=True), "ablation", "--text", TEXT, "--top", "1", "--off")
    by_one = exported(*asked, "L0H0 L0H1, L0H2", "--off", "L0H3")
    by_layer = exported(*asked, "L0")
    assert by_layer == by_one
    assert by_layer[0]["off"] == "L0H0 L0H1 L0H2 L0H3"


async def test_heads_are_switched_by_their_names_and_a_wrong_name_stays_to_be_mended(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H1") as (app, pilot):
        await see(pilot, *":off L1H3 1.2", "enter", off="L1H3 L1H2", foot="L1H3, L1H2 off; O switches all on")
        await see(pilot, *":on all", "enter", off="")
        await see(pilot, *":off found", "enter", text="nothing is filtered or searched")
        await see(pilot, "escape", *":off", "enter", off="L0H1")  # the selected one
        await see(pilot, *":off L1H9", "enter", text="no head L1H9: the layer has heads 0 to 3")
        assert app.main.prompt.display
        await see(pilot, "backspace", "2", "enter", off="L0H1 L1H2")  # the digit goes into the line


async def test_off_found_switches_off_what_a_filter_or_search_found(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT) as (app, pilot):
        await press(pilot, "w", "w")
        await filter_table(pilot, "head = 2")
        active_table(app).is_unfinished = True
        await see(pilot, *":off found", "enter", text="heads is not complete yet")
        active_table(app).is_unfinished = False
        await see(pilot, "escape", *":off found", "enter", off="L0H2 L1H2")
        await press(pilot, "escape", "unbound:app.tree", *"/L1H3", "enter")
        await see(pilot, *":off found", "enter", off="L0H2 L1H2 L1H3")  # the keys are the searched tree's
        await press(pilot, "4")
        await filter_table(pilot, "layer = 1 and head = 0")
        await see(pilot, *":off found", "enter", off="L0H2 L1H2 L1H3 L1H0")


async def test_a_key_switches_the_head_of_a_row_in_every_table_of_heads(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT, size=(100, 24)) as (app, pilot):
        await press(pilot, "w", "w")
        pane = active_table(app)
        await until(pilot, lambda: pane.counts == (8, 8))
        await see(pilot, text="space Off")
        await see(pilot, "j", "space", off="L0H1", foot="L0H1 off", selected="L0H0")  # the row's, not the selected one
        assert shown(pane.readout_line).startswith("L0H1 off  ")
        lines = map(pane.grid.render_line, range(pane.grid.size.height))
        struck = [line.text.split()[1] for line in lines if any(each.style and each.style.strike for each in line)]
        assert struck == ["1"]
        await see(pilot, "space", off="")
        await see(pilot, "4", "space", slowly=True, off="L0H1")  # the view is of the row's head too
        await press(pilot, *":L0", "enter")
        said = "L0 is a layer; type :off L0 for all its heads, or choose one and press space"
        await see(pilot, "G", "space", off="L0H1", foot=said)


async def test_a_file_and_its_command_name_the_heads_that_are_off(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", with_head=True), text=TEXT) as (app, pilot):
        files = app.main.exporting

        def name() -> str:
            return files.suggest(Choice(What.VIEW, "csv")).stem.partition("-")[2]

        await press(pilot, "9", *":by-mean", "enter", *":off L0H1 L1H2", "enter")
        assert "--off 'L0H1 L1H2'" in files.command()
        assert name() == "without-L0H1-L1H2-by-mean-ablation"
        await press(pilot, "1")
        assert "without" not in name(), "ranks are of the weights"


async def test_keys_pin_export_and_show_the_head_of_the_row(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (app, pilot):
        await press(pilot, "w", "w")
        await see(pilot, *"jjP", pinned="L0H2", selected="L0H0", foot="L0H2 pinned; C compares")
        await see(pilot, *"jP", foot="L0H2, L0H3 pinned")
        await see(pilot, "P", foot="L0H3 unpinned; L0H2 still pinned")
        await see(pilot, "e", text="matrices of L0H3")
        await see(pilot, "escape", ":", *"off", "enter", off="L0H3")
        await see(pilot, "space", "3", title="attention L0H3")
        await see(pilot, "H", view="heads", selected="L0H0")
        for keys, view in (("2", "ranks"), ("T", "text"), ([*":att", "enter"], "attention"), ("w", "overview")):
            app.session.change(selected=Head("decoder", 0, 0))
            await press(pilot, *":heads", "enter")
            await see(pilot, "G", "k", *keys, view=view, selected="L1H2")
        app.session.change(selected=Head("decoder", 0, 0))
        await press(pilot, *":heads", "enter")
        await filter_table(pilot, "head = 0 or head = 3")
        for key, head in ("]", "L0H1"), ("]", "L0H2"), ("]", "L0H3"), ("[", "L0H2"), ("[", "L0H1"):
            await see(pilot, key, selected=head)
            is_said = f"the filter hides the rows of {head}" in screen_text(app)
            assert is_said is (head != "L0H3")
        await see(pilot, "3", title="attention L0H1")  # the one that the titles name
        await press(pilot, *"w/layer > 9", "enter")
        for key in ("space", "enter"):
            await see(pilot, key, foot="no row matches; / changes the filter")
            await press(pilot, "j")
