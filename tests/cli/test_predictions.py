"""Predictions, lens, contributions and ablation against transformers' own models with hooks."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head, Off
from engine.values.views import Query
from tests.conftest import TinyModel
from tests.exporting import exported, refusal
from tests.handmade import Grouped, LanguageModel
from tests.opening import with_config

TEXT = "The cat sat on the mat, and the dog sat"

CLASSES: dict[str, Any] = {
    "gpt2": transformers.GPT2LMHeadModel,
    "llama": transformers.LlamaForCausalLM,
    "gemma2": transformers.Gemma2ForCausalLM,
    "t5": transformers.T5ForConditionalGeneration,
    "bart": transformers.BartForConditionalGeneration,
    "bert": transformers.BertForMaskedLM,
}


OUTPUTS: dict[str, str | dict[str, str]] = {
    "gpt2": "transformer.h.{}.attn.c_proj",
    "llama": "model.layers.{}.self_attn.o_proj",
    "gemma2": "model.layers.{}.self_attn.o_proj",
    "bert": "bert.encoder.layer.{}.attention.output.dense",
    "t5": {
        "encoder": "encoder.block.{}.layer.0.SelfAttention.o",
        "decoder": "decoder.block.{}.layer.0.SelfAttention.o",
        "cross": "decoder.block.{}.layer.1.EncDecAttention.o",
    },
    "bart": {
        "encoder": "model.encoder.layers.{}.self_attn.out_proj",
        "decoder": "model.decoder.layers.{}.self_attn.out_proj",
        "cross": "model.decoder.layers.{}.encoder_attn.out_proj",
    },
}
"""Where models keep their output projections, by stack where they have several."""


class Own:
    """A model as transformers loads and runs it, at the last token that is predicted at."""

    def __init__(self, folder: Path, model_type: str) -> None:
        self.model = CLASSES[model_type].from_pretrained(folder, attn_implementation="eager").eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
        self.position = ids.shape[1] - 1
        if model_type == "bert":
            self.position -= 1  # what follows is [SEP]
            ids[0, self.position] = tokenizer.mask_token_id
        self.inputs = {"input_ids": ids}
        if self.model.config.is_encoder_decoder:
            start = torch.tensor([[self.model.config.decoder_start_token_id]])
            self.inputs["decoder_input_ids"] = torch.cat([start, ids[:, :-1]], 1)

    def run(self, **settings: Any) -> Any:
        with torch.no_grad():
            return self.model(**self.inputs, **settings)

    def logits(self) -> Tensor:
        logits: Tensor = self.run().logits[0, self.position]
        return logits

    def output(self, stack: str, layer: int) -> nn.Module:
        """Give the output projection of a layer."""
        path = OUTPUTS[self.model.config.model_type]
        found: nn.Module = self.model.get_submodule((path if isinstance(path, str) else path[stack]).format(layer))
        return found

    def read_by(self, module: nn.Module) -> Tensor:
        """Give what a module reads, (tokens, width)."""
        kept: list[Tensor] = []
        with module.register_forward_pre_hook(lambda module, args: kept.append(args[0][0].clone())):
            self.run()
        return kept[0]

    def replacing(self, module: nn.Module, head: int, by: Tensor | float) -> RemovableHandle:
        """Replace what an output projection reads of a head of width 8, while the handle is held."""

        def change(module: nn.Module, args: tuple[Tensor]) -> Tensor:
            changed = args[0].clone()
            changed[..., 8 * head : 8 * head + 8] = by
            return changed

        return module.register_forward_pre_hook(change)

    def mean(self, module: nn.Module, head: int) -> Tensor:
        """Give the mean over the tokens of what an output projection reads of a head."""
        return self.read_by(module).mean(0)[8 * head : 8 * head + 8]

    def without(self, stack: str, layer: int, head: int, *, by_mean: bool = False) -> Tensor:
        """Give the logits with a head switched off."""
        module = self.output(stack, layer)
        with self.replacing(module, head, self.mean(module, head) if by_mean else 0.0):
            return self.logits()


@pytest.mark.parametrize(("model_type", "with_head"), [*((each, True) for each in CLASSES), ("gpt2", False)])
def test_predictions_are_the_models_own(tiny_model: TinyModel, model_type: str, *, with_head: bool) -> None:
    folder = tiny_model(model_type, with_head=with_head)  # without, it is tied to the embedding
    own = Own(folder, model_type)
    rows = exported(folder, "predictions", "--text", TEXT, "--top", "5")
    logits = own.logits()
    probabilities, ids = logits.softmax(0).topk(5)
    assert [int(row["token_id"]) for row in rows] == ids.tolist()
    assert [float(row["probability"]) for row in rows] == pytest.approx(probabilities.tolist(), rel=1e-4)
    of_a_random_token = pytest.approx(float(logits.mean()), abs=1e-5)
    assert [float(row["logit_chance"]) for row in rows] == [of_a_random_token] * 5
    assert {row["position"] for row in rows} == {str(own.position)}
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4", "5"]


def test_a_position_and_a_mask_can_be_chosen(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    own = Own(folder, "gpt2")
    (row,) = exported(folder, "predictions", "--text", TEXT, "--position", "2", "--top", "1")
    assert float(row["logit"]) == pytest.approx(float(own.run().logits[0, 2].max()), abs=1e-4)
    assert (row["position"], row["at"]) == ("2", " sat")
    for view in ("contributions", "ablation"):
        for each in exported(folder, view, "--text", TEXT, "--position", "2"):
            assert (each["position"], each["at"], each["token"]) == ("2", " sat", row["token"])
    folder = tiny_model("bert", with_head=True)
    asked = [
        exported(folder, "predictions", "--text", text, "--top", "3") for text in ("the [MASK] sat", "the cat sat")
    ]
    by_position = exported(folder, "predictions", "--text", "the cat sat", "--top", "3", "--position", "2")
    assert asked[0][0]["position"] == "2"
    assert asked[0] == by_position
    assert asked[1] != by_position


ENDS = {
    "gpt2": ("transformer.h", "transformer.ln_f", "lm_head"),
    "llama": ("model.layers", "model.norm", "lm_head"),
    "bert": ("bert.encoder.layer", "cls"),
}
"""Where models keep their blocks, and what follows these."""


@torch.no_grad()
def seen_through_the_end(own: Own, model_type: str) -> tuple[list[Tensor], list[Tensor]]:
    """Give what each block gives, (tokens, width), and its logits through all that follows, (tokens, vocabulary)."""
    blocks, *end = map(own.model.get_submodule, ENDS[model_type])
    states: list[Tensor] = []

    def keep(module: nn.Module, args: Any, given: Any) -> None:
        states.append((given[0] if isinstance(given, tuple) else given).reshape(-1, 32))

    with ExitStack() as hooks:
        for block in blocks:
            hooks.enter_context(block.register_forward_hook(keep))
        own.run()
    return states, [nn.Sequential(*end)(each) for each in states]


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bert"])
def test_the_lens_looks_through_the_whole_head_at_every_layer_and_token(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch, model_type: str
) -> None:
    monkeypatch.setattr("engine.analysis.predictions.LOGITS_AT_ONCE", 1)  # as for a large vocabulary
    folder = tiny_model(model_type, with_head=True)
    own = Own(folder, model_type)
    states, logits = seen_through_the_end(own, model_type)
    rows = exported(folder, "lens", "--text", TEXT, "--position", "all", "--top", "2")
    tokens = states[0].shape[0]
    assert [row["position"] for row in rows] == [str(token) for token in range(tokens) for _ in range(2)] * 3
    for layer, whole in enumerate(states):
        found = [row for row in rows if row["layer"] == str(layer)]
        values, ids = logits[layer].topk(2)
        assert [int(row["token_id"]) for row in found] == ids.flatten().tolist()
        assert [float(row["logit"]) for row in found] == pytest.approx(values.flatten().tolist(), abs=1e-4)
        assert [float(row["norm"]) for row in found[::2]] == pytest.approx(whole.norm(dim=1).tolist(), rel=1e-5)
    at_last = [row for row in rows if row["position"] == str(own.position)]
    alone = exported(folder, "lens", "--text", TEXT, "--top", "2")
    assert [row["layer"] for row in alone] == ["embedding", "embedding", "0", "0", "1", "1"]
    for row, other in zip(at_last, alone, strict=True):
        for name in ("stack", "layer", "position", "at", "place", "token_id", "token"):
            assert row[name] == other[name]
        for name in ("logit", "norm"):
            assert float(row[name]) == pytest.approx(float(other[name]), rel=1e-5)
        assert float(other["probability_chance"]) == 1 / logits[0].shape[1]
    assert float(alone[-1]["logit_chance"]) == pytest.approx(float(logits[-1][own.position].mean()), abs=1e-5)
    before, after = (each[own.position] for each in states)
    at_right_angles = math.hypot(float(before.norm()), float((after - before).norm()))
    assert float(alone[-1]["norm_chance"]) == pytest.approx(at_right_angles, rel=1e-5)
    assert [row["norm_chance"] == "" for row in alone] == [True, True, False, False, False, False]


def test_what_cannot_be_asked_is_said_in_one_line(tiny_model: TinyModel) -> None:
    bare, bert = tiny_model("bert"), tiny_model("bert", with_head=True)
    gpt2 = tiny_model("gpt2", with_head=True)
    said: dict[str, tuple[str | Path, ...]] = {
        "has no language-modelling head to predict with": (bare, "predictions"),
        "has no contributions": (bert, "contributions"),
        "the sentence has no token 400": (gpt2, "predictions", "--position", "400"),
        "is not one token": (gpt2, "contributions", "--token", "unheard of"),
        "ids go from 0 to 319": (gpt2, "ablation", "--token", "#320"),
        "would be compared with itself": (gpt2, "contributions", "--token", "#5", "--against", "#5"),
        "a logit difference needs two tokens": (gpt2, "lens", "--token", "#5"),
        "no head L0H7: the layer has heads 0 to 3": (gpt2, "ablation", "--off", "L0H7"),
        "'1' could be a layer or a head; write L1 for the layer": (gpt2, "ablation", "--off", "1"),
        "--off names no head": (gpt2, "ablation", "--off", " "),
        "through no module that attn-tui can change": (tiny_model("xlnet", with_head=True), "ablation"),
    }
    for words, (folder, view, *options) in said.items():
        assert words in refusal(folder, view, "--text", TEXT, *options)
    assert "predictions needs --text" in refusal(gpt2, "predictions", code=2)
    assert "all works for lens alone" in refusal(gpt2, "predictions", "--text", TEXT, "--position", "all", code=2)


def test_a_handwritten_module_says_what_it_has_not() -> None:
    engine = Engine.of_module(LanguageModel(Grouped), None, "mine", None)
    engine.open("mine", lambda progress: None).result()
    for view in ("predictions", "lens", "contributions", "ablation"):
        with pytest.raises(EngineError, match="is not a transformers model; it has maps, but no predictions"):
            engine.table(view, Query(text="1 2 3")).result()
    with pytest.raises(EngineError, match="cannot be switched off"):
        engine.attention("1 2 3", "decoder", 0, off=Off((Head("decoder", 0, 0),))).result()


HEADS = {"gpt2": ("decoder", 1, 2), "llama": ("decoder", 0, 3), "gemma2": ("decoder", 0, 1), "t5": ("cross", 2, 1),
         "bart": ("encoder", 1, 0), "bert": ("encoder", 0, 2)}  # fmt: skip
"""Stack, layer and number of the head that is switched off."""


def numbers(row: dict[str, str], *names: str) -> list[float]:
    return [float(row[name]) for name in names]


def by_chance(before: Tensor, after: Tensor, token: int) -> tuple[float, float]:
    """Deal the changes of all logits to other tokens, in every cyclic way: root mean squares of what one changes by."""
    changes = (after - before).double()
    probability = before.double().softmax(0)[token]
    dealt = [(before + changes.roll(-by)).softmax(0)[token] - probability for by in range(len(changes))]
    return float(changes.square().mean().sqrt()), float(torch.stack(dealt).square().mean().sqrt())


@pytest.mark.parametrize("by_mean", [False, True])
@pytest.mark.parametrize("model_type", HEADS)
def test_a_switched_off_head_changes_what_a_hook_changes(tiny_model: TinyModel, model_type: str, by_mean: bool) -> None:
    folder = tiny_model(model_type, with_head=True)
    own = Own(folder, model_type)
    stack, layer, head = HEADS[model_type]
    name, way = f"{stack}.L{layer}H{head}", ["--mean"] if by_mean else []
    before, after = own.logits(), own.without(stack, layer, head, by_mean=by_mean)
    shares, later = before.softmax(0), after.softmax(0)
    token = int(before.argmax())
    assert abs(float(after[token] - before[token])) > 1e-3
    logits = torch.stack([before[token], after[token], after[token] - before[token]])
    for option in ("--off", "--head"):
        row = exported(folder, "ablation", "--text", TEXT, option, name, *way)[0]
        assert int(row["token_id"]) == token
        assert numbers(row, "logit_before", "logit_after", "logit_change") == pytest.approx(logits.tolist(), abs=1e-4)
        assert float(row["change"]) == pytest.approx(float(later[token] - shares[token]), abs=1e-5)
        chance = numbers(row, "logit_change_chance", "change_chance")
        assert chance == pytest.approx(by_chance(before, after, token), rel=1e-3)
    rows = exported(folder, "predictions", "--text", TEXT, "--off", name, "--top", "4", *way)
    ids = {*shares.topk(4).indices.tolist(), *later.topk(4).indices.tolist()}
    larger = torch.maximum(shares, later)
    assert [int(row["token_id"]) for row in rows] == sorted(ids, key=lambda each: -float(larger[each]))
    for row in rows:
        token = int(row["token_id"])
        for end, logits in (("", before), ("_after", after)):
            assert float(row[f"logit{end}"]) == pytest.approx(float(logits[token]), abs=1e-4)
            assert float(row[f"probability{end}"]) == pytest.approx(float(logits.softmax(0)[token]), abs=1e-5)
            assert int(row[f"rank{end}"]) == 1 + int((logits > logits[token]).sum())
            assert float(row[f"logit{end}_chance"]) == pytest.approx(float(logits.mean()), abs=1e-4)
        assert float(row["change"]) == pytest.approx(float(later[token] - shares[token]), abs=1e-5)
        assert float(row["change_chance"]) == pytest.approx(by_chance(before, after, token)[1], rel=1e-3)


def test_heads_of_several_layers_are_off_together_by_their_means(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    own = Own(folder, "gpt2")
    before, (first, second) = own.logits(), (own.output("decoder", layer) for layer in (0, 1))
    means = own.mean(first, 3), own.mean(second, 0)
    with own.replacing(first, 3, means[0]), own.replacing(second, 0, means[1]):
        after = own.logits()
    rows = exported(folder, "ablation", "--text", TEXT, "--off", "L0H3", "--off", "L1H0", "--mean", "--top", "3")
    expected = set(before.topk(3).indices.tolist()) | set(after.topk(3).indices.tolist())
    assert {int(row["token_id"]) for row in rows} == expected
    for row in rows:
        token = int(row["token_id"])
        shares = [float(logits.softmax(0)[token]) for logits in (before, after)]
        assert numbers(row, "probability_before", "probability_after") == pytest.approx(shares, abs=1e-5)
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
    before = own.run(output_attentions=True).attentions[1][0, 2]
    first = own.output("decoder", 0)
    with own.replacing(first, 0, 0.0), own.replacing(first, 1, 0.0):
        expected = own.run(output_attentions=True).attentions[1][0, 2]
    rows = exported(folder, "attention", "--text", TEXT, "--head", "L1H2", "--off", "L0H0", "--off", "L0H1")
    found = torch.tensor([float(row["weight"]) for row in rows]).reshape(expected.shape)
    assert float((found - expected).abs().max()) < 1e-5
    assert float((before - expected).abs().max()) > 1e-2


@torch.no_grad()
def by_hand(own: Own, token: int) -> dict[tuple[str, int, int], tuple[float, float]]:
    """Give every head's direct contribution by the formulas of its type, and the RMS of that to all tokens."""
    model, model_type = own.model, own.model.config.model_type
    path = {"gpt2": "transformer.ln_f", "t5": "decoder.final_layer_norm"}.get(model_type, "model.norm")
    last = model.get_submodule(path)
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


