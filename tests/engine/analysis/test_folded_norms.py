"""Circuits with the gains of the norms folded in are those of scaled weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from engine.values.views import CIRCUITS
from tests.cli.test_weight_tables import of_head
from tests.conftest import TinyModel
from tests.engine.mathematics.test_circuits import by_definition
from tests.exporting import exported


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
@pytest.mark.parametrize("head", ["2", "all"])
def test_folded_circuits_are_those_of_scaled_weights_and_a_centred_unembedding(
    tiny_model: TinyModel, model_type: str, head: str
) -> None:
    folder = tiny_model(model_type, with_head=True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    base = model.base_model
    norms = (base.h[1].ln_1, base.ln_f) if model_type == "gpt2" else (base.layers[1].input_layernorm, base.norm)
    before, after, embedding, unembedding = (
        each.weight.detach().double() for each in (*norms, model.get_input_embeddings(), model.get_output_embeddings())
    )
    plain = of_head(model, 1, head)
    folded = {name: plain[name].double() * before for name in "QKV"} | {"O": plain["O"].double()}
    folded |= {"QK": before[:, None] * plain["QK"] * before, "OV": before[:, None] * plain["OV"]}
    centred = (unembedding - unembedding.mean(0)) * after
    expected = by_definition(folded, centred.T @ embedding)
    (row,) = exported(folder, "circuits", "--head", head, "--layer", "1", "--fold-norm")
    for name, value in expected.items():
        if name.endswith(("lost", "in_kernel")):
            assert row[name] == str(value), name
        else:
            assert float(row[name]) == pytest.approx(value, rel=1e-4, abs=2e-5 if "angle" in name else 1e-6), name
    for matrix in ("Q", "K", "V", "O", "QK", "OV"):
        sigma = torch.linalg.svdvals(folded[matrix])
        assert row[f"rank_{matrix.lower()}"] == str(int((sigma > 1.2e-7 * sigma[0]).sum()))
    (unfolded,) = exported(folder, "circuits", "--head", head, "--layer", "1")
    assert all(row[name] == unfolded[name] for name in CIRCUITS.columns if name.endswith("_chance"))
