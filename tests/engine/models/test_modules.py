"""A PyTorch module in memory opens with the heads that it computes with, and is not changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

import engine
from tests import tiny_models
from tests.handmade import (
    HEADS,
    VOCABULARY,
    WIDTH,
    Annotated,
    FusedCausal,
    Gated,
    Grouped,
    LanguageModel,
    ManyAlone,
    NormedHeads,
    RawParameters,
    SummedAxes,
)
from tests.opening import VERIFIED, refused, rows_of, verdicts_of
from tests.tiny_configurations import tiny_configuration

NARROW = WIDTH // HEADS

NUMBERS = "3 14 15 9 2 6"


def _rows(weight: Tensor, head: int) -> Tensor:
    """Take a head's rows where the heads are stacked."""
    return weight[head * NARROW : (head + 1) * NARROW]


KINDS = (FusedCausal, Grouped, RawParameters, SummedAxes, ManyAlone, NormedHeads, Annotated)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_heads_of_a_fused_projection_are_its_rows_in_any_precision(dtype: torch.dtype) -> None:
    opened = engine.open_module(model := LanguageModel(FusedCausal).to(dtype))
    part: Any = model.blocks[1].attention
    for place, matrix in enumerate("QKV"):
        for kind, stored in (("W", part.c_attn.weight), ("b", part.c_attn.bias)):
            expected = _rows(stored.chunk(3)[place], 2).detach().float().numpy()
            np.testing.assert_array_equal(opened["L1H2"].arrays()[f"{kind}_{matrix}"], expected)


def test_queries_are_told_from_keys_by_what_the_module_computes() -> None:
    model = LanguageModel(Grouped)  # which calls wk(x) its query, but its scores are transposed
    opened = engine.open_module(model)
    part: Any = model.blocks[0].attention
    np.testing.assert_array_equal(opened["L0H3"].W_Q, _rows(part.wq.weight, 3).detach().numpy())
    np.testing.assert_array_equal(opened["L0H3"].W_K, _rows(part.wk.weight, 1).detach().numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_the_heads_of_a_hand_written_module_compute_what_it_computes(kind: type[nn.Module]) -> None:
    torch.manual_seed(2)
    model = LanguageModel(kind)
    opened = engine.open_module(model)
    assert [layer.heads for layer in opened.outline.layers] == [HEADS, HEADS]
    maps = opened.maps(NUMBERS, "L1")
    assert maps.query_tokens == tuple(NUMBERS.split())
    second: Any = model.blocks[1]
    seen: list[Tensor] = []
    second.attention.register_forward_hook(lambda module, args, result: seen.extend((args[0][0], result[0])))
    with torch.no_grad():
        model.eval()(torch.tensor([[int(each) for each in NUMBERS.split()]]))
    (x, written), scores, again = seen, [], torch.zeros(())
    for head in range(HEADS):
        arrays = {name: torch.from_numpy(array) for name, array in opened[f"L1H{head}"].arrays().items()}
        query, key, value = (x @ arrays[f"W_{each}"].T + arrays.get(f"b_{each}", 0.0) for each in "QKV")
        scores.append(query @ key.T * (1.0 if kind is RawParameters else NARROW**-0.5))
        again = again + torch.from_numpy(maps.weights[head]) @ value @ arrays["W_O"].T
    if kind is not Grouped:  # whose rotations are not in its matrices
        is_causal = kind is ManyAlone or issubclass(kind, FusedCausal)
        hidden = torch.ones(6, 6, dtype=torch.bool).triu(1) & is_causal
        expected = torch.stack(scores).masked_fill(hidden, -torch.inf).softmax(-1)
        np.testing.assert_allclose(maps.weights, expected.numpy(), atol=1e-5)
    if not issubclass(kind, NormedHeads):
        torch.testing.assert_close(again + arrays.get("b_O", 0.0), written, atol=1e-5, rtol=1e-5)
    verdicts = verdicts_of(opened)
    assert verdicts["output"] == {"verified"} or issubclass(kind, NormedHeads)
    assert verdicts["scores"] == {"verified"} or kind is Grouped
    assert not any("sink" in (row["note"] or "") for row in rows_of(opened.check()))


def test_nothing_of_a_module_is_changed() -> None:
    model = LanguageModel(FusedCausal)
    model.blocks[0].eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    states = [part.training for part in model.modules()]
    opened = engine.open_module(model)
    opened.attention(NUMBERS, "L0")
    opened.check()
    assert [part.training for part in model.modules()] == states
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert all(each.grad is None and each.requires_grad for each in model.parameters())


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("widths", [{}, {"kdim": 10, "vdim": 10}])
def test_attention_of_pytorch_is_cut_into_heads(batch_first: bool, widths: dict[str, int]) -> None:
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, **widths)
    nn.init.normal_(module.in_proj_bias)
    opened = engine.open_module(module)
    found = opened["L0H2"].arrays()
    key = module.k_proj_weight if widths else module.in_proj_weight[WIDTH : 2 * WIDTH]
    np.testing.assert_array_equal(found["W_K"], _rows(key, 2).detach().numpy())
    np.testing.assert_array_equal(found["W_O"], module.out_proj.weight[:, 12:18].detach().numpy())
    np.testing.assert_array_equal(found["b_V"], module.in_proj_bias[60:66].detach().numpy())
    assert verdicts_of(opened) == VERIFIED