def check_heads(rows: list[dict[str, str]], own: Own, token: int) -> None:
    for place, name in enumerate(("contribution", "contribution_chance")):
        heads = {(row["stack"], int(row["layer"]), int(row["head"])): float(row[name])
                 for row in rows if row["part"] == "head"}  # fmt: skip
        assert heads == pytest.approx({head: each[place] for head, each in by_hand(own, token).items()}, abs=1e-4)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gemma2", "t5"])
def test_contributions_are_those_of_the_formula_and_add_up_to_the_logit(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type, with_head=True)
    own = Own(folder, model_type)
    logits = own.logits()
    token = int(logits.topk(3).indices[2])
    rows = exported(folder, "contributions", "--text", TEXT, "--token", f"#{token}")
    check_heads(rows, own, token)
    cap = own.model.config.final_logit_softcapping if model_type == "gemma2" else None
    logit = float(logits[token] if cap is None else cap * torch.atanh(logits[token] / cap))
    assert sum(float(row["contribution"]) for row in rows) == pytest.approx(logit, abs=1e-4)
    assert [float(row["logit"]) for row in rows] == pytest.approx([logit] * len(rows), abs=1e-4)
    assert {bool(row["note"]) for row in rows} == {cap is not None}
    sizes = [abs(float(row["contribution"])) for row in rows]
    assert sizes == sorted(sizes, reverse=True)


