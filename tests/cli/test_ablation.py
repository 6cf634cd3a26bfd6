"""Heads that are switched off change what a hook on the model changes, one by one and together."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.cli.test_predictions import TEXT, TYPES, Own
from tests.conftest import TinyModel
from tests.exporting import exported

HEADS = {"gpt2": "decoder.L1H2", "llama": "decoder.L0H3", "gemma2": "decoder.L0H1", "t5": "cross.L2H1",
         "bart": "encoder.L1H0", "bert": "encoder.L0H2"}  # fmt: skip


def by_chance(before: Tensor, after: Tensor, token: int) -> tuple[float, float]:
    """Deal the changes of all logits to other tokens, in every cyclic way: root mean squares of what one changes by."""
    changes = (after - before).double()
    probability = before.double().softmax(0)[token]
    dealt = [(before + changes.roll(-by)).softmax(0)[token] - probability for by in range(len(changes))]
    return float(changes.square().mean().sqrt()), float(torch.stack(dealt).square().mean().sqrt())


@pytest.mark.parametrize("by_mean", [False, True])
@pytest.mark.parametrize("model_type", TYPES)
def test_a_switched_off_head_changes_what_a_hook_changes(tiny_model: TinyModel, model_type: str, by_mean: bool) -> None:
    folder = tiny_model(model_type, with_head=True)
    own = Own(folder, model_type)
    stack, _, name = HEADS[model_type].partition(".")
    layer, head = int(name[1]), int(name[3])
    before, after = own.logits(), own.without(stack, layer, head, by_mean=by_mean)
    token = int(before.argmax())
    way = ["--mean"] if by_mean else []
    for row in (
        exported(folder, "ablation", "--text", TEXT, "--off", HEADS[model_type], *way)[0],
        exported(folder, "ablation", "--text", TEXT, "--head", HEADS[model_type], *way)[0],
    ):
        assert int(row["token_id"]) == token
        assert float(row["logit_before"]) == pytest.approx(float(before[token]), abs=1e-4)
        assert float(row["logit_after"]) == pytest.approx(float(after[token]), abs=1e-4)
        assert float(row["logit_change"]) == pytest.approx(float(after[token] - before[token]), abs=1e-4)
        change = after.softmax(0)[token] - before.softmax(0)[token]
        assert float(row["change"]) == pytest.approx(float(change), abs=1e-5)
        by_logit, by_probability = by_chance(before, after, token)
        assert float(row["logit_change_chance"]) == pytest.approx(by_logit, rel=1e-3)
        assert float(row["change_chance"]) == pytest.approx(by_probability, rel=1e-3)
    assert abs(float(after[token] - before[token])) > 1e-3


def test_heads_of_several_layers_are_off_together_by_their_means_of_the_undisturbed_sentence(
    tiny_model: TinyModel,
) -> None:
    folder = tiny_model("gpt2", with_head=True)
    own = Own(folder, "gpt2")
    first, second = (own.output("decoder", layer) for layer in (0, 1))
    means = {module: own.read_by(module).mean(0) for module in (first, second)}

    def put(module: nn.Module, x: Tensor, head: int) -> Tensor:
        x = x.clone()
        x[..., 8 * head : 8 * head + 8] = means[module][8 * head : 8 * head + 8]
        return x

    with own.reading(first, lambda x: put(first, x, 3)), own.reading(second, lambda x: put(second, x, 0)):
        after = own.logits()
    rows = exported(folder, "ablation", "--text", TEXT, "--off", "L0H3", "--off", "L1H0", "--mean", "--top", "3")
    before = own.logits()
    expected = set(before.topk(3).indices.tolist()) | set(after.topk(3).indices.tolist())
    assert {int(row["token_id"]) for row in rows} == expected
    for row in rows:
        token = int(row["token_id"])
        assert float(row["probability_before"]) == pytest.approx(float(before.softmax(0)[token]), abs=1e-5)
        assert float(row["probability_after"]) == pytest.approx(float(after.softmax(0)[token]), abs=1e-5)
        assert (row["stack"], row["layer"], row["head"], row["off"]) == ("", "", "", "L0H3 L1H0")


def test_a_sweep_ranks_all_heads(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama", with_head=True)
    own = Own(folder, "llama")
    token = int(own.logits().argmax())
    rows = exported(folder, "ablation", "--text", TEXT)
    expected = {
        (layer, head): float(own.without("decoder", layer, head).softmax(0)[token])
        for layer in range(2) for head in range(4)
    }  # fmt: skip
    found = {(int(row["layer"]), int(row["head"])): float(row["probability_after"]) for row in rows}
    assert found == pytest.approx(expected, abs=1e-5)
    changes = [abs(float(row["change"])) for row in rows]
    assert changes == sorted(changes, reverse=True)


def test_maps_of_later_layers_are_those_without_the_heads(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    own = Own(folder, "gpt2")

    def change(x: Tensor) -> Tensor:
        x = x.clone()
        x[..., :16] = 0  # heads 0 and 1
        return x

    with own.reading(own.output("decoder", 0), change):
        expected = own.run(output_attentions=True).attentions[1][0, 2]
    before = own.run(output_attentions=True).attentions[1][0, 2]
    rows = exported(folder, "attention", "--text", TEXT, "--head", "L1H2", "--off", "L0H0", "--off", "L0H1")
    found = torch.tensor([float(row["weight"]) for row in rows]).reshape(expected.shape)
    assert float((found - expected).abs().max()) < 1e-5
    assert float((before - expected).abs().max()) > 1e-2
