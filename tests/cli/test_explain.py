"""``explain``: the terms of a score, against the scores of transformers' eager attention."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.nn import functional

from engine.analysis.explain import join_tokens
from engine.mathematics.scores import ScoreSide, ScoreTerms, score_terms
from engine.values.views import EXPLAIN
from tests.conftest import TinyModel
from tests.exporting import exported, refusal
from tests.opening import edited_weights

TEXT = "The cat sat on the mat, and the dog sat on the cat."


def scores_of(folder: Path, layer: int, stack: str) -> tuple[Tensor, Tensor]:
    """Run the whole model in transformers: (heads, queries, keys) of a layer before and after the softmax."""
    model: Any = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids = transformers.AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt").input_ids
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder:
        start = torch.full((1, 1), model.config.decoder_start_token_id)
        inputs["decoder_input_ids"] = torch.cat([start, ids], 1)[:, : ids.shape[1]]
    taken, own = list[Tensor](), functional.softmax

    def keep(scores: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if scores.ndim == 4:  # (sentences, heads, queries, keys)
            taken.append(scores.double()[0])
        return own(scores, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(functional, "softmax", keep)
        model(**inputs)
    if model.config.is_encoder_decoder:  # an encoder of two layers, then in turns the decoder's own and across
        layer = {"encoder": layer, "decoder": 2 + 2 * layer, "cross": 3 + 2 * layer}[stack]
    return taken[layer], taken[layer].softmax(-1)


FAMILIES = [
    ("gpt2", {}, "decoder", {"content", "bias"}),
    ("llama", {}, "decoder", {"content"}),  # grouped queries, rotations
    ("t5", {}, "encoder", {"content", "position"}),
    ("bert", {}, "encoder", {"content", "bias"}),
    ("bart", {}, "cross", {"content", "bias"}),
    ("qwen3", {}, "decoder", {"content"}),  # queries and keys are normed
    ("gemma2", {}, "decoder", {"content", "cap"}),
    ("bloom", {}, "decoder", {"content", "bias", "position"}),
    ("phi", {"qk_layernorm": True}, "decoder", {"content", "bias"}),  # the norm takes a mean off and has a bias
]


@pytest.mark.parametrize(("model_type", "settings", "stack", "kinds"), FAMILIES)
def test_terms_add_up_to_what_the_model_takes_the_softmax_of(
    tiny_model: TinyModel, model_type: str, settings: dict[str, Any], stack: str, kinds: set[str]
) -> None:
    folder = tiny_model(model_type, **settings)
    scores, weights = scores_of(folder, 1, stack)
    compared = 0
    for head, query, key in ((0, 9, 3), (3, 4, 4), (2, 8, 1)):
        place = ("--head", f"{stack}.L1H{head}", "--position", str(query), "--key", str(key))
        rows = exported(folder, "explain", *place, "--text", TEXT)
        assert tuple(rows[0]) == EXPLAIN.columns
        by_kind = {row["kind"]: float(row["value"]) for row in rows}
        terms = [row for row in rows if row["kind"] in ("content", "bias", "cap", "position")]
        total, score = sum(float(row["value"]) for row in terms), float(scores[head, query, key])
        assert total == pytest.approx(score, abs=1e-4)
        assert by_kind["total"] == pytest.approx(total, abs=1e-9)
        assert by_kind["model"] == pytest.approx(score, abs=1e-5)
        assert by_kind["unexplained"] == pytest.approx(by_kind["model"] - total, abs=1e-9)
        assert by_kind["weight"] == pytest.approx(float(weights[head, query, key]), abs=1e-5)
        assert float(terms[-1]["cumulative"]) == pytest.approx(total, abs=1e-9)
        assert {row["kind"] for row in terms} == kinds
        assert {(row["query"], row["key"]) for row in rows} == {(str(query), str(key))}
        (chance,) = (float(row["value_chance"]) for row in rows if row["kind"] == "weight")
        assert chance == 1 / int((weights[head, query] > 0).sum())
        assert {row["kind"] for row in rows if row["value_chance"] == ""} <= {
            "model", "unexplained", "position", "cap", "bias", *(("total",) if "cap" in kinds else ())
        }  # fmt: skip
        sizes = [abs(float(row["value"])) for row in terms]
        assert sizes == sorted(sizes, reverse=True)
        compared += len(terms)
    assert compared > 20


def test_in_half_precision_the_models_rounding_is_unexplained(tiny_model: TinyModel) -> None:
    folder = tiny_model("qwen3", dtype="bfloat16")
    asked = ("--head", "L1H1", "--text", TEXT, "--position", "9", "--key", "3")
    rounded, exact = (
        {row["kind"]: float(row["value"]) for row in exported(folder, "explain", *asked, "--dtype", dtype)}
        for dtype in ("auto", "float32")
    )
    assert 1e-6 < abs(rounded["unexplained"]) < 0.05 * max(1, abs(rounded["model"]))
    assert abs(exact["unexplained"]) < 1e-5


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
def test_pairs_are_singular_pairs_and_have_the_tokens_of_directions(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type)
    asked = ("--head", "L1H2", "--top", "3", "--first", "8")
    rows = exported(folder, "explain", *asked, "--text", TEXT, "--position", "9", "--key", "4")
    at = ("--distance", "5") if model_type == "llama" else ()
    directions = exported(folder, "directions", *asked, "--matrix", "QK", *at)
    pairs = [row for row in rows if row["kind"] == "content"]
    assert len(pairs) == 8
    for row in pairs:
        along = {side: float(row[f"{side}_projection"]) for side in ("query", "key")}
        product = float(row["singular_value"]) * along["query"] * along["key"]
        assert float(row["value"]) == pytest.approx(product, rel=1e-9)
        same = [each for each in directions if each["index"] == row["index"]]
        scale = 8**-0.5  # heads of eight
        assert float(row["singular_value"]) == pytest.approx(scale * float(same[0]["singular_value"]), rel=1e-5)
        for side, projection in along.items():
            end = "largest" if projection >= 0 else "smallest"
            tokens = [each["token"] for each in same if (each["side"], each["extreme"]) == (side, end)]
            assert row[f"{side}_tokens"] == join_tokens(tokens)


def test_terms_of_a_pair_known_by_hand() -> None:
    # QK reads e1 as query and e2 as key, twice as strong as e2 as query and e1 as key.
    query = ScoreSide(torch.tensor([3.0, 5.0, 7.0]), torch.tensor([[2.0, 0, 0], [0, 1.0, 0]]), torch.tensor([0.0, 0.5]))
    key = ScoreSide(torch.tensor([1.0, -4.0, 9.0]), torch.tensor([[0, 1.0, 0], [1.0, 0, 0]]), torch.zeros(2))
    found = score_terms(query, key, 0.5)
    assert found.values.tolist() == pytest.approx([0.5 * 2 * 3 * -4, 0.5 * 5 * 1])
    assert found.sigma.tolist() == pytest.approx([1.0, 0.5])
    assert found.rests == pytest.approx((0.5 * 0.5 * 1, 0, 0))


def test_chance_of_terms_is_what_random_directions_give() -> None:
    draw = torch.Generator().manual_seed(0)
    weights = [torch.randn(4, 6, generator=draw, dtype=torch.float64) for _ in "qk"]
    rests = [torch.randn(4, generator=draw, dtype=torch.float64) for _ in "qk"]

    def terms() -> ScoreTerms:
        sides = [torch.randn(6, generator=draw, dtype=torch.float64) for _ in "qk"]
        reads = [size * x / x.norm() for size, x in zip((2.0, 3.0), sides, strict=True)]
        query, key = map(ScoreSide, reads, weights, rests)
        return score_terms(query, key, 0.5)

    many = [terms() for _ in range(1000)]
    drawn = torch.stack([each.values for each in many]), torch.tensor([each.rests[:2] for each in many]).double()
    for values, chance in zip(drawn, (many[0].chance, torch.tensor(many[0].rests_chance).double()), strict=True):
        torch.testing.assert_close(values.square().mean(0).sqrt(), chance, rtol=0.12, atol=0)
    for name, size in zip(("query", "key"), (2.0, 3.0), strict=True):
        given = torch.stack([getattr(each, name) for each in many]).square().mean(0).sqrt()
        torch.testing.assert_close(given, torch.full_like(given, size / math.sqrt(6)), rtol=0.12, atol=0)
    assert many[0].sizes == pytest.approx((2 / math.sqrt(6), 3 / math.sqrt(6)))


def test_equal_singular_values_are_one_term_and_stand_for_no_tokens(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2")
    values = torch.tensor([4.0, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    with edited_weights(folder) as tensors:
        fused = tensors["h.0.attn.c_attn.weight"]  # (in, queries keys values)
        fused[:, :8] = torch.eye(32)[:, :8] * values
        fused[:, 32:40] = torch.eye(32)[:, :8]
    rows = exported(folder, "explain", "--head", "L0H0", "--text", TEXT)
    content = {row["term"]: row for row in rows if row["kind"] == "content"}
    assert set(content) == {"pair 1", "pairs 2-3", "pair 4", "null space"}
    assert content["pairs 2-3"]["query_tokens"] == content["pairs 2-3"]["query_projection"] == ""
    assert "nearly equal" in content["pairs 2-3"]["note"]
    assert content["pair 1"]["query_tokens"]
    for pair in ("pair 1", "pair 4"):
        names = ("singular_value", "query_projection_chance", "key_projection_chance")
        chance = math.prod(float(content[pair][name]) for name in names)
        assert float(content[pair]["value_chance"]) == pytest.approx(chance)
    assert float(content["null space"]["value"]) == pytest.approx(0, abs=1e-9)


def test_what_has_no_score_is_said_in_one_line(tiny_model: TinyModel) -> None:
    asked = tiny_model("gpt2"), "explain", "--head", "L0H0"
    assert "the mask hides key 5" in refusal(*asked, "--text", TEXT, "--position", "3", "--key", "5")
    assert "has no query 999" in refusal(*asked, "--text", TEXT, "--position", "999")
    assert "explain needs --text" in refusal(*asked, code=2)
