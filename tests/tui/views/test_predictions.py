"""Predictions of one model and of two, the lens, their parts, and heads that are off: keys, and sweeps that stop."""

from __future__ import annotations

import re
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import transformers

from engine.analysis import predictions, tables
from engine.analysis.open_model import OpenModel
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.table import Groups
from engine.values.views import LENS, PREDICTIONS, VIEWS, Query
from tests.conftest import TinyModel
from tests.exporting import as_exported, exported, refusal, written
from tests.opening import edited_weights, open_on_thread, worked_out
from tests.tui.explorer import (
    LOOK,
    active,
    active_table,
    drawn_lines,
    explorer,
    filter_table,
    press,
    screen_text,
    see,
    settle,
    shown,
    shown_map,
    shown_table,
    title,
    type_keys,
    until,
    until_shown,
)
from tests.tui.views.test_tables import asked, rows
from tui.app.explorer import Explorer
from tui.views.lens_view import LensPane
from tui.widgets.lens_grid import LensMap

TEXT = "The cat sat on the mat"


@pytest.fixture
def model(tiny_model: TinyModel) -> Path:
    """Give a tiny GPT-2 that predicts tokens."""
    return tiny_model("gpt2", with_head=True)


async def test_one_key_goes_from_predictions_to_lens_and_contributions(model: Path) -> None:
    async with explorer(model, text=TEXT) as (app, pilot):
        for view in ("predictions", "lens", "contributions"):
            await see(pilot, "8", view=view)
            pane = active(app, LensPane) if view == "lens" else active_table(app)
            query = Query(text=TEXT, top=VIEWS[view].top, all_positions=view == "lens")
            assert rows(pane.table_on_screen()) == asked(model, view, query)
            assert app.focused is pane.grid
        await see(pilot, "8", view="predictions")
        before = Query(text=TEXT, position=int(str(rows(shown_table(app))[0][0])) - 1)
        await press(pilot, "comma")
        assert rows(shown_table(app)) == asked(model, "predictions", replace(before, top=20))
        await see(pilot, "j", "enter", slowly=True, view="contributions")
        chosen = asked(model, "predictions", before)[1][3]
        assert {row[4] for row in rows(shown_table(app))} == {chosen}


async def test_heads_are_switched_off_in_any_view_and_the_map_says_so(model: Path) -> None:
    async with explorer(model, text=TEXT, head="L0H1") as (app, pilot):
        for view in ("w", "1", "A", "3"):
            await see(pilot, view, "space", off="L0H1")
            await see(pilot, "space", off="")
        await see(pilot, "unbound:app.tree", "space", "j", "space", slowly=True, off="L0H1 L0H2")
        assert len(re.findall(r"H[12] +\S+ +\S+ off\b", screen_text(app))) == 2
        await see(pilot, "}", "3", slowly=True, title="attention L1H2 · L0H1, L0H2 off")
        off = app.session.shown.off
        expected = app.engine.attention(TEXT, "decoder", 1, off=off).result().select(2).weights
        plain = app.engine.attention(TEXT, "decoder", 1).result().select(2).weights
        assert np.allclose(shown_map(app).values, expected, atol=1e-6)
        assert not np.allclose(plain, expected, atol=1e-3)
        query = Query(text=TEXT, off=off.heads)
        await see(pilot, "9", title="ablation L0H1, L0H2 off  position 5  at ' mat'")
        assert rows(shown_table(app)) == asked(model, "ablation", query)
        await press(pilot, "unbound:app.by_mean")
        assert rows(shown_table(app)) == asked(model, "ablation", replace(query, by_mean=True))
        await see(pilot, "O", "unbound:app.by_mean", title="ablation by zero")
        await see(pilot, "3", title="attention L1H2")
        assert np.allclose(shown_map(app).values, plain, atol=1e-6)
        await see(pilot, "unbound:app.tree", "h", "space", foot="L1 is a layer; type :off L1")


