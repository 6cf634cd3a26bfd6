"""The help, with the marks of heads that it explains, and the commands of the prompt."""

from __future__ import annotations

from textual.widgets import Input

from engine.architectures.rules import NEIGHBOUR_MARKS, SETTING_MARKS, TYPE_MARKS
from engine.values.outline import MARKS
from tests.tui.explorer import active_table, explorer, press, resize, screen_text, see, type_keys, until, words


async def test_help_fits_a_large_screen_and_two_pages_of_a_small_one_and_is_searched() -> None:
    async with explorer("demo", head="L1H0", text="the cat") as (app, pilot):
        for size, pages in (((100, 50), 1), ((80, 24), 2)):
            await resize(pilot, *size)
            for view in ("3", "w"):
                await press(pilot, view, "question_mark")
                lines = app.screen.query_one("#list")
                assert lines.virtual_size.height <= pages * lines.scrollable_content_region.height, (size, view)
                first = next(line for line in screen_text(app).splitlines() if "views" in line)
                assert any(title in first for title in ("in the", "heads", "sentence")), "columns"
                await type_keys(pilot, "escape")
        await type_keys(pilot, "unbound:app.tree", "question_mark", "slash")
        for text, wanted, not_wanted in (
            ("zoom", "Zoom the panel", "Quit"),
            ("ctrl+p", "List all commands", "Ranks"),
            ("H", "Back, forward", "Quit"),
        ):
            await type_keys(pilot, "ctrl+u", *text)
            await until(pilot, lambda text=text: app.screen.query_one(Input).value == text)  # type: ignore[misc]
            assert wanted in words(app), text
            assert not_wanted not in words(app), text
        await press(pilot, "enter", "escape")
        assert app.screen is app.screen_stack[0]


async def test_the_prompt_takes_commands_views_with_a_place_measures_and_filters() -> None:
    async with explorer("demo", text="the cat", head="L0H0") as (app, pilot):
        for typed, completed in (
            ("measure qk_st", "measure qk_stable_rank"), ("l2h", "L2H0"), ("l2h1", "L2H1"), ("weig", "weights"),
        ):  # fmt: skip
            await type_keys(pilot, "colon", *typed, "tab")
            assert app.main.prompt.input.value == completed
            await type_keys(pilot, "escape")
        await see(pilot, *":help", "enter", text="moving")
        await see(pilot, "q", *":export", "enter", text="matrices of L0H0")
        await press(pilot, "q", *":theme lig", "tab", "enter")
        assert app.theme == "textual-light"
        await see(pilot, *":measure stable_rank", "enter", view="spectra")
        assert app.session.shown.measure == "stable_rank", "the tree shows it"
        for typed, selected in (("next-la", "L1H0"), ("h2", "L1H2")):
            await see(pilot, ":", *typed, "enter", selected=selected)
        await see(pilot, *":pin", "enter", pinned="L1H2")
        await see(pilot, *":ranks L2", "enter", view="ranks", title="ranks layer 2")
        await see(pilot, *":epsilon 0.07", "enter", "plus", text="ε 0.1")
        await see(pilot, *":spectra 3.1", "enter", title="spectra L3H1")
        for typed, said in (
            ("set number", "no such head, view or command"), ("theme none", "no such theme; tab completes the name"),
            ("measure rank", "measure takes one name: "), ("zoom in", "zoom takes no more words; leave out 'in'"),
            ("epsilon 1", "ε is the share of the energy"), ("spectra L9H1", "no attention in layer 9"),
        ):  # fmt: skip
            await see(pilot, ":", *typed, "enter", focus="prompt", text=said)
            await type_keys(pilot, "escape")
        await see(pilot, *":induction", "enter", view="overview", title="overview induction")
        await see(pilot, *":ov_energy_rank < 25", "enter", view="heads")
        left, rows = active_table(app).counts
        assert 0 < left < rows
        await press(pilot, *":q", "enter")
        assert not app.is_running


def test_every_mark_of_the_rules_is_explained() -> None:
    used = {*NEIGHBOUR_MARKS.values(), *TYPE_MARKS.values(), *SETTING_MARKS.values()}
    assert used <= MARKS.keys()
    assert all(explanation and not explanation.endswith(".") for explanation in MARKS.values())
