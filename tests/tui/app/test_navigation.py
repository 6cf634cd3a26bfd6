"""Navigation: the prompt, the search in the tree, back and forward, and early keys."""

from __future__ import annotations

import pytest

from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import LayerOutline, ModelOutline
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, foot, press, screen_text, settle, shown
from tui.app.explorer import Explorer
from tui.state.places import PlaceHistory, parse_place, split_digits
from tui.state.session import Shown
from tui.state.tree_search import find, lines_of


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
    ("+1", head(5, 2)), ("-4", head(0, 2)), ("ranks", "ranks"), ("RA", "ranks"), ("sp", "spectra"),
])  # fmt: skip
def test_a_place_is_read_from_what_is_typed(text: str, place: Head | str) -> None:
    assert parse_place(text, ONE, head(4, 2), VIEWS) == place


@pytest.mark.parametrize(("text", "said"), [
    ("c", "circuits, changes"), ("L12", "decoder has it in 12 layers, 0 to 11"), ("5.16", "heads 0 to 15"),
    ("h16", "heads 0 to 15"), ("+8", "the last is L11"), ("-5", "the first is L0"),
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


def test_digits_alone_are_every_head_that_they_may_mean() -> None:
    assert split_digits("112", ONE, None) == (head(1, 12), head(11, 2))
    assert split_digits("x1", ONE, None) == ()


def test_a_search_finds_names_labels_and_marks_in_the_order_of_the_tree() -> None:
    one, two = lines_of(ONE), lines_of(TWO)
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


def test_history_keeps_places_with_a_longer_stay_and_cuts_the_forward_ones() -> None:
    now = [0.0]
    history = PlaceHistory(lambda: now[0])

    def stay(number: int, seconds: float) -> None:
        history.move(Shown(head(0, number), "spectra"))
        now[0] += seconds

    def visited(step: int) -> int | None:
        place = history.step(step)
        return None if place is None or place.selected is None else place.selected.head

    for number, seconds in ((0, 2.0), (1, 0.03), (2, 0.03), (3, 2.0), (4, 0.03), (5, 2.0)):
        stay(number, seconds)
    assert [visited(-1), visited(-1), visited(-1)] == [3, 0, None]
    assert [visited(1), visited(1), visited(1)] == [3, 5, None]
    assert visited(-1) == 3
    stay(7, 2.0)
    assert visited(1) is None, "a new visit cuts what was forward"
    assert [visited(-1), visited(-1)] == [3, 0]


def test_a_place_left_by_a_jump_counts_however_short_the_stay() -> None:
    history = PlaceHistory(lambda: 0.0)
    history.move(Shown(head(0, 0), "changes"))
    history.jump()
    history.move(Shown(head(3, 1), "changes"))
    assert history.step(-1) == Shown(head(0, 0), "changes")


def there(app: Explorer) -> tuple[Head | None, str]:
    """Give the head and the view that are looked at."""
    return app.session.shown.selected, app.views.active.view


async def test_the_prompt_goes_anywhere_by_name_fast_keys_follow_and_gg_leads_to_the_first_line(
    tiny_model: TinyModel,
) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        await press(pilot, "colon", *"L1H3", "enter")
        assert there(app) == (head(1, 3), "spectra")
        assert app.main.tree_widget.has_focus
        assert not app.main.prompt.display
        await press(pilot, "colon", *"ran", "tab")
        assert app.main.prompt.input.value == "ranks"
        await press(pilot, "enter")
        assert there(app) == (head(1, 3), "ranks")
        await press(pilot, "colon", *"h0", "enter", "colon", *"-1", "enter")
        assert there(app) == (head(0, 0), "ranks")
        assert app.views.ranks.grid.has_focus
        await press(pilot, "colon", *"7.7", "enter")
        assert "no attention in layer 7" in shown(app.main.prompt.message_line)
        assert "no attention in layer 7" in foot(app)
        assert app.main.prompt.input.has_focus
        await press(pilot, "escape")
        assert app.views.ranks.grid.has_focus
        await press(pilot, "j", "j", "g", "g")
        assert there(app) == (head(0, 0), "ranks")
        await press(pilot, "unbound:app.tree", "G", "g", "g")
        assert there(app) == (None, "ranks")
        await press(pilot, "enter", "colon", *"1.1", "enter")  # which closes the whole tree first
        assert app.main.tree_widget.cursor_node is not None
        assert app.main.tree_widget.cursor_node.data == app.session.shown.selected == head(1, 1)
        await press(pilot, "colon", *"1.1", "enter", "j", "colon", *"weights", "enter")
        assert there(app) == (head(1, 2), "weights")
        await press(pilot, "unbound:app.tree", "g", "g", "j")
        assert app.session.shown.selected == head(0)


async def test_a_letter_g_is_typed_in_a_sentence_and_in_an_answer(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        await press(pilot, "i", "g", "g")
        assert app.main.sentence_input.value == "gg"
        await press(pilot, "escape", "colon", "x", "g")
        assert app.main.prompt.input.value == "xg"
        await press(pilot, "backspace", "backspace", "backspace")
        assert not app.main.prompt.display
        assert app.main.tree_widget.has_focus


async def test_search_opens_layers_for_matches_and_esc_goes_back(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        tree = app.main.tree_widget
        await press(pilot, "j", "slash", *"L1H2")
        assert app.session.shown.selected == head(1, 2)
        assert tree.is_open(head(1, 2))
        assert "1 of 1" in foot(app)
        await press(pilot, "escape")
        assert app.session.shown.selected == head(0, 1)
        assert not tree.is_open(head(1, 2))
        assert tree.found == frozenset()
        await press(pilot, "slash", *"h3", "enter")
        assert (app.session.shown.selected, set(tree.found)) == (head(0, 3), {head(0, 3), head(1, 3)})
        for key, layer, said in (("n", 1, "2 of 2"), ("n", 0, "from the top again"), ("N", 1, "from the end again")):
            await press(pilot, key)
            assert app.session.shown.selected == head(layer, 3)
            assert said in foot(app)
        await press(pilot, "slash", *"rank < 20")
        assert "Enter filters the table of all heads" in foot(app)
        await press(pilot, "escape")
        assert app.session.shown.selected == head(1, 3)
        await press(pilot, "slash", *"L1H1")
        await pilot.click("#tree", offset=(9, 3))
        await settle(pilot)
        assert app.session.shown.selected == head(0, 1), "the mouse leads elsewhere, and the line goes away"
        assert not app.main.prompt.display


async def test_back_and_forward_restore_head_and_view(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H0") as (app, pilot):
        await press(pilot, "H")
        assert "nothing to go back to" in foot(app)
        await press(pilot, "5")
        await press(pilot, "j", "j", "j")
        pane = active_table(app)
        assert pane.grid.place == 3
        await press(pilot, "enter")
        fed = app.session.shown.selected
        assert fed is not None
        assert fed.layer == 0
        await press(pilot, "1")
        await press(pilot, "colon", *"ranks", "enter")
        assert there(app) == (fed, "ranks")
        await press(pilot, "H")
        assert there(app) == (fed, "spectra")
        while app.session.shown.selected != head(1, 0):
            await press(pilot, "H")
        assert there(app) == (head(1, 0), "composition")
        assert pane.grid.has_focus
        await press(pilot, "L")
        assert app.session.shown.selected == fed
        await press(pilot, "L")
        assert there(app) != (fed, "composition")


async def test_the_prompt_knows_every_view_by_its_name_and_by_its_title(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat", head="L1H2") as (app, pilot):
        for typed, view in (
            ("overview", "overview"), ("text", "text"), ("maps", "maps"), ("spectra", "spectra"),
            ("coloured", "text"), ("small maps", "maps"), ("where heads", "patterns"),
        ):  # fmt: skip
            await press(pilot, "colon", *typed, "enter")
            assert app.views.active.view == view, typed
        await press(pilot, "unbound:app.tree", "P", "colon", *"compare", "enter")
        assert app.views.active.view == "compare"
        await press(pilot, "colon", *"sentences", "enter")
        assert "d Forget" in screen_text(app)
        await press(pilot, "escape", "colon")
        assert "L1H3  1.3  h3" in screen_text(app)
        await press(pilot, *"nonsense")
        assert "nonsense" in foot(app)
        await press(pilot, "enter")
        assert "no such head, view or command; ^p: all commands, ?: keys " in screen_text(app)
        await press(pilot, "escape", "ctrl+p", *"5.3")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "there is no attention in layer 5; decoder has it in 2 layers" in screen_text(app)
