"""Several heads are switched off at once by their names, by what a filter or a search finds, and one by its row."""

from __future__ import annotations

from functools import partial

from engine.values.heads import Head, Off
from engine.values.outline import heads_named
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.opening import open_on_thread, refused
from tests.tui.explorer import active_table, command, explorer, filter_table, press, press_slowly, see, shown, until

TEXT = "the cat sat"

ONE = ("decoder",)
"""The stacks of most models."""


def test_heads_are_named_singly_by_layer_or_all_at_once(tiny_model: TinyModel) -> None:
    outline = open_on_thread(tiny_model("llama")).outline
    for text, named in (
        ("L1H3 L1H2", "L1H3 L1H2"), ("1.3, 0.0", "L1H3 L0H0"), ("l0", "L0H0 L0H1 L0H2 L0H3"),
        ("L1H1 L1", "L1H1 L1H0 L1H2 L1H3"), ("h0 decoder.L0H3", "L1H0 L0H3"),
    ):  # fmt: skip
        assert " ".join(map(str, heads_named(text, outline, Head("decoder", 1, 2)))) == named
    assert len(heads_named("all", outline)) == 8
    for text, said in (
        ("L0H1 3", "write L3 for the layer, 3.0 for a head"),
        ("L1H4", "no head L1H4: the layer has heads 0 to 3"),
        ("L7", "no attention in layer 7; decoder has it in 2 layers, 0 to 1"),
        ("ranks", "'ranks' is not a head; write it as L5H1"),
    ):
        assert said in refused(partial(heads_named, text, outline))


def test_a_head_without_a_stack_is_in_the_selected_stack(tiny_model: TinyModel) -> None:
    outline = open_on_thread(tiny_model("t5")).outline
    assert heads_named("L0H1", outline, Head("cross", 2)) == (Head("cross", 0, 1),)
    said = "any of encoder, decoder, cross; name the stack, as in encoder.L0H0"
    assert said in refused(partial(heads_named, "L0H1", outline))


def test_a_title_names_the_first_of_many_heads_that_are_off() -> None:
    heads = tuple(Head("decoder", 0, number) for number in range(9))
    assert Off(heads[:4]).text(ONE) == "L0H0, L0H1, L0H2, L0H3 off"
    assert Off(heads[:2]).text(("encoder", "decoder")) == "decoder L0H0, decoder L0H1 off"
    assert Off(heads, by_mean=True).text(ONE) == "9 heads off by their mean: L0H0, L0H1, L0H2 …"


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


async def test_off_and_on_are_completed_to_words_and_heads(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        prompt = app.main.prompt
        for keys, completed in (
            ((":", *"off", "tab"), "off "),
            ((*"l1h", "tab", "tab", "tab"), "off L1H2"),
            ((" ", *"fo", "tab"), "off L1H2 found"),
            (("ctrl+w", "enter", ":", *"on l", "tab", "tab"), "on L0H0"),
            (("escape", ":", *"by-", "tab"), "by-mean"),
        ):
            await press(pilot, *keys)
            assert prompt.input.value == completed
            assert completed != "off " or "found" in shown(prompt.message_line)
        await press(pilot, "escape", ":", *"zzz", "tab")
        assert shown(prompt.message_line) == "no completion begins like this"


async def test_off_found_switches_off_what_a_filter_or_search_found(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT) as (_, pilot):
        await press(pilot, "w", "w")
        await filter_table(pilot, "head = 2")
        await see(pilot, *":off found", "enter", off="L0H2 L1H2")
        await press(pilot, "escape", "unbound:app.tree", *"/L1H3", "enter")
        await see(pilot, *":off found", "enter", off="L0H2 L1H2 L1H3")  # the keys are the searched tree's
        await press(pilot, "4")
        await filter_table(pilot, "layer = 1 and head = 0")
        await see(pilot, *":off found", "enter", off="L0H2 L1H2 L1H3 L1H0")
        await filter_table(pilot, "layer > 9")
        await see(pilot, *":off found", "enter", text="the filter matches no head")


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
        assert shown(pane.readout_line).startswith("L0H1  ")
        await see(pilot, "4", "space", slowly=True, off="L0H1")  # the view is of the row's head too
        await press(pilot, *":L0", "enter")
        said = "L0 is a layer; type :off L0 for all its heads, or choose one and press space"
        await see(pilot, "G", "space", off="L0H1", foot=said)
        await see(pilot, *"/x y", view="circuits")
        assert app.main.prompt.input.value == "x y"
        await see(pilot, "escape", "6", "space", no_text="space Off")  # all its rows are of one head


async def test_the_command_in_the_export_menu_names_the_heads_that_are_off(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", with_head=True), text=TEXT) as (app, pilot):
        await press_slowly(pilot, "9")
        await command(pilot, "by-mean")
        await command(pilot, "off L0H1 L1H2")
        assert "--off 'L0H1 L1H2' --by-mean" in app.main.exporting.command()
