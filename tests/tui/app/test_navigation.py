"""Navigation: the prompt, the search in the tree, the history, and escape."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import LayerOutline, ModelOutline
from tests.conftest import TinyModel
from tests.exporting import as_exported, written
from tests.tui.explorer import active_table, explorer, press, see, title
from tui.state.places import find, parse_place


def head(layer: int, number: int = -1, stack: str = "decoder") -> Head:
    return Head(stack, layer, number)


def outline(*stacks: tuple[str, int, int]) -> ModelOutline:
    """Make a model of stacks, each with so many layers of so many heads."""
    layers = tuple(
        LayerOutline(stack, number, heads, heads, 8, 8, 8, 8, 2, 2, "attention", ("soft cap",) if number == 1 else ())
        for stack, count, heads in stacks
        for number in range(count)
    )
    return ModelOutline("made", "made", "made", layers, "float32", 0, 0, None)


ONE, TWO = outline(("decoder", 12, 16)), outline(("encoder", 3, 4), ("decoder", 3, 4))


VIEWS = ("spectra", "ranks", "circuits", "changes")


@pytest.mark.parametrize(("text", "place"), [
    ("L5H3", head(5, 3)), ("l5h3", head(5, 3)), ("5.3", head(5, 3)), ("5 3", head(5, 3)), (" 5, 3 ", head(5, 3)),
    ("L5 H3", head(5, 3)), ("Layer 5, head 3", head(5, 3)), ("layer 5", head(5)), ("L5", head(5)), ("5", head(5)),
    ("head 3", head(4, 3)), ("h11", head(4, 11)), ("decoder.L2H1", head(2, 1)), ("decoder L2H1", head(2, 1)),
    ("ranks", "ranks"), ("RA", "ranks"), ("sp", "spectra"),
])  # fmt: skip
def test_a_place_is_read_from_what_is_typed(text: str, place: Head | str) -> None:
    assert parse_place(text, ONE, head(4, 2), VIEWS) == place


@pytest.mark.parametrize(("text", "said"), [
    ("c", "circuits, changes"), ("L12", "decoder has it in 12 layers, 0 to 11"), ("5.16", "heads 0 to 15"),
    ("h16", "heads 0 to 15"),
    ("nowhere", "neither a head nor a view"), ("encoder.L0H0", "no stack 'encoder'"),
])  # fmt: skip
def test_a_missing_place_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        parse_place(text, ONE, head(4, 2), VIEWS)


def test_a_head_without_a_stack_is_of_the_stack_that_one_is_in() -> None:
    assert parse_place("1.2", TWO, head(0, 0, "decoder"), ()) == head(1, 2, "decoder")
    assert parse_place("1.2", TWO, head(0, 0, "encoder"), ()) == head(1, 2, "encoder")
    assert parse_place("L1", TWO, None, ()) == head(1, -1, "encoder")
    assert parse_place("encoder.2.3", TWO, head(0, 0, "decoder"), ()) == head(2, 3, "encoder")
    with pytest.raises(EngineError, match="h3 needs a selected layer; write the layer too: L0h3"):
        parse_place("h3", TWO, None, ())


def test_a_search_finds_names_labels_and_marks_in_the_order_of_the_tree() -> None:
    one, two = ONE, TWO
    labels = {head(2, 7): "induction", head(0, 1): "previous", head(4, 0): "induction"}
    assert find("5.3", one, labels) == find("L5H3", one, labels) == find("5 3", one, labels) == (head(5, 3),)
    assert find("L5", one, labels) == (head(5),)
    assert find("H3", one, labels) == tuple(head(layer, 3) for layer in range(12))
    assert find("indu", one, labels) == (head(2, 7), head(4, 0))
    assert find("L4 indu", one, labels) == (head(4, 0),)
    assert find("soft", one, labels) == (head(1),)
    assert find("enc", two, {}) == tuple(head(layer, -1, "encoder") for layer in range(3))
    assert find("enc h3", two, {}) == tuple(head(layer, 3, "encoder") for layer in range(3))
    marked = {"pinned *": (head(3, 1),), "off": (head(2, 7),)}
    assert find("pin", one, labels, marked) == find("*", one, labels, marked) == (head(3, 1),)
    assert find("off", one, labels, marked) == find("indu off", one, labels, marked) == (head(2, 7),)
    assert find(" ", one, labels) == find("nothing", one, labels) == ()


async def test_the_prompt_goes_anywhere_fast_keys_follow_and_gg_leads_to_the_first_line(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat", head="L0H0") as (app, pilot):
        await see(pilot, "colon", *"L1H3", "enter", selected="L1H3", view="spectra", focus="tree")
        assert not app.main.prompt.display
        await see(pilot, "colon", *"ran", "tab", "enter", selected="L1H3", view="ranks")
        await see(pilot, "colon", *"h0", "enter", "{", selected="L0H0", view="ranks", focus="view")
        await see(pilot, "colon", *"7.7", "enter", text="no attention in layer 7", focus="prompt")
        await see(pilot, "escape", focus="view")
        await see(pilot, "j", "j", "g", "g", selected="L0H0", view="ranks")
        await see(pilot, "unbound:app.tree", "G", "g", "g", selected="None", view="ranks")
        await see(pilot, "enter", "colon", *"1.1", "enter", selected="L1H1")  # which closes the whole tree first
        await press(pilot, "P")
        for view in ("overview", "text", "maps", "spectra", "compare", "weights"):
            await see(pilot, "colon", *view, "enter", view=view)
        await see(pilot, "colon", text="L1H3  1.3  h3")
        await see(pilot, *"nonsense", "enter", text="no such head, view or command; ^p: all commands, ?: keys ")
        await see(pilot, "escape", "unbound:app.tree", "i", "ctrl+u", "g", "g", selected="L1H1")
        assert app.main.sentence_input.value == "gg"


async def test_search_opens_layers_for_matches_and_esc_goes_back(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        tree = app.main.tree_widget
        await see(pilot, "j", "slash", *"L1H2", selected="L1H2", text="1 of 1")
        assert tree.is_open(head(1, 2))
        await see(pilot, "escape", selected="L0H1")
        assert not tree.is_open(head(1, 2))
        assert tree.found == frozenset()
        await see(pilot, "slash", *"h3", "enter", selected="L0H3")
        assert tree.found == {head(0, 3), head(1, 3)}
        await see(pilot, "n", selected="L1H3")
        await see(pilot, "n", selected="L0H3", text="from the top again")
        await see(pilot, "N", selected="L1H3", text="from the end again")


async def test_back_and_forward_restore_head_and_view(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H0") as (app, pilot):
        await see(pilot, "H", foot="this is the first place; nothing to go back to")
        await press(pilot, "5")
        await press(pilot, "j", "j", "j")
        assert active_table(app).grid.place == 3
        await press(pilot, "enter")
        fed = str(app.session.shown.selected)
        assert fed.startswith("L0H")
        await press(pilot, "1")
        await see(pilot, "colon", *"ranks", "enter", selected=fed, view="ranks")
        await see(pilot, "H", selected=fed, view="spectra")
        while app.session.shown.selected != head(1, 0):
            await press(pilot, "H")
        await see(pilot, view="composition", focus="view")
        await see(pilot, "L", selected=fed)
        await see(pilot, "L", selected=fed, view="ranks")


async def test_escape_removes_a_filter_and_goes_from_a_large_map_to_the_small_maps_and_then_to_the_tree(
    tiny_model: TinyModel,
) -> None:
    async with explorer(tiny_model("llama"), text="the cat sat", head="L0H0") as (app, pilot):
        await see(pilot, "4", "slash", *"layer = 1", "enter", text="esc All rows")
        assert "layer = 1" in title(app)
        await see(pilot, "escape", focus="view", no_text="layer = 1")
        await see(pilot, "escape", focus="tree")
        await see(pilot, "A", "right", "enter", selected="L0H1", view="attention", text="esc Small maps")
        await see(pilot, "escape", selected="L0H1", view="maps", focus="view")
        await see(pilot, "escape", focus="tree")
        await see(pilot, "3", "escape", view="attention", focus="tree")  # it was not opened from the small maps now


async def test_x_explains_a_cell_of_the_map_enter_on_a_term_goes_to_it_and_escape_back(folder: Path) -> None:
    async with explorer("demo", text="Mia saw a fox", head="L1H0") as (app, pilot):
        await press(pilot, "3")
        await see(
            pilot, "gg", "home", "down", "down", "a", "x", title="explain L1H0 not the mean: q 2 k 0", readout="sum "
        )
        pane = active_table(app)
        await press(pilot, "e", "v")
        assert written(folder, "*L1H0-explain.csv") == as_exported(pane.table_on_screen())
        await see(pilot, "down", "down", text="⏎ Its cell")
        await see(pilot, "enter", selected="L1H0", view="attention", focus="view", text="esc Terms")
        assert title(app).startswith("attention L1H0"), "and not the mean that was on screen"
        assert app.views.attention.cell == (2, 0)
        await see(pilot, "escape", view="explain", focus="view")
        assert pane.grid.cursor[0] == 2
        await see(pilot, "escape", view="attention", no_text="esc Terms")
        await see(pilot, "down", "x", view="explain")
        assert re.match(r"explain L1H0 q(uery)? 3 ", title(app))
        await see(pilot, "escape", "escape", focus="tree")


async def test_back_is_offered_with_a_history_alone_and_gives_the_keys_to_the_view_that_had_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tui.state.places.REST", 0.0)
    async with explorer("demo", head="L0H0", size=(160, 50)) as (_, pilot):
        await see(pilot, no_text="H Back")
        await see(pilot, "w", "w", view="heads")
        await see(pilot, "H", view="overview", focus="view")
        await see(pilot, "L", "unbound:app.tree", text="H Back")