def test_encoders_and_decoders_of_pytorch_have_their_stacks() -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True)
    for encoder in (layer, nn.TransformerEncoder(layer, 2)):
        assert engine.open_module(encoder).outline.stacks == ("encoder",)
    model = nn.Transformer(WIDTH, HEADS, 2, 3, 32)
    opened = engine.open_module(model)
    assert [(layer.stack, layer.layer) for layer in opened.outline.layers] == [
        ("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1), ("decoder", 2),
        ("cross", 0), ("cross", 1), ("cross", 2),
    ]  # fmt: skip
    own = model.decoder.layers[1].multihead_attn.in_proj_weight
    np.testing.assert_array_equal(opened["cross.L1H0"].W_Q, own[:NARROW].detach().numpy())
    assert opened.attention("example", "cross.L2").shape == (HEADS, 11, 11)


def test_a_model_of_transformers_opens_by_its_rules_and_keeps_its_attention() -> None:
    config: Any = tiny_configuration("llama", attn_implementation="sdpa")
    model = transformers.LlamaForCausalLM(config).train()
    tokenizer, text = tiny_models.byte_level_tokenizer(), "The cat sat on the mat."
    opened = engine.open_module(model, tokenizer)
    maps = opened.maps(text, "L1")
    key: Any = model.model.layers[1].self_attn.k_proj.weight[8:16]
    np.testing.assert_array_equal(opened["L1H3"].W_K, key.detach().numpy())
    assert set().union(*verdicts_of(opened).values()) == {"verified"}
    assert model.config._attn_implementation == "sdpa"
    assert model.training
    config = tiny_configuration("llama", attn_implementation="eager")
    eager = transformers.LlamaForCausalLM(config).eval()
    eager.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected = eager(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions[1][0]
    np.testing.assert_allclose(maps.weights, expected.numpy(), atol=1e-5)


SCORES, OUTPUTS = "scores beyond QK", "outputs beyond OV"


@pytest.mark.parametrize(
    ("kind", "beyond"),
    [
        (FusedCausal, set()), (Grouped, {SCORES}), (Gated, {SCORES, OUTPUTS}),
        (NormedHeads, {OUTPUTS}),
    ],
)  # fmt: skip
def test_what_takes_part_beside_the_matrices_is_marked(kind: type[nn.Module], beyond: set[str]) -> None:
    torch.manual_seed(4)
    opened = engine.open_module(LanguageModel(kind))
    marks = set(opened.outline.layers[0].marks)
    assert marks & {SCORES, OUTPUTS} == beyond
    assert marks == {"query/key bias"} or kind is not FusedCausal
    assert kind is not Gated or set().union(*verdicts_of(opened).values()) == {"not verifiable"}


def test_a_module_is_called_with_the_example() -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Grouped()

        def forward(self, x: Tensor, *, wanted: str) -> Any:
            if wanted != "yes":
                raise ValueError("not wanted")
            return self.inner(x)

    said = refused(lambda: engine.open_module(Asking()))
    assert re.search(r"cannot be called \(.*\); give its input as example=", said)
    example = {"x": torch.randn(1, 7, WIDTH), "wanted": "yes"}
    opened = engine.open_module(Asking(), example=example)
    assert opened.outline.layers[0].key_value_heads == 2
    assert opened.attention("example", "L0").shape == (HEADS, 7, 7)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Linear(8, 8), "no softmax attention"),
        ("gpt2", "is not a torch.nn.Module"),
        (nn.Linear(8, 8, device="meta"), "meta device"),
    ],
)
def test_a_module_without_attention_is_declined(module: Any, reason: str) -> None:
    assert reason in refused(lambda: engine.open_module(module))


