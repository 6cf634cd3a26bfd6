"""What the explorer's ranks and attention show, on which scale, when they are drawn, and what `e` writes of them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine.mathematics.measures import MEASURES
from engine.values.attention import MapName
from engine.values.heads import MATRICES, Head, Off
from tests.conftest import TinyModel
from tests.exporting import run
from tests.tui.explorer import explorer, notices, press, screen_text, see, settle, shown_map, title
from tui.app.explorer import OPENING_SENTENCE
from tui.app.start import Start
from tui.state.session import Shown, Side
from tui.state.spectra_store import AT_ONCE
from tui.views.pane import SentencePane
from tui.views.ranks_view import RanksPane
from tui.views.spectra_view import SpectraPane

TEXT = "the cat sat on the mat"


def line(pane: RanksPane, number: int) -> list[str]:
    """Give a line of the ranks as it is written."""
    return [pane.grid.text(cell) for cell in pane.grid.rows[pane.grid.order[number]]]


async def test_the_ranks_are_those_of_the_exported_table_for_every_measure(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await pilot.press("2")
        opening = [each.name for each in MEASURES].index("stable_rank")
        for measure in (*MEASURES[opening:], *MEASURES[:opening]):
            assert measure.title in title(app)
            table = app.views.active.table_on_screen()
            place = table.columns.index(measure.name)
            values = {(row[2], row[3]): row[place] for row in table}
            for number, label in enumerate(("0", "1", "2", "3", "all")):
                name, *cells = line(app.views.ranks, number)
                assert name == ("all" if label == "all" else f"H{label}")
                expected = [float(str(values[label, matrix])) for matrix in ("Q", "K", "V", "O", "QK", "OV")]
                assert [*map(float, cells)] == pytest.approx(expected, rel=0.05)
            await press(pilot, "m")
        assert MEASURES[opening].title in title(app)
        await press(pilot, "unbound:app.previous_measure")
        assert MEASURES[opening - 1].title in title(app)


@pytest.mark.parametrize("at_once", [AT_ONCE, 0])
async def test_another_epsilon_is_measured_at_once_or_on_another_thread(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("tui.state.spectra_store.AT_ONCE", at_once)
    async with explorer(tiny_model("llama")) as (app, pilot):
        await press(pilot, *"2:measure energy_rank", "enter")
        before = line(app.views.ranks, 0)
        await see(pilot, *"+++++", slowly=True, text="ε 0.5")
        after = line(app.views.ranks, 0)
        assert all(int(late) < int(early) for early, late in zip(before[1:], after[1:], strict=True))
        table = app.views.active.table_on_screen()
        assert [row[6] for row in table][:6] == [int(cell) for cell in after[1:]]


async def test_the_row_under_the_cursor_is_the_selected_head(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        grid = app.views.ranks.grid
        await see(pilot, "2", "j", "j", selected="L0H2")
        assert grid.cursor[0] == 2
        await see(pilot, "j", "j", selected="L0")
        for is_descending in (True, False):
            await see(pilot, "o", selected="L0")  # sorting selects nothing else
            place = [str(cell) for cell in MATRICES].index("Q") + 1
            numbers = [float(line(app.views.ranks, number)[place]) for number in range(5)]
            assert numbers == sorted(numbers, reverse=is_descending)
            assert line(app.views.ranks, grid.cursor[0])[0] == "all"


async def test_on_the_model_the_ranks_are_its_whole_layers(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await press(pilot, "g", "g", "2")
        assert [line(app.views.ranks, number)[0] for number in range(2)] == ["L0", "L1"]
        assert app.views.active.table_subject() == ""
        assert [row[2] for row in app.views.active.table_on_screen()] == ["all"] * 12


async def test_a_typed_sentence_is_read_and_its_map_shown(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await see(pilot, "3", text="press i and type a sentence")
        await press(pilot, "i", *"question 1", "enter")
        assert app.main.sentence_input.value == "question 1"
        attention = shown_map(app)
        assert "".join(attention.query_tokens) == "question 1"
        await see(pilot, readout=f"q {len(attention.query_tokens) - 1} ")
        await see(pilot, "gg", "home", "down", "down", "right", readout="q 2 ", text=f"{attention.values[2, 1]:.2f}")
        await see(pilot, "right", "right", text="  masked")  # the key comes after the query


LAYER_MEAN, STACK_MEAN = MapName("decoder", 1, None), MapName("decoder", None, None)
ROLLOUT = MapName("decoder", None, None, is_rollout=True)


@pytest.mark.parametrize(
    ("selected", "maps"),
    [
        ("L1H2", [MapName("decoder", 1, 2), LAYER_MEAN, MapName("decoder", None, 2), STACK_MEAN, ROLLOUT]),
        ("L1", [LAYER_MEAN, STACK_MEAN, ROLLOUT]),
    ],
)
async def test_a_goes_through_the_means_and_back(tiny_model: TinyModel, selected: str, maps: list[MapName]) -> None:
    async with explorer(tiny_model("gpt2"), text=TEXT, head=selected) as (app, pilot):
        await press(pilot, "3")
        for name in (*maps, maps[0]):
            assert shown_map(app).name == name
            await press(pilot, "a")


async def test_the_cursor_is_in_view_in_the_map_of_another_sentence(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT) as (app, pilot):
        await pilot.press("3", "G", "end", "i")
        app.main.sentence_input.value = "the dog sat on the cat and " * 6
        await see(pilot, "enter", text="[]")
        assert app.views.attention.heatmap.cursor[0] > 3


async def test_one_key_writes_the_same_table_as_the_export_command(tiny_model: TinyModel, folder: Path) -> None:
    model = tiny_model("gpt2")
    async with explorer(model, text=TEXT, head="L1H2") as (app, pilot):
        for key, name, options in (
            ("1", "L1H2-spectrum", ("spectrum", "--head", "L1H2")),
            ("2", "L1-ranks", ("ranks", "--layer", "1")),
            ("3", "L1H2-attention", ("attention", "--head", "L1H2", "--text", TEXT)),
        ):
            await press(pilot, key)
            expected = run(model, *options).stdout
            if key == "2":  # which shows the layer as a whole below its heads
                expected += run(model, *options, "--head", "all").stdout.partition("\n")[2]
            for number in ("", "-2"):
                file = folder / f"{model.name}-{name}{number}.csv"
                await press(pilot, "e", "v")
                (notice,) = notices(app)  # the one before has made room
                assert " rows, " in notice
                assert notice.endswith(f" in {file}")
                assert file.read_text(encoding="utf-8") == expected


async def test_it_says_where_it_cannot_write(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        folder.rmdir()
        said = "the current folder is gone; start attn-tui in another one to write files"
        await see(pilot, "1", "e", "v", text=said)
        assert app.is_running


async def test_a_slash_in_a_map_finds_tokens_and_a_colon_goes_to_one_by_its_number(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat the") as (app, pilot):
        await press(pilot, "3")
        tokens = shown_map(app).query_tokens
        first, second, *_ = (at for at, token in enumerate(tokens) if "he" in token)
        for keys, row in (
            ("gg/he", first), (["escape"], 0), ([*"/he", "enter", "n"], second), ([*"/qq", "enter"], second),
            (["escape", *":token 2", "enter"], 2), ([*"/0", "enter"], 0),
        ):  # fmt: skip
            await press(pilot, *keys)
            assert app.views.attention.heatmap.cursor[0] == row, keys
            assert ("no token has that" in screen_text(app)) is ("q" in keys)
        await see(pilot, *":token 99", "enter", text=f"the tokens of the sentence are 0 to {len(tokens) - 1}")


async def test_the_scales_include_the_root_and_the_range_beyond_the_first_key() -> None:
    async with explorer("demo", text=OPENING_SENTENCE, head="L1H0") as (app, pilot):
        await press(pilot, "3")
        heatmap, largest = app.views.attention.heatmap, shown_map(app).largest
        beyond = float(shown_map(app).values[:, 1:].max())
        seen = []
        for _ in range(4):
            await press(pilot, "s")
            seen.append((heatmap.scale, heatmap.largest))
        assert seen == [("log", largest), ("root", largest), ("sink", beyond), ("linear", largest)]
        assert beyond < largest
        assert " · entropy " in title(app)


@pytest.mark.parametrize(
    ("asked", "of_spectra", "of_maps"),
    [(True, "log", ("log", "log")), (False, "linear", ("linear", "linear")), (None, "log", ("linear", "log"))],
)
async def test_spectra_and_maps_start_as_asked(asked: bool | None, of_spectra: str, of_maps: tuple[str, str]) -> None:
    async with explorer("demo", start=Start("demo", text="a", log_scale=asked)) as (app, pilot):
        await press(pilot, "P", "]")
        for text, of_map in zip(("the cat", "the cat sat on the mat " * 20), of_maps, strict=True):
            app.main.read(text)
            app.session.change(side=Side.SPECTRA)
            await settle(pilot)
            found = []
            for key in ("1", "3", "A", "C", "C"):
                await press(pilot, key)
                pane = app.views.active
                assert isinstance(pane, SpectraPane | SentencePane)
                found.append(pane.scale)
            assert found == [of_spectra, of_map, of_map, of_spectra, of_map]


class Watched(Shown):
    """What is shown, with a note of each field that is read."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        Watched.read.add(name)
        return super().__getattribute__(name)


async def test_a_view_declares_every_field_that_it_reads(tiny_model: TinyModel) -> None:
    names = {each.name for each in fields(Shown)}
    async with explorer(tiny_model("t5"), text=TEXT, head="decoder.L0H1", size=(160, 50)) as (app, pilot):
        stores = app.views.stores
        assert stores is not None
        for changes in ({}, {"off": Off((Head("decoder", 0, 0),))}, {"distance": 1}, {"selected": None}):
            app.session.change(**changes)
            for view in ("overview", "spectra", "ranks", "attention", "text", "maps"):
                app.views.show_view(view)
                await settle(pilot)
                watched = Watched(**{name: getattr(app.session.shown, name) for name in names})
                Watched.read.clear()
                app.views.active.draw(watched, stores)
                assert names & Watched.read <= set(app.views.active.uses), view
