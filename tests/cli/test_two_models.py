"""Two models that cannot be compared, or not in all: what is said, and that it is said before either is loaded."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import pytest
import transformers

from engine.analysis.open_model import OpenModel
from engine.checkpoints.locate import find_source
from engine.values.memory import size
from engine.values.options import EngineOptions
from tests.conftest import TinyModel
from tests.exporting import refusal, run

SENTENCE = "The cat sat on the mat."


def test_what_differs_is_named_and_what_both_have_is_compared(tiny_model: TinyModel) -> None:
    model = tiny_model("llama")
    wide = refusal(model, "changes", "--vs", tiny_model("llama", num_key_value_heads=4))
    assert "decoder L0 has 2 against 4 key/value heads" in wide
    assert refusal(model, "changes", "--vs", tiny_model("bert")).endswith("has no decoder, it has encoder\n")
    deep = tiny_model("llama", num_hidden_layers=3)
    done = run(deep, "changes", "--vs", model)
    assert {row["layer"] for row in csv.DictReader(io.StringIO(done.stdout))} == {"0", "1"}
    assert "decoder L2 is not compared" in done.stderr
    assert f"{model} has no decoder L2" in refusal(deep, "changes", "--vs", model, "--layer", "2")
    assert "has one layer that" in run(model, "changes", "--vs", deep).stderr
    attention = ("attention", "--text", SENTENCE, "--layer", "mean")
    assert "have 3 and 2 layers in their decoder" in refusal(deep, *attention, "--vs", model)
    assert "changes needs --vs" in refusal(model, "changes", code=2)
    assert "--vs says nothing about ranks" in refusal(model, "ranks", "--vs", model, code=2)


def test_models_that_read_other_tokens_have_no_difference(tiny_model: TinyModel, tmp_path: Path) -> None:
    model = tiny_model("llama")
    other = Path(shutil.copytree(model, tmp_path / "other"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model("bert"))
    for file in other.glob("token*"):
        file.unlink()
    tokenizer.save_pretrained(other)
    said = refusal(model, "attention", "--vs", other, "--text", SENTENCE)
    assert said.count("\n") == 1
    assert "token 0 is 'The' for the first and '[CLS]' for the second" in said


def test_two_models_that_do_not_fit_together_are_refused_before_any_is_loaded(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("gpt2")
    asked = ("attention", "--text", SENTENCE, "--vs", model, "--dtype", "bfloat16", "--layer", "0")
    options = EngineOptions(dtype="bfloat16")
    need = OpenModel(find_source(str(model), options, lambda progress: None), options).memory().need
    assert need is not None
    total = need.total
    monkeypatch.setattr("engine.checkpoints.memory.free_memory", lambda: total * 3 // 2)
    said = refusal(model, *asked)
    assert f"{model} beside {model} needs {size(2 * total)} to read a sentence" in said
    monkeypatch.setattr("engine.checkpoints.memory.free_memory", lambda: total * 2)
    assert run(model, *asked).exit_code == 0
