"""What a module in memory may be wrapped in, called with and changed by; and what is declined, with its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

import engine
from engine.values.errors import EngineError
from tests import tiny_models
from tests.handmade import HEADS, VOCABULARY, WIDTH, FusedCausal, OddNames, Speaker
from tests.opening import rows_of

NUMBERS = "3 14 15 9 2 6"


def test_what_is_given_to_call_a_module_with_is_used() -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = OddNames()

        def forward(self, x: Tensor, *, wanted: str) -> Tensor:
            if wanted != "yes":
                raise ValueError("not wanted")
            written: Tensor = self.inner(x)
            return written

    with pytest.raises(EngineError, match="give example="):
        engine.open_module(Asking())
    example = {"x": torch.randn(1, 7, WIDTH), "wanted": "yes"}
    opened = engine.open_module(Asking(), example=example)
    assert opened.outline.layers[0].key_value_heads == 2
    assert opened.attention("example", "L0").shape == (HEADS, 7, 7)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Linear(8, 8), "no softmax attention"),
        ("gpt2", "no torch.nn.Module"),
        (nn.Sequential(nn.Linear(8, 8), nn.ReLU()), "no softmax attention"),
    ],
)
def test_what_has_no_attention_is_declined(module: Any, reason: str) -> None:
    with pytest.raises(EngineError, match=reason):
        engine.open_module(module)


class NormedTogether(OddNames):
    """Queries normed over all heads at once: no head's query is a product of its own rows alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.omega = nn.Sequential(self.omega, self.norm)  # type: ignore[assignment]


def test_heads_that_cannot_be_told_apart_are_declined_with_the_reason() -> None:
    with pytest.raises(EngineError, match="norm over all heads"):
        engine.open_module(Speaker(NormedTogether))


def test_words_are_asked_for_in_the_form_that_the_model_came_with() -> None:
    opened = engine.open_module(Speaker(FusedCausal))
    with pytest.raises(EngineError, match="token numbers"):
        opened.attention("some words", "L0")
    with pytest.raises(EngineError, match="fails on this sentence"):
        opened.attention(f"1 2 {VOCABULARY}", "L0")

    class Letters:
        def encode(self, text: str) -> list[int]:
            return [ord(letter) % VOCABULARY for letter in text]

        def decode(self, ids: list[int]) -> str:
            return "".join(chr(each + 2 * VOCABULARY) for each in ids)

    spelled = engine.open_module(Speaker(FusedCausal), Letters())
    assert len(spelled.maps("cat", "L0").query_tokens) == 3
    with pytest.raises(EngineError, match="no tokenizer"):
        engine.open_module(Speaker(FusedCausal), object())


def test_tables_of_a_module_are_those_of_a_checkpoint() -> None:
    opened = engine.open_module(Speaker(FusedCausal), name="mine")
    rows = rows_of(opened.ranks(whole_layers=True))
    assert len(rows) == 2 * (HEADS + 1) * 6
    query = torch.from_numpy(opened["L0H1"].arrays()["W_Q"]).double()
    row = next(each for each in rows if (each["layer"], each["head"], each["matrix"]) == (0, "1", "Q"))
    assert row["spectral_norm"] == pytest.approx(float(torch.linalg.svdvals(query)[0]))
    assert opened.outline.name == "mine"
    with pytest.raises(EngineError, match="no head"):
        opened["L0H9"]


def test_what_is_around_a_model_is_taken_off() -> None:
    model = Speaker(FusedCausal)
    compiled: Any = torch.compile(model, backend="eager")
    for wrapped in (nn.DataParallel(model), compiled):
        opened = engine.open_module(wrapped)
        assert opened.outline.layers[0].module == "blocks.0.looking"
        assert opened.attention(NUMBERS, "L0").shape == (HEADS, 6, 6)


def test_a_model_without_weights_is_declined() -> None:
    with torch.device("meta"):
        model = Speaker(FusedCausal)
    with pytest.raises(EngineError, match="meta device"):
        engine.open_module(model)


def test_adapters_that_are_not_merged_are_not_passed_over() -> None:
    config: Any = tiny_models.configuration("llama")
    model = transformers.LlamaForCausalLM(config)
    attention: Any = model.model.layers[0].self_attn
    attention.q_proj.lora_A = nn.Linear(32, 3, bias=False)
    with pytest.raises(EngineError, match="merge_and_unload"):
        engine.open_module(model)


def test_of_several_sentences_the_first_has_its_maps_shown() -> None:
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = torch.randn(2, 5, WIDTH)
    maps = engine.open_module(module, example=(x, x, x)).attention("example", "L0")
    expected = module(x, x, x, average_attn_weights=False)[1][0].detach().numpy()
    np.testing.assert_allclose(maps, expected, atol=1e-6)


class Rewarding(nn.Module):
    """A model of transformers inside somebody else's, which keeps a cache as it runs."""

    def __init__(self) -> None:
        super().__init__()
        config: Any = tiny_models.configuration("llama", attn_implementation="eager")
        self.inner, self.reward = transformers.LlamaModel(config), nn.Linear(32, 1)

    def forward(self, ids: Tensor) -> Tensor:
        reward: Tensor = self.reward(self.inner(ids).last_hidden_state)
        return reward


def test_a_model_inside_another_is_found_though_it_keeps_a_cache() -> None:
    model = Rewarding()
    opened = engine.open_module(model)
    assert [(layer.heads, layer.key_value_heads) for layer in opened.outline.layers] == [(4, 2), (4, 2)]
    attention: Any = model.inner.layers[1].self_attn
    weight = attention.k_proj.weight[8:].detach().numpy()
    np.testing.assert_array_equal(opened["L1H3"].arrays()["W_K"], weight)


def test_ranks_follow_weights_that_change() -> None:
    model = Speaker(FusedCausal)
    opened = engine.open_module(model)
    before = rows_of(opened.ranks())[0]["spectral_norm"]
    with torch.no_grad():
        model.blocks[0].looking.c_attn.weight.mul_(3)  # type: ignore[union-attr, operator]
    after = rows_of(opened.ranks())[0]["spectral_norm"]
    assert isinstance(before, float)
    assert after == pytest.approx(3 * before)


def test_what_a_projection_keeps_beside_its_weight_is_said() -> None:
    config: Any = tiny_models.configuration("llama")
    model = transformers.LlamaForCausalLM(config)
    attention: Any = model.model.layers[0].self_attn
    attention.q_proj.extra = nn.Parameter(torch.ones(3))
    assert "q_proj keeps extra" in " ".join(engine.open_module(model).outline.notes)


def test_maps_follow_weights_that_change() -> None:
    model = Speaker(FusedCausal)
    opened = engine.open_module(model)
    before = opened.attention(NUMBERS, "L0")
    with torch.no_grad():
        model.blocks[0].looking.c_attn.weight.mul_(3)  # type: ignore[union-attr, operator]
    assert np.abs(opened.attention(NUMBERS, "L0") - before).max() > 1e-4
