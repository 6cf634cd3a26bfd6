"""Numbers that others have published of real checkpoints, where those are in the local Hub cache."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.conftest import PERSONS_HUB_CACHE
from tests.exporting import attn_tui

BERT_LAYERS = {
    0: (531, 532, 553, 549, 345, 314),
    1: (538, 532, 554, 550, 381, 321),
    2: (523, 513, 550, 546, 404, 205),
    3: (541, 536, 546, 552, 419, 340),
}
"""Energy ranks of bert-base-uncased, ε = 0.01, by whole layer: Q, K, V, O, OV, QK."""

BERT_HEADS = {
    0: (61, 62, 62, 62, 59, 55),
    1: (63, 63, 63, 63, 62, 61),
    2: (63, 63, 63, 63, 63, 63),
    3: (62, 62, 62, 63, 61, 57),
    4: (60, 62, 63, 62, 59, 52),
    5: (63, 63, 63, 63, 63, 61),
    6: (60, 62, 63, 63, 61, 53),
    7: (62, 63, 63, 63, 61, 57),
    8: (63, 63, 63, 63, 61, 59),
    9: (63, 63, 63, 63, 62, 60),
}
"""The same of layer 0, by head."""


def snapshot(*names: str) -> Path:
    """Find the snapshot of a model that goes by one of several ids, or skip the test."""
    for name in names:
        folder = PERSONS_HUB_CACHE / f"models--{name.replace('/', '--')}"
        revision = folder / "refs" / "main"
        if revision.is_file():
            found = folder / "snapshots" / revision.read_text(encoding="utf-8").strip()
            if (found / "config.json").is_file():
                return found
    pytest.skip(f"{names[0]} is not in the local Hub cache, {PERSONS_HUB_CACHE}")


def energy_ranks(folder: Path, layer: int) -> dict[str, tuple[int, ...]]:
    """Export a layer's energy ranks: by head or ``all``, in the order of the published tables."""
    done = attn_tui("export", folder, "ranks", "--layer", str(layer), "--no-cache")
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(io.StringIO(done.stdout)):
        found.setdefault(row["head"], {})[row["matrix"]] = int(row["energy_rank"])
    return {head: tuple(ranks[each] for each in ("Q", "K", "V", "O", "OV", "QK")) for head, ranks in found.items()}


@pytest.mark.parametrize("layer", BERT_LAYERS)
def test_the_whole_layers_of_bert_have_the_published_ranks(layer: int) -> None:
    folder = snapshot("google-bert/bert-base-uncased", "bert-base-uncased")
    assert energy_ranks(folder, layer)["all"] == BERT_LAYERS[layer]


def test_the_first_heads_of_bert_have_the_published_ranks() -> None:
    ranks = energy_ranks(snapshot("google-bert/bert-base-uncased", "bert-base-uncased"), 0)
    assert {head: ranks[str(head)] for head in BERT_HEADS} == BERT_HEADS


def test_the_output_embedding_of_gpt2_is_tied_to_the_input_embedding() -> None:
    folder = snapshot("openai-community/gpt2", "gpt2")
    done = attn_tui("export", folder, "weights")
    ties = {row["name"]: row["tied_to"] for row in csv.DictReader(io.StringIO(done.stdout)) if row["tied_to"]}
    assert ties == {"lm_head.weight": "wte.weight"} or ties == {"lm_head.weight": "transformer.wte.weight"}
