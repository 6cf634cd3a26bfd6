"""A checkpoint that was saved without a tokenizer reads sentences of token numbers."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.conftest import TinyModel
from tests.exporting import attn_tui
from tests.tiny_configurations import tiny_configuration
from tests.tiny_models import build
from tests.tui.explorer import explorer, screen_text, settle, type_keys

NUMBERS = (5, 17, 3, 5, 17, 30)


@pytest.fixture
def bare(tiny_copy: TinyModel) -> Path:
    """Give a model with its head and no file of a tokenizer."""
    folder = tiny_copy("gpt2", with_head=True)
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / file).unlink(missing_ok=True)
    return folder


def rows(*arguments: str | Path) -> list[dict[str, str]]:
    """Export a table, which has to go well."""
    done = attn_tui("export", *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def refusal(*arguments: str | Path) -> str:
    """Have an export refused in one line, and give the line."""
    done = attn_tui("export", *map(str, arguments))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    return done.stderr


def test_its_maps_and_predictions_are_those_of_the_model_itself(bare: Path) -> None:
    text = " ".join(map(str, NUMBERS))
    model = AutoModelForCausalLM.from_pretrained(bare, attn_implementation="eager").eval()
    with torch.inference_mode():
        said = model(torch.tensor([NUMBERS]), output_attentions=True)
    found = rows(bare, "attention", "--text", text, "--head", "L1H2")
    expected = said.attentions[1][0, 2]
    assert len(found) == len(NUMBERS) ** 2
    assert [int(row["key_token"]) for row in found[: len(NUMBERS)]] == list(NUMBERS)
    for row in found:
        assert float(row["weight"]) == pytest.approx(float(expected[int(row["query"]), int(row["key"])]), abs=1e-6)
    (likeliest,) = (row for row in rows(bare, "predictions", "--text", text) if row["rank"] == "1")
    assert int(likeliest["token_id"]) == int(likeliest["token"]) == int(said.logits[0, -1].argmax())


@pytest.mark.parametrize("model_type", ["t5", "mt5", "switch_transformers", "mbart", "splinter", "udop", "bert"])
def test_types_whose_tokenizer_is_made_up_where_no_file_is_read_numbers(model_type: str, tmp_path: Path) -> None:
    build(tiny_configuration(model_type)).save_pretrained(tmp_path)
    found = rows(tmp_path, "attention", "--text", "5 17 3", "--layer", "0", "--stack", "encoder", "--head", "0")
    assert [row["key_token"] for row in found[:3]] == ["5", "17", "3"]
    assert "type token numbers, such as 5 17 3" in refusal(tmp_path, "attention", "--text", "the cat")


def test_its_directions_name_tokens_by_their_numbers(bare: Path) -> None:
    found = rows(bare, "directions", "--head", "L0H0", "--first", "1")
    assert found
    assert all(row["token"] == row["token_id"] for row in found)


def test_what_is_no_token_number_is_refused_with_what_to_type(bare: Path) -> None:
    assert "without a tokenizer; type token numbers, such as 5 17 3" in refusal(bare, "attention", "--text", "the cat")
    vocabulary = AutoModelForCausalLM.from_pretrained(bare).config.vocab_size
    for view in ("attention", "predictions", "ablation", "contributions"):
        said = refusal(bare, view, "--text", f"5 {vocabulary} 3")
        assert f"has no token {vocabulary}; type numbers from 0 to {vocabulary - 1}" in said


def test_a_tokenizer_that_does_not_open_is_still_said_to_be_damaged(bare: Path) -> None:
    (bare / "tokenizer.json").write_text("{")
    assert "has no tokenizer that opens" in refusal(bare, "attention", "--text", "5 17 3")
    (bare / "tokenizer.json").unlink()
    (bare / "tokenizer_config.json").write_text("{}")
    assert "has no tokenizer, or one without words" in refusal(bare, "attention", "--text", "5 17 3")


def test_one_of_the_hub_cache_may_have_its_tokenizer_elsewhere(bare: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--some--body" / "snapshots" / ("0" * 40)
    shutil.copytree(bare, snapshot)
    assert "hf download some/body brings it if there is one" in refusal(snapshot, "attention", "--text", "the cat")
    assert rows(snapshot, "attention", "--text", "5 17 3", "--head", "L0H0")


async def test_the_explorer_says_what_to_type_and_reads_it(bare: Path) -> None:
    async with explorer(bare, head="L0H0") as (app, pilot):
        await settle(pilot)
        await type_keys(pilot, "i", *"cat", "enter")
        await settle(pilot)
        assert "type token numbers, such as 5 17 3" in " ".join(screen_text(app).split())
        await type_keys(pilot, "i", "ctrl+u", *"5 17 3", "enter")
        await settle(pilot)
        assert app.views.attention.display
        assert "5│17│3│" in screen_text(app)
        assert "3/" in screen_text(app)
