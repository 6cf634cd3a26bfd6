"""Predictions of one model and of two, their parts, and heads that are off: keys, marks, and sweeps that stop."""

from __future__ import annotations

import asyncio
import re
import shutil
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import transformers

from engine.service.engine import Engine
from engine.values.heads import Head, Off
from engine.values.options import EngineOptions
from engine.values.table import Kind, Table, kind_of
from engine.values.views import PREDICTIONS, VIEWS, Query
from tests.conftest import TinyModel
from tests.exporting import as_exported, exported, refusal, written
from tests.opening import edited_weights
from tests.tui.explorer import (
    active_table,
    explorer,
    filter_table,
    press,
    press_slowly,
    screen_text,
    settle,
    shown,
    shown_map,
    type_keys,
    until,
)
from tests.tui.views.test_tables import asked, rows
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.views.lens_view import LensPane
from tui.views.table_view import TablePane

TEXT = "The cat sat on the mat"


def lens(app: Explorer) -> LensPane:
    active = app.views.active
    assert isinstance(active, LensPane)
    return active


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_one_key_goes_from_predictions_to_lens_and_contributions(
    tiny_model: TinyModel, size: tuple[int, int]
) -> None:
    model = tiny_model("gpt2", with_head=True)
    async with explorer(model, size=size, text=TEXT) as (app, pilot):
        for view in ("predictions", "lens", "contributions"):
            await press_slowly(pilot, "8")
            active = app.views.active
            assert isinstance(active, LensPane if view == "lens" else TablePane)
            assert active.view == view
            query = Query(text=TEXT, top=VIEWS[view].top, all_positions=view == "lens")
            assert rows(active.table_on_screen()) == asked(model, view, query)
            assert app.focused is active.grid
        await press_slowly(pilot, "8")
        assert active_table(app).view == "predictions"
        last = rows(active_table(app).shown)[0][0]
        await press_slowly(pilot, "comma")
        assert rows(active_table(app).shown) == asked(
            model, "predictions", Query(text=TEXT, top=20, position=int(str(last)) - 1)
        )
        await press_slowly(pilot, "j", "enter")
        chosen = asked(model, "predictions", Query(text=TEXT, position=int(str(last)) - 1))[1][3]
        assert active_table(app).view == "contributions"
        assert {row[4] for row in rows(active_table(app).shown)} == {chosen}


async def test_titles_spell_tokens_as_tables_do_and_an_empty_table_explains_no_column() -> None:
    async with explorer("demo", size=(120, 24), text="a\tb", head="L1H0") as (app, pilot):
        await press_slowly(pilot, "5")
        assert shown(active_table(app).explanation_line)
        await press_slowly(pilot, "enter")
        assert "no earlier layer feeds this one" in screen_text(app)
        await press(pilot, "o")
        assert "no rows to sort" in screen_text(app).splitlines()[-1]
        assert shown(active_table(app).explanation_line) == ""
        await press_slowly(pilot, "8", "comma")
        tab = r"\t"
        assert f"at '{tab}'" in shown(active_table(app).title_line)


async def test_a_waiting_sentence_is_announced_and_not_asked_for(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_there = asyncio.Event()
    monkeypatch.setattr(Explorer, "_wait_for_frame", lambda app: is_there.wait())
    app = Explorer(Engine(EngineOptions()), Start(str(tiny_model("gpt2", with_head=True)), text=TEXT))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.main.is_ready and app.session.shown.selected is not None)
        await pilot.press("8")
        await until(pilot, lambda: "the sentence is read after the first head …" in screen_text(app))
        is_there.set()
        await settle(pilot)
        assert len(rows(active_table(app).shown)) == 20


async def test_heads_are_switched_off_in_the_tree_and_the_map_says_so(tiny_model: TinyModel) -> None:
    model = tiny_model("gpt2", with_head=True)
    async with explorer(model, text=TEXT, head="L0H1") as (app, pilot):
        await press_slowly(pilot, "3")
        before = shown_map(app).values
        await press_slowly(pilot, "1", "unbound:app.tree", "space", "j", "space")
        tree = [line for line in screen_text(app).splitlines() if re.search(r"H[12] +\S+ +\S+ off\b", line)]
        assert len(tree) == 2
        await press_slowly(pilot, "right_curly_bracket", "3")
        assert shown(app.views.attention.title_line).startswith("attention L1H2 · L0H1, L0H2 off")
        off = Off((Head("decoder", 0, 1), Head("decoder", 0, 2)))
        expected = app.engine.attention(TEXT, "decoder", 1, off=off).result().select(2).weights
        plain = app.engine.attention(TEXT, "decoder", 1).result().select(2).weights
        assert np.allclose(shown_map(app).values, expected, atol=1e-6)
        assert not np.allclose(plain, expected, atol=1e-3)
        await press_slowly(pilot, "9")
        query = Query(text=TEXT, off=off.heads)
        assert rows(active_table(app).shown) == asked(model, "ablation", query)
        assert shown(active_table(app).title_line).startswith("ablation L0H1, L0H2 off  position 5  at ' mat'")
        await press_slowly(pilot, "8", "j", "enter", "9")
        assert app.session.shown.token is not None
        assert rows(active_table(app).shown) == asked(model, "ablation", query), "of all tokens still"
        await press_slowly(pilot, "unbound:app.by_mean")
        assert rows(active_table(app).shown) == asked(model, "ablation", Query(text=TEXT, off=off.heads, by_mean=True))
        await press_slowly(pilot, "O")
        assert shown(active_table(app).title_line).startswith("ablation by mean")
        await press_slowly(pilot, "unbound:app.by_mean")
        assert shown(active_table(app).title_line).startswith("ablation by zero")
        await press_slowly(pilot, "3")
        assert shown(app.views.attention.title_line).startswith("attention L1H2")
        assert np.allclose(shown_map(app).values, plain, atol=1e-6)
        await press_slowly(pilot, "left_curly_bracket", "left_square_bracket")
        assert np.allclose(shown_map(app).values, before, atol=1e-6)