@torch.no_grad()
@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
def test_embedding_mlps_and_biases_have_contributions_of_their_own(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type, with_head=True)
    own = Own(folder, model_type)
    body = own.model.base_model
    blocks, last = (body.h, body.ln_f) if model_type == "gpt2" else (body.layers, body.norm)
    x = own.read_by(last)[own.position]
    written = {"embedding": own.read_by(blocks[0])[own.position]}
    for number, block in enumerate(blocks):
        kept: list[Tensor] = []
        with block.mlp.register_forward_hook(lambda module, args, result, kept=kept: kept.append(result)):
            own.run()
        written[f"MLP {number}"] = kept[0][0, own.position]
    biases = sum(block.attn.c_proj.bias for block in blocks) if model_type == "gpt2" else torch.zeros(32)
    scale = last.weight / (x.var(unbiased=False).add(1e-5) if model_type == "gpt2" else x.square().mean() + 1e-6).sqrt()

    def to_logits(vector: Tensor) -> Tensor:
        centred = vector - vector.mean() if model_type == "gpt2" else vector
        found: Tensor = own.model.lm_head.weight @ (centred * scale)
        return found

    token = int(own.logits().argmax())
    expected = {name: to_logits(vector) for name, vector in written.items()}
    constant = own.model.lm_head.weight @ last.bias if model_type == "gpt2" else 0
    expected["biases"] = to_logits(biases) + constant
    rows = [row for row in exported(folder, "contributions", "--text", TEXT) if row["part"] != "head"]
    found = {f"{row['part']} {row['layer']}".strip(): row for row in rows}
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        assert float(found[name]["contribution"]) == pytest.approx(float(each[token]), abs=1e-4)
        spread = float(each.square().mean().sqrt())
        assert float(found[name]["contribution_chance"]) == pytest.approx(spread, abs=1e-4)