class OddNames(FusedCausal):
    c_attn = property(lambda part: part.together)

    def __init__(self) -> None:
        super().__init__()
        self._modules["together"] = self._modules.pop("c_attn")


def test_projections_with_other_names_are_found_when_they_are_given() -> None:
    model = LanguageModel(OddNames)
    said = refused(lambda: engine.open_module(model))
    assert re.search(r"blocks\.0\.attention computes attention whose .*give projections=", said)
    opened = engine.open_module(model, projections=("together", "together", "together", "c_proj"))
    part: Any = model.blocks[1].attention
    np.testing.assert_array_equal(opened["L1H2"].W_Q, _rows(part.together.weight, 2).detach().numpy())


def test_sentences_are_read_with_the_given_tokenizer() -> None:
    opened = engine.open_module(LanguageModel(FusedCausal))
    assert "token numbers" in refused(lambda: opened.attention("some words", "L0"))
    assert "fails on this sentence" in refused(lambda: opened.attention(f"1 2 {VOCABULARY}", "L0"))

    class Letters:
        def encode(self, text: str) -> list[int]:
            return [ord(letter) % VOCABULARY for letter in text]

        def decode(self, ids: list[int]) -> str:
            return "".join(chr(each + 2 * VOCABULARY) for each in ids)

    spelled = engine.open_module(LanguageModel(FusedCausal), Letters())
    assert len(spelled.maps("cat", "L0").query_tokens) == 3
    said = refused(lambda: engine.open_module(LanguageModel(FusedCausal), object()))
    assert "object is not a tokenizer" in said


def scale(linear: nn.Linear, weight: Tensor) -> None:
    with torch.no_grad():
        linear.weight.mul_(3)


def replace(linear: nn.Linear, weight: Tensor) -> None:
    linear.weight = nn.Parameter(weight)


@pytest.mark.parametrize("change", [scale, replace])
@pytest.mark.parametrize("kind", ["transformers", FusedCausal, ManyAlone])
def test_tables_and_maps_are_those_of_the_present_weights(kind: Any, change: Callable[[Any, Tensor], None]) -> None:
    if kind == "transformers":
        config: Any = tiny_configuration("llama")
        model: Any = transformers.LlamaForCausalLM(config)
        linear = model.model.layers[0].self_attn.q_proj
    else:
        model = LanguageModel(kind)
        linear = next(each for each in model.blocks[0].attention.modules() if isinstance(each, nn.Linear))
    opened = engine.open_module(model, name="mine")
    assert opened.outline.name == "mine"
    before = opened.ranks(whole_layers=True)
    change(linear, torch.rand_like(linear.weight))
    again = engine.open_module(model)
    ranks = rows_of(opened.ranks(whole_layers=True))
    assert ranks == rows_of(again.ranks(whole_layers=True)) != rows_of(before)
    np.testing.assert_array_equal(opened["L0H1"].W_Q, again["L0H1"].W_Q)
    np.testing.assert_array_equal(opened.attention(NUMBERS, "L0"), again.attention(NUMBERS, "L0"))
    assert set().union(*verdicts_of(opened).values()) == {"verified"}


def test_wrappers_around_a_model_are_removed() -> None:
    model = LanguageModel(FusedCausal)
    compiled: Any = torch.compile(model, backend="eager")
    for wrapped in (nn.DataParallel(model), compiled):
        opened = engine.open_module(wrapped)
        assert opened.outline.layers[0].module == "blocks.0.attention"
        assert opened.attention(NUMBERS, "L0").shape == (HEADS, 6, 6)


def test_a_module_has_maps_but_no_predictions_and_says_so() -> None:
    opened = engine.open_module(LanguageModel(FusedCausal))
    assert "it has maps, but no predictions" in refused(lambda: opened.predictions("3 17 5 22"))