async def test_a_sweep_is_stopped_by_escape_keeps_what_it_has_and_goes_on(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("gpt2", with_head=True, num_hidden_layers=3)
    table, layers = Engine.table, []
    async with explorer(model, text=TEXT) as (app, pilot):

        def watched(engine: Engine, name: str, query: Query, view: str = "") -> Future[Table]:
            layers.append(query.layer)
            if len(layers) == 3:
                app.main.action_leave()  # what escape does, while a layer is being worked out
            return table(engine, name, query, view)

        monkeypatch.setattr(Engine, "table", watched)
        await press_slowly(pilot, "9")
        assert {row[1] for row in rows(active_table(app).shown)} == {0, 1}
        assert "2 of 3 layers, stopped, 9 goes on" in shown(active_table(app).title_line)
        await filter_table(pilot, "change>9")
        assert shown(active_table(app).title_line).startswith("ablation  stopped, 9 goes on  0 of 8 so far  change>9")
        await press_slowly(pilot, "escape")
        assert "so far" not in shown(active_table(app).title_line), "all rows again"
        await press_slowly(pilot, "escape")
        assert app.focused is app.main.tree_widget, "with nothing to stop it goes back to the tree"
        await press_slowly(pilot, "9")
        expected = asked(model, "ablation", Query(text=TEXT))
        assert rows(active_table(app).shown) == expected
        changes = [abs(float(str(row[7]))) for row in expected]
        assert changes == sorted(changes, reverse=True)
        await press_slowly(pilot, "g", "g", "enter")
        assert app.session.shown.selected == Head("decoder", int(str(expected[0][1])), int(str(expected[0][2])))


async def test_space_switches_the_selected_head_from_any_view(tiny_model: TinyModel) -> None:
    one, other = Head("decoder", 0, 1), Head("decoder", 1, 1)
    async with explorer(tiny_model("gpt2", with_head=True), text=TEXT, head="L0H1") as (app, pilot):
        for view in ("1", "3", "A", "w"):
            await type_keys(pilot, view, "space")
            await until(pilot, lambda: app.session.shown.off.heads == (one,))
            await type_keys(pilot, "space")
            await until(pilot, lambda: not app.session.shown.off.heads)
        await type_keys(pilot, "j", "space")  # before the map's cursor has rested
        await until(pilot, lambda: app.session.shown.off.heads == (other,))
        await type_keys(pilot, "unbound:app.tree", "space")
        await until(pilot, lambda: not app.session.shown.off.heads)
        for keys, refusal in (("h", "L1 is a layer; type :off L1"), ("gg", "only heads can")):
            await press(pilot, *keys, "space")
            assert refusal in screen_text(app).splitlines()[-1]
        await press_slowly(pilot, "2", "o", "4", "o")
        assert app.session.shown.off.heads == (), "o sorts"


async def test_with_heads_off_titles_say_so_and_maps_are_compared_with_all_heads_on(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2", with_head=True), text=TEXT, head="L0H1", size=(160, 50)) as (app, pilot):
        await press_slowly(pilot, "space")
        await press_slowly(pilot, "8")
        assert shown(active_table(app).title_line).startswith("predictions with L0H1 off")
        table = active_table(app).shown
        assert table is not None
        assert {"probability_after", "change"} <= set(table.columns)
        for view in ("lens", "contributions"):
            await press_slowly(pilot, "8")
            assert shown(app.views.active.title_line).startswith(f"{view} with all heads on")
        await press_slowly(pilot, "comma", "8", "8", "8")
        assert re.search("with all heads on .* position 4", shown(active_table(app).title_line))
        app.session.change(selected=Head("decoder", 1, 2))
        await press_slowly(pilot, "3")
        off = shown_map(app).values.copy()
        await press_slowly(pilot, "D")
        assert shown(app.views.attention.title_line).startswith("attention L1H2 · with L0H1 off less with all on")
        on = app.engine.attention(TEXT, "decoder", 1).result().weights[2]
        np.testing.assert_array_equal(shown_map(app).values, off - on)
        await press_slowly(pilot, "a", "a", "a", "a")
        assert shown(app.views.attention.title_line).startswith("attention rollout · with all heads on")
        await press_slowly(pilot, "D")
        assert shown(app.views.attention.title_line).startswith("attention L1H2 · with L0H1 off less with all on")
        await press_slowly(pilot, "O")
        np.testing.assert_array_equal(shown_map(app).values, on)
        assert "less with" not in shown(app.views.attention.title_line)


async def test_contributions_start_at_the_strongest_whatever_head_is_selected(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2", with_head=True), text=TEXT, head="L1H3") as (app, pilot):
        await press_slowly(pilot, "8", "8", "8")
        assert active_table(app).view == "contributions"
        assert active_table(app).grid.place == 0
        await press_slowly(pilot, "comma")
        assert active_table(app).grid.place == 0
        await press_slowly(pilot, "right_square_bracket")
        assert active_table(app).grid.row is not None
        assert app.session.shown.selected == Head("decoder", 1, 3)


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
def test_a_comparison_has_the_numbers_of_each_model_by_itself(
    model_type: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
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


def test_only_a_second_model_adds_columns_and_filters_for_it(pair: tuple[Path, Path]) -> None:
    model, other = pair
    asked = (model, "predictions", "--text", SHORT, "--where", "rank_other = 1")
    (row,) = exported(*asked, "--vs", other)
    assert row["token_id"] == exported(other, "predictions", "--text", SHORT, "--top", "1")[0]["token_id"]
    assert "no column 'rank_other'" in refusal(*asked, code=2)
    assert kind_of("rank_other") is Kind.WHOLE
    assert "--vs does not apply to lens" in refusal(model, "lens", "--text", SHORT, "--vs", other, code=2)


async def test_the_explorer_shows_and_writes_both_side_by_side(pair: tuple[Path, Path], tmp_path: Path) -> None:
    model, other = pair
    async with explorer(model, text=SHORT, other=other, size=(100, 24)) as (app, pilot):
        await press_slowly(pilot, "8")
        pane = active_table(app)
        assert pane.shown is not None
        rows = as_exported(pane.shown)
        assert rows == exported(model, "predictions", "--text", SHORT, "--top", "20", "--vs", other)
        assert pane.grid.columns[:5] == ("rank", "token", "probability", "probability_other", "difference")
        pane.grid.go_to_column("difference")
        await pilot.pause()
        assert shown(pane.explanation_line) == "probability in the other model less that in this one"
        await filter_table(pilot, "difference > 0 and rank_other = 1")
        assert pane.counts == (1, len(rows))
        assert f"--vs {other}" in app.main.exporting.command()
        table, without = pane.shown, len(PREDICTIONS.columns)
        alone = table.with_frame(table.frame[:, :without])
        for shows, count in ((alone, len(rows)), (table, len(rows))):  # as where another sentence is of other tokens
            pane.show((), shows, None)
            await pilot.pause()
            assert pane.counts == (count, len(rows)), "a filter of columns that are gone hides nothing"
        await filter_table(pilot, "difference > 0 and rank_other = 1")
        assert pane.counts == (1, len(rows))
        await press_slowly(pilot, "escape")
        app.main.exporting.folder = tmp_path
        await press_slowly(pilot, "e", "w")
        await until(pilot, lambda: bool(list(tmp_path.glob("*predictions.csv"))))
        assert written(tmp_path, "*predictions.csv") == rows


async def test_tables_of_the_first_model_alone_say_so_in_their_titles(pair: tuple[Path, Path]) -> None:
    model, other = pair
    async with explorer(model, text=SHORT, other=other, size=(80, 24)) as (app, pilot):
        for key, view in (("8", "predictions"), ("8", "lens"), ("8", "contributions"), ("9", "ablation")):
            await press_slowly(pilot, key)
            pane = app.views.active
            assert pane.view == view
            assert (f"of {model.name}" in shown(pane.title_line)) == (view != "predictions")
            if view == "predictions":
                assert isinstance(pane, TablePane)
                pane.grid.go_to_column("probability_other")
                await pilot.pause()
                assert shown(pane.explanation_line) == "probability in the other model; the larger one sorts"


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
        await press_slowly(pilot, "8")
        pane = active_table(app)
        assert pane.shown is not None
        assert pane.shown.columns == PREDICTIONS.columns
        rows = as_exported(pane.shown)
        assert rows == exported(model, "predictions", "--text", SHORT, "--top", "20")
        assert "without the other model: " in shown(pane.title_line)
