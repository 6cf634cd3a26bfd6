"""What two models predict, side by side: against what each is found to predict by itself."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
import transformers
from safetensors.torch import load_file, save_file

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from engine.values.table import Kind, kind_of
from engine.values.views import PREDICTIONS
from tests.conftest import TinyModel
from tests.exporting import as_exported, exported, refusal
from tests.tui.app.test_keys_and_commands import press
from tests.tui.explorer import explorer, settle, shown, until
from tui.panes.table import TablePane

TEXT = "the cat sat on"
ALL = "9999"


def copied(model: Path, place: Path) -> Path:
    """Copy a model, with the unembedding of some tokens turned round."""
    other = Path(shutil.copytree(model, place))
    tensors = load_file(other / "model.safetensors")
    name = "lm_head.weight" if "lm_head.weight" in tensors else "cls.predictions.decoder.weight"
    if name not in tensors:
        name = next(each for each in tensors if each.endswith("word_embeddings.weight"))
    tensors[name][::3] *= -1
    save_file(tensors, other / "model.safetensors", {"format": "pt"})
    return other


@pytest.fixture
def pair(tiny_model: TinyModel, tmp_path: Path) -> tuple[Path, Path]:
    """Give a tiny Llama, and its copy."""
    model = tiny_model("llama", with_head=True)
    return model, copied(model, tmp_path / "tuned")


@pytest.mark.parametrize("model_type", ["llama", "bert"])
def test_both_models_numbers_are_those_of_each_by_itself(
    model_type: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    model = tiny_model(model_type, with_head=True)
    other = copied(model, tmp_path / "tuned")
    alone = [exported(each, "predictions", "--text", TEXT, "--top", ALL) for each in (model, other)]
    own, theirs = ({row["token_id"]: row for row in rows} for rows in alone)
    assert alone[0][0]["token_id"] != alone[1][0]["token_id"], "the copy expects something else"
    rows = exported(model, "predictions", "--text", TEXT, "--top", "4", "--vs", other)
    assert tuple(rows[0]) == PREDICTIONS.columns_of(of_two=True)
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


def test_without_a_second_model_the_table_is_what_it_was_and_a_filter_knows_the_other_columns_only_with_one(
    pair: tuple[Path, Path],
) -> None:
    model, other = pair
    asked = (model, "predictions", "--text", TEXT, "--where", "rank_other = 1")
    (row,) = exported(*asked, "--vs", other)
    assert row["token_id"] == exported(other, "predictions", "--text", TEXT, "--top", "1")[0]["token_id"]
    assert "no column 'rank_other'" in refusal(*asked, code=2)
    assert kind_of("rank_other") is Kind.WHOLE
    assert "--vs says nothing about lens" in refusal(model, "lens", "--text", TEXT, "--vs", other, code=2)


def other_tokens(model: Path, tiny_model: TinyModel, place: Path) -> Path:
    """Copy a model, with another tokenizer."""
    other = Path(shutil.copytree(model, place))
    for file in other.glob("token*"):
        file.unlink()
    transformers.AutoTokenizer.from_pretrained(tiny_model("bert")).save_pretrained(other)
    return other


async def test_the_explorer_shows_and_writes_both_side_by_side(pair: tuple[Path, Path], tmp_path: Path) -> None:
    model, other = pair
    engine = Engine(EngineOptions(other=str(other)))
    async with explorer(model, text=TEXT, engine=engine, size=(100, 24)) as (app, pilot):
        await press(pilot, "8")
        await settle(pilot)
        pane = app.views.active
        assert isinstance(pane, TablePane)
        assert pane.shown is not None
        rows = as_exported(pane.shown)
        assert rows == exported(model, "predictions", "--text", TEXT, "--top", "20", "--vs", other)
        assert pane.grid.columns[:5] == ("rank", "token", "probability", "probability_other", "difference")
        pane.grid.go_to_column("difference")
        await pilot.pause()
        assert shown(pane.explanation_line) == "probability in the other model, less that in this"
        await press(pilot, *"/difference > 0 and rank_other = 1", "enter")
        await until(pilot, lambda: pane.counts == (1, len(rows)))
        assert f"--vs {other}" in app.exporting.command()
        table, without = pane.shown, len(PREDICTIONS.columns)
        alone = table.with_frame(table.frame[:, :without])
        for shows, count in ((alone, len(rows)), (table, len(rows))):  # as where another sentence is of other tokens
            pane.show("", shows, None)
            await pilot.pause()
            assert pane.counts == (count, len(rows)), "a filter of columns that are gone hides nothing"
        await press(pilot, *"/difference > 0 and rank_other = 1", "enter")
        assert pane.counts == (1, len(rows))
        await press(pilot, "escape")
        app.exporting.folder = tmp_path
        await press(pilot, "e", "w")
        await until(pilot, lambda: bool(list(tmp_path.glob("*predictions.csv"))))
        (file,) = tmp_path.glob("*predictions.csv")
        with file.open() as lines:
            assert list(csv.DictReader(lines)) == rows


async def test_what_is_of_the_first_model_alone_says_so_in_its_title(pair: tuple[Path, Path]) -> None:
    model, other = pair
    engine = Engine(EngineOptions(other=str(other)))
    async with explorer(model, text=TEXT, engine=engine, size=(80, 24)) as (app, pilot):
        for key, view in (("8", "predictions"), ("8", "lens"), ("8", "contributions"), ("9", "ablation")):
            await press(pilot, key)
            await settle(pilot)
            pane = app.views.active
            assert isinstance(pane, TablePane)
            assert pane.view == view
            assert (f"of {model.name}" in shown(pane.title_line)) == (view != "predictions")
            if view == "predictions":
                pane.grid.go_to_column("probability_other")
                await pilot.pause()
                assert shown(pane.explanation_line) == "of the token in the other model; rows by the larger of both"


async def test_where_the_other_model_reads_other_tokens_the_first_ones_predictions_stand_alone_with_the_reason(
    pair: tuple[Path, Path], tiny_model: TinyModel, tmp_path: Path
) -> None:
    model, _ = pair
    other = other_tokens(model, tiny_model, tmp_path / "other")
    said = refusal(model, "predictions", "--text", TEXT, "--vs", other)
    assert "read this sentence as other tokens, so they cannot be compared on it: token 0 is 't'" in said
    engine = Engine(EngineOptions(other=str(other)))
    async with explorer(model, text=TEXT, engine=engine, size=(200, 24)) as (app, pilot):
        await press(pilot, "8")
        await settle(pilot)
        pane = app.views.active
        assert isinstance(pane, TablePane)
        assert pane.shown is not None
        assert pane.shown.columns == PREDICTIONS.columns
        rows = as_exported(pane.shown)
        assert rows == exported(model, "predictions", "--text", TEXT, "--top", "20")
        assert "without the other model: " in shown(pane.title_line)