@pytest.mark.parametrize(("model_type", "settings"), [("cohere", {"logit_scale": 0.25}), ("bart", {})])
def test_contributions_add_up_with_a_scale_behind_the_unembedding_and_with_norms_after_the_sum(
    tiny_copy: TinyModel, model_type: str, settings: dict[str, Any]
) -> None:
    folder = with_config(tiny_copy(model_type, with_head=True), **settings)
    rows = exported(folder, "contributions", "--text", TEXT)
    assert {row["note"] for row in rows} == {""}, "a scale is no cap"
    (best,) = exported(folder, "predictions", "--text", TEXT, "--top", "1")
    assert sum(float(row["contribution"]) for row in rows) == pytest.approx(float(best["logit"]), abs=2e-4)


def test_an_invisible_token_is_taken_raw_and_as_tables_write_it(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    for typed, written in (("\t", r"\t"), ("\n", r"\n"), ("\x1b", r"\x1b")):
        rows = exported(folder, "contributions", "--text", TEXT, "--token", written)
        assert {row["token"] for row in rows} == {written}
        assert exported(folder, "contributions", "--text", TEXT, "--token", typed) == rows


def of_random_pairs(logits: Tensor) -> float:
    """Give the root mean square of the difference of two logits, each drawn by itself."""
    return float((logits[:, None].double() - logits[None].double()).square().mean().sqrt())


def test_a_logit_difference_is_that_of_two_tokens_wherever_a_logit_is_shown(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    own = Own(folder, "gpt2")
    before, after = own.logits(), own.without("decoder", 1, 2)
    token, against = before.topk(5).indices[[0, 4]].tolist()
    held = ("--text", TEXT, "--against", f"#{against}")

    def difference(logits: Tensor) -> float:
        return float(logits[token] - logits[against])

    for row in exported(folder, "predictions", *held, "--top", "2", "--off", "L1H2"):
        for end, logits in (("", before), ("_after", after)):
            assert float(row[f"logit_difference{end}"]) == pytest.approx(difference(logits), abs=1e-4)
            assert float(row[f"logit_difference{end}_chance"]) == pytest.approx(of_random_pairs(logits), rel=1e-4)
    _, by_layer = seen_through_the_end(own, "gpt2")
    rows = exported(folder, "lens", *held, "--top", "1", "--position", "all")
    for layer, logits in enumerate(by_layer):
        found = [float(row["logit_difference"]) for row in rows if row["layer"] == str(layer)]
        assert found == pytest.approx((logits[:, token] - logits[:, against]).tolist(), abs=1e-4)
    for asked in (("--off", "L1H2"), ("--head", "L1H2")):
        (row,) = exported(folder, "ablation", *held, *asked)
        found = numbers(row, *(f"logit_difference_{name}" for name in ("before", "after", "change", "change_chance")))
        b, a = difference(before), difference(after)
        assert found == pytest.approx([b, a, a - b, of_random_pairs(after - before)], abs=1e-4)
    changes = [abs(float(row["logit_difference_change"])) for row in exported(folder, "ablation", *held)]
    assert changes == sorted(changes, reverse=True)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gemma2"])
def test_contributions_to_a_difference_are_differences_and_add_up_to_it(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type, with_head=True)
    token, against = (f"#{each}" for each in Own(folder, model_type).logits().topk(5).indices[[1, 4]].tolist())
    both = exported(folder, "contributions", "--text", TEXT, "--token", token, "--against", against)
    alone = [exported(folder, "contributions", "--text", TEXT, "--token", each) for each in (token, against)]

    def by_part(rows: list[dict[str, str]]) -> dict[tuple[str, ...], float]:
        return {tuple(row[name] for name in ("layer", "head", "part")): float(row["contribution"]) for row in rows}

    first, second = map(by_part, alone)
    assert by_part(both) == pytest.approx({part: first[part] - second[part] for part in first}, abs=1e-4)
    difference = float(alone[0][0]["logit"]) - float(alone[1][0]["logit"])
    assert [float(row["logit_difference"]) for row in both] == pytest.approx([difference] * len(both), abs=1e-4)
    assert sum(float(row["contribution"]) for row in both) == pytest.approx(difference, abs=2e-4)
