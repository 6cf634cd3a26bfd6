"""``contributions`` against the formulas of types, worked out on transformers' own models with hooks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cli.test_predictions import TEXT, Own
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.opening import with_config


@torch.no_grad()
def by_hand(own: Own, token: int) -> dict[tuple[str, int, int], tuple[float, float]]:
    """Give every head's direct contribution by the formulas of its type, and the RMS of that to all tokens."""
    model, model_type = own.model, own.model.config.model_type
    last = {
        "gpt2": lambda: model.transformer.ln_f, "llama": lambda: model.model.norm, "gemma2": lambda: model.model.norm,
        "t5": lambda: model.decoder.final_layer_norm,
    }[model_type]()  # fmt: skip
    x = own.read_by(last)[own.position]
    rows = model.lm_head.weight.detach()
    if model_type == "t5":
        rows = rows * 32**-0.5  # T5 scales before a tied head

    def root_mean_square(each: Tensor) -> Tensor:
        return each.square().mean().add(1e-6).sqrt()

    found = {}
    for stack in ("decoder", "cross") if model_type == "t5" else ("decoder",):
        for layer in range(3 if model_type == "t5" else 2):
            module = own.output(stack, layer)
            read = own.read_by(module)[own.position]
            weight: Any = module.weight
            for head in range(4):
                part = slice(8 * head, 8 * head + 8)
                v = read[part] @ weight[part] if model_type == "gpt2" else weight[:, part] @ read[part]
                if model_type == "gemma2":
                    whole = weight @ read
                    gain = model.model.layers[layer].post_attention_layernorm.weight
                    v = v * (1 + gain) / root_mean_square(whole)
                if model_type == "gpt2":
                    v = (v - v.mean()) * last.weight / x.var(unbiased=False).add(1e-5).sqrt()
                else:
                    v = v * (last.weight + (model_type == "gemma2")) / root_mean_square(x)
                given = rows @ v
                found[stack, layer, head] = (float(given[token]), float(given.square().mean().sqrt()))
    return found


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gemma2", "t5"])
def test_contributions_are_those_of_the_formula_and_add_up_to_the_logit(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type, with_head=True)
    own = Own(folder, model_type)
    logits = own.logits()
    token = int(logits.topk(3).indices[2])
    rows = exported(folder, "contributions", "--text", TEXT, "--token", f"#{token}")
    for place, name in enumerate(("contribution", "contribution_chance")):
        heads = {(row["stack"], int(row["layer"]), int(row["head"])): float(row[name])
                 for row in rows if row["part"] == "head"}  # fmt: skip
        assert heads == pytest.approx({head: each[place] for head, each in by_hand(own, token).items()}, abs=1e-4)
    cap = own.model.config.final_logit_softcapping if model_type == "gemma2" else None
    logit = float(logits[token] if cap is None else cap * torch.atanh(logits[token] / cap))
    assert sum(float(row["contribution"]) for row in rows) == pytest.approx(logit, abs=1e-4)
    assert [float(row["logit"]) for row in rows] == pytest.approx([logit] * len(rows), abs=1e-4)
    assert {bool(row["note"]) for row in rows} == {cap is not None}
    sizes = [abs(float(row["contribution"])) for row in rows]
    assert sizes == sorted(sizes, reverse=True)


def test_contributions_add_up_where_norms_come_after_the_sum(tiny_model: TinyModel) -> None:
    folder = tiny_model("bart", with_head=True)
    rows = exported(folder, "contributions", "--text", TEXT)
    logit = float(Own(folder, "bart").logits().max())
    assert sum(float(row["contribution"]) for row in rows) == pytest.approx(logit, abs=2e-4)
    assert {row["stack"] for row in rows} == {"decoder", "cross"}


@pytest.mark.parametrize("cap", [0.5, 30.0, 3000.0])
def test_where_logits_are_capped_they_are_of_the_logit_before_whichever_the_token(
    tiny_copy: TinyModel, cap: float
) -> None:
    """Where the cap is flat nothing seems to be added, and where it hardly bends what is added seems to add up."""
    folder = with_config(tiny_copy("gemma2", with_head=True), final_logit_softcapping=cap)
    own = Own(folder, "gemma2")
    own.model.config.final_logit_softcapping = None
    logits = own.logits()
    for token in (int(logits.argmax()), int(logits.argmin()), int(logits.abs().argmin())):
        rows = exported(folder, "contributions", "--text", TEXT, "--token", f"#{token}")
        assert {row["note"] for row in rows} == {"of the logit before the model caps it"}
        assert [float(row["logit"]) for row in rows] == pytest.approx([float(logits[token])] * len(rows), abs=1e-4)
        for place, name in enumerate(("contribution", "contribution_chance")):
            heads = {(row["stack"], int(row["layer"]), int(row["head"])): float(row[name])
                     for row in rows if row["part"] == "head"}  # fmt: skip
            assert heads == pytest.approx({head: each[place] for head, each in by_hand(own, token).items()}, abs=1e-4)


def test_a_scale_behind_the_unembedding_is_no_cap(tiny_copy: TinyModel) -> None:
    folder = with_config(tiny_copy("cohere", with_head=True), logit_scale=0.25)
    rows = exported(folder, "contributions", "--text", TEXT)
    assert {row["note"] for row in rows} == {""}
    (best,) = exported(folder, "predictions", "--text", TEXT, "--top", "1")
    assert sum(float(row["contribution"]) for row in rows) == pytest.approx(float(best["logit"]), abs=1e-4)


def test_a_token_that_cannot_be_seen_is_known_as_it_is_and_as_tables_write_it(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    for typed, written in (("\t", r"\t"), ("\n", r"\n"), ("\x1b", r"\x1b")):
        rows = exported(folder, "contributions", "--text", TEXT, "--token", written)
        assert {row["token"] for row in rows} == {written}
        assert exported(folder, "contributions", "--text", TEXT, "--token", typed) == rows
