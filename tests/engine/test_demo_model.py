"""The shipped demo model is small, reads any text, knows English when it sees it, and has heads worth looking at."""

from __future__ import annotations

import itertools
import math
import shutil
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from engine.demo import MODEL_DIRECTORY
from engine.demo.corpus import HELD_OUT_DISTANCES, python_prose, written_documents
from engine.demo.train import main


@cache
def demo() -> tuple[Any, Any]:
    """Load the model with eager attention, and its tokenizer, as anybody would."""
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL_DIRECTORY, attn_implementation="eager").eval()
    return model, transformers.AutoTokenizer.from_pretrained(MODEL_DIRECTORY)


def maps_of_repeats(distance: int) -> torch.Tensor:
    """Read random tokens twice, ``distance`` apart: attention as (layer, row, head, query, key)."""
    model, _ = demo()
    generator = torch.Generator().manual_seed(distance)
    once = torch.randint(1, model.config.vocab_size, (8, distance), generator=generator)
    ids = torch.cat([torch.zeros(8, 1, dtype=once.dtype), once, once], dim=1)
    with torch.no_grad():
        return torch.stack(model(ids, output_attentions=True).attentions)


def test_the_folder_is_small_enough_to_ship() -> None:
    assert sum(file.stat().st_size for file in MODEL_DIRECTORY.iterdir()) <= 5_000_000


@pytest.mark.parametrize("distance", HELD_OUT_DISTANCES[:4])
def test_heads_look_at_the_previous_token_and_do_induction_at_distances_never_trained_on(distance: int) -> None:
    maps = maps_of_repeats(distance)
    previous = maps.diagonal(offset=-1, dim1=-2, dim2=-1).mean((1, 3))
    assert previous.max() > 0.4
    queries = torch.arange(distance + 1, 2 * distance + 1)
    induction = maps[..., queries, queries - distance + 1].mean((1, 3))
    assert induction.max() > 0.5


@pytest.mark.parametrize(
    "text",
    ["The cat sat on the mat.", "[bold]x[/bold] [/]", "a\nb\tc", "\x1b[31mred\x07", "naïve 猫 🙂‍↔️", "  two  ", "0123"],
)
def test_any_text_goes_through_the_tokenizer_and_comes_back(text: str) -> None:
    _, tokenizer = demo()
    ids = tokenizer(text)["input_ids"]
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(ids[1:]) == text


def test_it_predicts_unseen_english_far_better_than_word_frequencies_do() -> None:
    model, tokenizer = demo()
    texts = list(itertools.islice(written_documents(12345), 40))
    rows = [tokenizer(text, truncation=True, max_length=128)["input_ids"] for text in texts]
    counts = Counter(token for row in rows for token in row[1:])
    total = sum(counts.values())
    unigram = -sum(count * math.log(count / total) for count in counts.values()) / total
    with torch.no_grad():
        losses = [model(input_ids=torch.tensor([row]), labels=torch.tensor([row])).loss.item() for row in rows]
    assert sum(losses) / len(losses) < 0.6 * unigram


def test_the_training_script_writes_a_model_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some, made = tmp_path / "library", tmp_path / "model"
    some.mkdir()
    for module in ("this", "argparse", "logging/__init__", "statistics"):  # reading the whole library takes seconds
        shutil.copy(Path(sysconfig.get_path("stdlib"), f"{module}.py"), some)
    with monkeypatch.context() as reading:
        reading.setattr("sysconfig.get_path", lambda name: str(some))
        prose = python_prose()
    assert len(prose) > 100
    monkeypatch.setattr("engine.demo.train.python_prose", lambda: prose)
    run = tmp_path / "run"
    main(["--steps", "2", "--output", str(made), "--checkpoints", str(run), "--unwired"])
    assert "2/2" in capsys.readouterr().out
    assert sorted(each.name for each in run.iterdir()) == ["checkpoint-0", "checkpoint-1", "checkpoint-2"]
    model = transformers.AutoModelForCausalLM.from_pretrained(made)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    assert model.config.model_type == "llama"
    assert tokenizer("hello")["input_ids"]