async def test_a_stopped_sweep_keeps_rows_and_goes_on(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt2", with_head=True, num_hidden_layers=3)
    of_layer, may_go_on = predictions._ablation_of_layer, threading.Event()

    def slowly(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
        while layer.layer == 2 and not may_go_on.wait(LOOK):
            yield None
        yield from of_layer(model, layer, query)

    monkeypatch.setattr(predictions, "_ablation_of_layer", slowly)
    monkeypatch.setattr(tables, "PAUSE", 0.0)
    monkeypatch.setattr(tables, "SHARE", 0)
    async with explorer(model, text=TEXT) as (app, pilot):
        await type_keys(pilot, "9")
        await until_shown(pilot, "2 of 3 layers, esc stops")
        await see(pilot, "escape", text="2 of 3 layers, stopped, 9 goes on")
        assert {row[1] for row in rows(shown_table(app))} == {0, 1}
        may_go_on.set()
        await press(pilot, "9")
        expected = asked(model, "ablation", Query(text=TEXT))
        assert rows(shown_table(app)) == expected
        changes = [abs(float(str(row[7]))) for row in expected]
        assert changes == sorted(changes, reverse=True)
        await see(pilot, "g", "g", "enter", slowly=True, selected=f"L{expected[0][1]}H{expected[0][2]}")


async def test_with_heads_off_titles_say_so_and_maps_are_compared_with_all_heads_on(model: Path) -> None:
    async with explorer(model, text=TEXT, head="L0H1", size=(160, 50)) as (app, pilot):
        await press(pilot, "space")
        await see(pilot, "8", title="predictions with L0H1 off")
        assert {"probability_after", "change"} <= set(shown_table(app).columns)
        for view in ("lens", "contributions"):
            await see(pilot, "8", title=f"{view} with all heads on")
        app.session.change(selected=Head("decoder", 1, 2))
        await press(pilot, "3")
        off = shown_map(app).values.copy()
        difference = "attention L1H2 · with L0H1 off less with all on"
        await see(pilot, "D", title=difference)
        on = app.engine.attention(TEXT, "decoder", 1).result().weights[2]
        np.testing.assert_array_equal(shown_map(app).values, off - on)
        await see(pilot, "O", no_text="less with")
        np.testing.assert_array_equal(shown_map(app).values, on)


SHORT = "the cat sat on"

ALL = "9999"


def tuned(model: Path, place: Path) -> Path:
    """Copy a model, with the unembedding of some tokens turned round."""
    other = Path(shutil.copytree(model, place))
    with edited_weights(other) as tensors:
        names = ("lm_head.weight", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight")
        tensors[next(name for name in names if name in tensors)][::3] *= -1
    return other


@pytest.fixture
def pair(tiny_model: TinyModel, tmp_path: Path) -> tuple[Path, Path]:
    """Give a tiny Llama, and its copy."""
    model = tiny_model("llama", with_head=True)
    return model, tuned(model, tmp_path / "tuned")


@pytest.mark.parametrize("model_type", ["llama", "bert"])
def test_a_comparison_has_each_models_own_numbers(model_type: str, tiny_model: TinyModel, tmp_path: Path) -> None:
    model = tiny_model(model_type, with_head=True)
    other = tuned(model, tmp_path / "tuned")
    alone = [exported(each, "predictions", "--text", SHORT, "--top", ALL) for each in (model, other)]
    own, theirs = ({row["token_id"]: row for row in rows} for rows in alone)
    assert alone[0][0]["token_id"] != alone[1][0]["token_id"], "the copy expects something else"
    rows = exported(model, "predictions", "--text", SHORT, "--top", "4", "--vs", other)
    assert tuple(rows[0]) == PREDICTIONS.columns_with({"vs"})
    for row in rows:
        for name in ("rank", "token", "logit", "logit_chance", "probability", "probability_chance"):
            if name != "token":
                beside = name.replace("_chance", "_other_chance") if "_chance" in name else f"{name}_other"
                assert row[beside] == theirs[row["token_id"]][name]
            assert row[name] == own[row["token_id"]][name]
        assert float(row["difference"]) == float(row["probability_other"]) - float(row["probability"])
    assert {row["token_id"] for row in rows} == {row["token_id"] for rows in alone for row in rows[:4]}
    most = [max(float(row["probability"]), float(row["probability_other"])) for row in rows]
    assert most == sorted(most, reverse=True)


async def test_the_explorer_shows_and_writes_both_side_by_side(pair: tuple[Path, Path], tmp_path: Path) -> None:
    model, other = pair
    async with explorer(model, text=SHORT, other=other, size=(100, 24)) as (app, pilot):
        await press(pilot, "8")
        pane, table = active_table(app), shown_table(app)
        rows = as_exported(table)
        assert rows == exported(model, "predictions", "--text", SHORT, "--top", "20", "--vs", other)
        assert pane.grid.columns[:5] == ("rank", "token", "probability", "probability_other", "difference")
        await filter_table(pilot, "difference > 0 and rank_other = 1")
        assert pane.counts == (1, len(rows))
        assert f"--vs {other}" in app.main.exporting.command()
        await press(pilot, "escape")
        app.main.exporting.folder = tmp_path
        await press(pilot, "e", "w")
        await until(pilot, lambda: bool(list(tmp_path.glob("*predictions.csv"))))
        assert written(tmp_path, "*predictions.csv") == rows


async def test_models_with_different_tokens_are_not_compared_and_the_title_says_why(
    pair: tuple[Path, Path], tiny_model: TinyModel, tmp_path: Path
) -> None:
    model, _ = pair
    other = Path(shutil.copytree(model, tmp_path / "other"))
    for file in other.glob("token*"):
        file.unlink()
    transformers.AutoTokenizer.from_pretrained(tiny_model("bert")).save_pretrained(other)
    said = refusal(model, "predictions", "--text", SHORT, "--vs", other)
    assert "cut this sentence into different tokens, so they cannot be compared on it: token 0 is 't'" in said
    async with explorer(model, text=SHORT, other=other, size=(200, 24)) as (app, pilot):
        await see(pilot, "8", text="without the other model: ")
        assert shown_table(app).columns == PREDICTIONS.columns
        assert as_exported(shown_table(app)) == exported(model, "predictions", "--text", SHORT, "--top", "20")


ROW = dict(zip(LENS.columns, range(len(LENS.columns)), strict=True))


def lens_of(app: Explorer) -> LensMap:
    """Give what is drawn."""
    drawn = active(app, LensPane).shown
    assert drawn is not None
    return drawn


async def test_the_lens_has_the_last_layer_on_top_and_keys_that_go_to_what_makes_a_token(
    model: Path, folder: Path
) -> None:
    table = worked_out(open_on_thread(model), "lens", Query(text=TEXT, top=5, all_positions=True))
    of_lens = rows(table)
    tokens = 1 + max(int(str(row[ROW["position"]])) for row in of_lens)
    best = [str(row[ROW["token"]]) for row in of_lens if row[ROW["place"]] == 1]
    async with explorer(model, text=TEXT) as (app, pilot):
        await see(pilot, "8", "8", slowly=True, view="lens", text=f"L1 after '{of_lens[-1][ROW['at']]}'")
        grid, last = active(app, LensPane).grid, tokens - 1
        assert grid.cursor == (2, last), "at the prediction"
        names = ["L1", "L0", "emb"]
        lines = [line for line in drawn_lines(app, grid) if line.strip().partition(" ")[0] in names]
        assert [line.split()[0] for line in lines] == names
        for layer, line in enumerate(reversed(lines)):
            assert best[layer * tokens + last].strip()[:5] in line
        for key, place in (
            ("left", (2, last - 1)), ("down", (1, last - 1)), ("home", (1, 0)), ("G", (0, 0)), ("end", (0, last)),
            ("comma", (0, last - 1)), ("full_stop", (0, last)),
        ):  # fmt: skip
            await press(pilot, key)
            assert grid.cursor == place
        await pilot.click(grid, offset=(8, 1))
        await settle(pilot)
        assert grid.cursor[0] == 2
        await see(pilot, text=f"L1 after '{lens_of(app).tokens[grid.cursor[1]]}'")
        await press(pilot, "e", "v")
        layer, token = grid.cursor
        (number, *_), *_ = lens_of(app).choices_at(layer, token)
        await see(pilot, "enter", view="contributions")
        expected = asked(model, "contributions", Query(text=TEXT, position=token, token=f"#{number}"))
        assert rows(shown_table(app)) == expected
    assert written(folder, "*lens.csv") == as_exported(table)


async def test_a_key_in_the_predictions_colours_the_lens_by_a_logit_difference(model: Path) -> None:
    async with explorer(model, size=(120, 40), text=TEXT) as (app, pilot):
        await press(pilot, "8", "j", "D")
        table = shown_table(app)
        token, number, logits = map(table.columns.index, ("token", "token_id", "logit_difference"))
        pair = f"'{table.rows[0][token]}' − '{table.rows[1][token]}'"
        assert pair in title(app)
        assert app.session.shown.against == f"#{table.rows[1][number]}"
        await press(pilot, "8")
        assert pair in title(app)
        assert lens_of(app).is_signed
        assert lens_of(app).values[-1, -1] == pytest.approx(table.rows[0][logits], abs=1e-4)
        assert "logit difference" in shown(active(app, LensPane).legend_line)
        await press(pilot, *":against", "enter")
        assert not app.session.shown.against
        assert "−" not in title(app)
