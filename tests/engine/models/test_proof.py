"""The proof of heads holds for right cuts and for no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.architectures.heads import LayerWeights, read_layer
from engine.architectures.rules import Layout, fused_places
from engine.models.proof import prove
from engine.values.heads import Head
from engine.values.outline import LayerProof
from tests.conftest import TinyModel
from tests.exporting import attn_tui, written
from tests.opening import edited_weights, no_hurry, open_folder, open_reader, with_config

LAYER = Head("decoder", 1)

Spoil = Callable[[LayerWeights], LayerWeights]


def proving(folder: Path) -> Callable[[Spoil], LayerProof]:
    """Watch layer 1; return a function that checks it with spoilt weights."""
    _, checkpoint, anatomy = open_folder(folder)
    module, seen = anatomy.modules[LAYER], open_reader(folder).observe(no_hurry)
    weights = read_layer(checkpoint, module)
    return lambda spoil: prove(module, spoil(weights), seen[LAYER])


def changed(name: str, change: Callable[[Tensor], Any]) -> Spoil:
    return lambda weights: replace(weights, **{name: change(getattr(weights, name))})


def roll_heads(name: str) -> Spoil:
    """Give every head its neighbour's part."""
    return changed(name, lambda part: part.roll(1, 0))


def reverse_rows(name: str) -> Spoil:
    return changed(name, lambda part: part.flip(1))


WRONG_CUTS: list[tuple[Spoil, str]] = [
    (roll_heads("query"), "scores"),
    (roll_heads("key"), "scores"),
    (roll_heads("value"), "output"),
    (roll_heads("output"), "output"),
    (reverse_rows("query"), "scores"),
    (reverse_rows("value"), "output"),
    (lambda weights: replace(weights, key=weights.value), "scores"),
    (lambda weights: replace(weights, value=weights.key), "output"),
]
"""Ways to spoil weights, and the identity that each breaks."""


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "gpt_neox", "qwen3", "bloom"])
def test_wrong_cuts_are_found(model_type: str, tiny_model: TinyModel) -> None:
    proof_of = proving(tiny_model(model_type))
    for number, (spoil, breaks) in enumerate(WRONG_CUTS):
        proof = proof_of(spoil)
        broken, whole = (proof.output, proof.scores) if breaks == "output" else (proof.scores, proof.output)
        assert (broken.holds, whole.holds) == (False, True), number
        assert broken.residual > 1e-3, number


def test_a_forgotten_bias_is_found(tiny_model: TinyModel) -> None:
    proof_of = proving(tiny_model("gpt2"))
    # A key bias adds the same to all scores of a query, so no probability depends on it.
    for name, breaks in (("value_bias", "output"), ("output_bias", "output"), ("query_bias", "scores")):
        assert getattr(proof_of(changed(name, lambda bias: None)), breaks).holds is False, name


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_checked_without_its_rounding(dtype: str, tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    _, checkpoint, anatomy = open_folder(folder)
    module, reader = anatomy.modules[LAYER], open_reader(folder, dtype)
    weights = read_layer(checkpoint, module)
    before = {name: each.clone() for name, each in reader.model.state_dict().items()}
    proof = prove(module, weights, reader.observe(no_hurry)[LAYER])
    for finding in (proof.output, proof.scores):
        assert finding.holds
        assert finding.residual < 1e-5
    wrong = replace(weights, value=weights.value.roll(1, 0))
    assert prove(module, wrong, reader.observe(no_hurry)[LAYER]).output.holds is False
    for name, each in reader.model.state_dict().items():
        assert each.dtype == before[name].dtype
        assert torch.equal(each, before[name])


def rewritten(folder: Path, change: Callable[[str, Tensor], Tensor], **settings: Any) -> Path:
    with edited_weights(folder) as weights:
        weights.update({name: change(name, each) for name, each in weights.items()})
    return with_config(folder, **settings)


def with_biases(size: float, name: str, stored: Tensor) -> Tensor:
    """Make biases of queries and keys large, as Qwen2 has them, and store bfloat16."""
    is_large = name.endswith(("q_proj.bias", "k_proj.bias"))
    drawn = size * torch.randn(stored.shape, generator=torch.Generator().manual_seed(len(name)))
    return (drawn if is_large else stored).bfloat16()


def exchange_rows(name: str) -> Spoil:
    def exchange(part: Tensor) -> Tensor:
        exchanged = part.clone()
        exchanged[1, [2, 3]] = part[1, [3, 2]]
        return exchanged

    return changed(name, exchange)


@pytest.mark.parametrize("size", [10.0, 30.0, 1000.0])
def test_large_biases_stored_in_bfloat16_raise_no_false_alarm_and_hide_no_fault(
    size: float, tiny_copy: TinyModel
) -> None:
    folder = rewritten(tiny_copy("qwen2"), partial(with_biases, size), dtype="bfloat16")
    done = attn_tui("check", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 layers: 2 verified" in done.stdout
    proof_of = proving(folder)
    assert proof_of(exchange_rows("value")).output.holds is False
    if size < 20:  # with larger ones each query attends to one key alone
        for spoil in (exchange_rows("query"), exchange_rows("key"), roll_heads("query_bias")):
            assert proof_of(spoil).scores.holds is False


def test_the_check_command_prints_every_layer_and_writes_a_table(tiny_model: TinyModel, tmp_path: Path) -> None:
    done = attn_tui("check", tiny_model("qwen3"), "-o", tmp_path / "check.csv")
    assert done.returncode == 0, done.stderr
    assert "decoder L1  heads write: verified, " in done.stdout
    assert "heads look: verified with query/key norm" in done.stdout
    assert "2 layers: 2 verified" in done.stdout
    rows = written(tmp_path, "check.csv")
    assert [(row["layer"], row["identity"], row["verdict"]) for row in rows] == [
        (layer, identity, "verified") for layer in "01" for identity in ("output", "scores")
    ]
    assert all(float(row["residual"]) < 1e-5 for row in rows)


def test_a_layout_that_is_not_the_models_is_wrong(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = fused_places(Layout.BLOCKS, 4, 4)
    monkeypatch.setattr("engine.architectures.heads.fused_places", lambda layout, heads, shared: blocks)
    done = attn_tui("check", tiny_model("gpt_neox"))
    assert done.returncode == 1
    assert "do not trust them" in done.stderr
    assert "2 layers: 0 verified, 2 WRONG" in done.stdout
