"""What the explorer's ranks, attention, labels and rollout show, and on which scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.mathematics.measures import MEASURES
from engine.service.engine import Engine
from engine.values.attention import MapName
from engine.values.heads import MATRICES, Head
from tests import planted_heads
from tests.conftest import CallsOf, TinyModel
from tests.exporting import exported, written
from tests.tui.explorer import explorer, press, screen_text, see, shown, shown_map, title
from tui.app.explorer import OPENING_SENTENCE
from tui.app.start import Start
from tui.drawing.numbers import rough_number
from tui.views.ranks_view import RanksPane

SENTENCE = "The cat sat on the mat."


def line(pane: RanksPane, number: int) -> list[str]:
    """Give a line of the ranks as it is written."""
    return [pane.grid.text(cell) for cell in pane.grid.rows[pane.grid.order[number]]]


async def test_the_ranks_are_those_of_the_exported_table_for_every_measure_and_epsilon(tiny_model: TinyModel) -> None:
    model = tiny_model("llama")
    of_head = {row["matrix"]: row for row in exported(model, "ranks", "--head", "L0H0")}
    sigma = exported(model, "spectrum", "--head", "L0H0")
    async with explorer(model, head="L0H0") as (app, pilot):
        for curve in app.views.spectra.graph._curves:
            chance = [float(row["chance"]) for row in sigma if row["matrix"] == curve.matrix]
            assert curve.baseline is not None
            np.testing.assert_array_equal(curve.baseline, chance)
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
                expected = [float(str(values[label, matrix])) for matrix in MATRICES]
                assert [*map(float, cells)] == pytest.approx(expected, rel=0.05)
            chances = [rough_number(float(of_head[matrix][f"{measure.name}_chance"])) for matrix in MATRICES]
            assert shown(app.views.ranks.chance_line).split() == ["chance", *chances]
            await press(pilot, "m")
        assert MEASURES[opening].title in title(app)
        await press(pilot, "unbound:app.previous_measure")
        assert MEASURES[opening - 1].title in title(app)
        await press(pilot, *":measure energy_rank", "enter")
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
        await see(pilot, "o", selected="L0")  # sorting selects nothing else
        numbers = [float(line(app.views.ranks, number)[1]) for number in range(5)]
        assert numbers == sorted(numbers, reverse=True)
        assert line(app.views.ranks, grid.cursor[0])[0] == "all"
        await press(pilot, "unbound:app.tree", "g", "g")
        assert {line(app.views.ranks, number)[0] for number in range(2)} == {"L0", "L1"}, "of the model, whole layers"
        assert [row[2] for row in app.views.active.table_on_screen()] == ["all"] * 12


async def test_a_typed_sentence_is_read_and_its_map_shown(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await press(pilot, "3", "i", *"question 1", "enter")
        assert app.main.sentence_input.value == "question 1"
        attention = shown_map(app)
        assert "".join(attention.query_tokens) == "question 1"
        await see(pilot, readout=f"q {len(attention.query_tokens) - 1} ")
        await see(pilot, "gg", "home", "down", "down", "right", readout="q 2 ", text=f"{attention.values[2, 1]:.2f}")
        await see(pilot, "right", "right", text="  masked")  # the key comes after the query


LAYER_MEAN, STACK_MEAN = MapName("decoder", 1, None), MapName("decoder", None, None)
ROLLOUT = MapName("decoder", None, None, is_rollout=True)


MAPS = {
    "L1": [LAYER_MEAN, STACK_MEAN, ROLLOUT],
    "L1H2": [MapName("decoder", 1, 2), LAYER_MEAN, MapName("decoder", None, 2), STACK_MEAN, ROLLOUT],
}
"""What is gone through, by what is selected."""


async def test_a_goes_through_the_means_to_the_rollout_which_is_written(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("gpt2"), text=SENTENCE, head="L1") as (app, pilot):
        await press(pilot, "3")
        for selected, maps in MAPS.items():
            await press(pilot, ":", *selected, "enter")
            for name in maps:
                assert shown_map(app).name == name
                await press(pilot, "a")
            assert shown_map(app).name == maps[0], "once round"
        await see(pilot, *"aaaa", slowly=True, title="attention rollout")
        found = shown_map(app)
        np.testing.assert_allclose(found.values.sum(1), 1, rtol=1e-5)
        assert found.chances is not None
        await press(pilot, "gg", "home", "j", "j", "l")
        weight, chance = float(found.values[2, 1]), float(found.chances[2, 1])
        assert shown(app.views.attention.readout_line).endswith(f"  {weight:.4f}  chance {chance:.4f}")
        await press(pilot, "e", "v")
        rows = written(folder, "*-rollout.csv")
        assert list(rows[0]) == ["stack", "query", "key", "query_token", "key_token", "weight", "weight_chance"]
        assert len(rows) == found.values.size


async def test_a_slash_in_a_map_finds_tokens_by_text_and_by_number(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("gpt2"), text="the cat the") as (app, pilot):
        await press(pilot, "3")
        tokens = shown_map(app).query_tokens
        first, second, *_ = (at for at, token in enumerate(tokens) if "he" in token)
        await see(pilot, "n", foot="no token was searched yet")
        for keys, row in (
            ("gg/HE", first), (["escape"], 0), ([*"/he", "enter", "n"], second), ("n", first), ("N", second),
            ([*"/qq", "enter"], second),
            (["escape", *"/2", "enter"], 2), ([*"/0", "enter"], 0),
        ):  # fmt: skip
            await press(pilot, *keys)
            query, key = app.views.attention.heatmap.cursor
            assert query == row, keys
            assert "n" not in keys or key == int(shown_map(app).values[row].argmax())
            assert ("no token has that" in screen_text(app)) is ("q" in keys)
        folder.rmdir()
        await see(pilot, "e", "v", text="the current folder is gone; start attn-tui in another one to write files")


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


@pytest.mark.parametrize(
    ("asked", "of_spectra", "of_maps"), [(False, "linear", ("linear", "linear")), (None, "log", ("linear", "log"))]
)
async def test_spectra_and_maps_start_as_asked(asked: bool | None, of_spectra: str, of_maps: tuple[str, str]) -> None:
    async with explorer("demo", start=Start("demo", text="a", log_scale=asked)) as (app, pilot):
        for text, of_map in zip(("the cat", "the cat sat on the mat " * 20), of_maps, strict=True):
            app.main.read(text)
            await press(pilot, "1", "3")
            assert (app.views.spectra.scale, app.views.attention.scale) == (of_spectra, of_map)


async def test_labels_come_with_the_first_sentence_and_stand_in_the_tree(tmp_path: Path, calls_of: CallsOf) -> None:
    asked = calls_of(Engine, "labels")
    async with explorer(planted_heads.save(tmp_path), head="L1H0") as (app, pilot):

        def notes() -> list[list[str]]:
            return [app.main.tree_widget.note(Head("decoder", 1, head)).split()[2:] for head in (0, 1)]

        assert notes() == [[], []]
        assert not asked, "no model is loaded for labels alone"
        app.main.read(SENTENCE)
        await see(pilot, title="spectra L1H0 · induction", text=" ind")
        assert notes() == [["ind"], ["self"]]
        assert app.main.top_line.progress == ""
        await see(pilot, "2", title="ranks layer 1  ")  # a layer has no label
