"""``directions``, and everything at a token distance, through the real command against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.values.views import DIRECTIONS
from tests.cli.test_weight_tables import FAMILIES, of_head
from tests.conftest import TinyModel
from tests.engine.mathematics.test_circuits import by_definition
from tests.exporting import exported


def expected_ends(table: Tensor, vector: Tensor, known: int, top: int) -> dict[str, tuple[list[int], list[float]]]:
    """Sort the tokens along a direction."""
    met = table.detach().double()[:known] @ vector
    order = met.argsort(descending=True)
    ends = {"largest": order[:top], "smallest": order.flip(0)[:top]}
    return {end: (ids.tolist(), met[ids].tolist()) for end, ids in ends.items()}


def by_chance(tokens: Tensor, end: str, top: int = 4) -> list[float]:
    """Simulate the projections at an end of random directions."""
    drawn = np.random.default_rng(0).standard_normal((tokens.shape[1], 2000))
    met = np.sort(tokens.detach().double().numpy() @ (drawn / np.linalg.norm(drawn, axis=0)), axis=0).mean(1)
    found: list[float] = (met[::-1] if end == "largest" else met)[:top].tolist()
    return found


@pytest.mark.parametrize(("model_type", "settings"), FAMILIES)
@pytest.mark.parametrize("matrix", ["QK", "OV"])
def test_directions_are_the_tokens_at_both_ends_of_dense_singular_vectors(
    tiny_model: TinyModel, model_type: str, settings: dict[str, Any], matrix: str
) -> None:
    folder = tiny_model(model_type, with_head=True, **settings)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    known = len(tokenizer)
    assert known < model.config.vocab_size  # some rows are no tokens
    embedding, unembedding = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    table = exported(folder, "directions", "--head", "L1H2", "--matrix", matrix, "--top", "4", "--first", "3")
    assert tuple(table[0]) == DIRECTIONS.columns
    left, sigma, right = np.linalg.svd(of_head(model, 1, "2")[matrix].numpy())
    names = ("query", "key") if matrix == "QK" else ("input", "output")
    assert len(table) == 3 * 2 * 2 * 4
    for index in range(3):
        u, v = torch.from_numpy(left[:, index]), torch.from_numpy(right[index])
        sign = torch.sign(u[u.abs().argmax()])
        written = embedding if matrix == "QK" else unembedding
        for side, vector, tokens in ((names[0], u, embedding), (names[1], v, written)):
            ends = expected_ends(tokens, sign * vector, known, 4)
            for end, (ids, values) in ends.items():
                of = [r for r in table if (r["index"], r["side"], r["extreme"]) == (str(index + 1), side, end)]
                assert [int(row["token_id"]) for row in of] == ids
                assert [int(row["place"]) for row in of] == [1, 2, 3, 4]
                np.testing.assert_allclose([float(row["projection"]) for row in of], values, rtol=1e-5)
                chance = by_chance(tokens[:known], end)
                assert [float(row["projection_chance"]) for row in of] == pytest.approx(chance, rel=0.1)
                assert all(float(row["singular_value"]) == pytest.approx(sigma[index], rel=1e-6) for row in of)
                assert {row["note"] for row in of} == {""}
    texts = {row["token"]: tokenizer.decode([int(row["token_id"])]) for row in table}
    plain = {token: text for token, text in texts.items() if text.isascii() and text.isprintable()}
    assert plain
    assert all(token == text for token, text in plain.items())


def test_a_last_norm_that_is_not_finite_is_in_the_way_of_the_tokens_behind_it_alone(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama", with_head=True)
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    asked = "directions", "--head", "L1H2", "--first", "1"
    plain, folded = exported(folder, *asked), exported(folder, *asked, "--fold-norm")
    assert {row["note"] for row in plain} == {""}
    notes = {(row["matrix"], row["side"]): row["note"] for row in folded}
    assert notes.pop(("OV", "output")).startswith("model.norm.weight holds 1 NaN or infinite numbers of ")
    assert len(notes) == 3
    assert set(notes.values()) == {""}


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gemma"])
def test_folding_multiplies_by_the_gains_of_the_norms(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type, with_head=True, num_key_value_heads=4) if model_type != "gpt2" else tiny_model(
        model_type, with_head=True
    )  # fmt: skip
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    base: Any = model.base_model
    norms = (base.h[1].ln_1, base.ln_f) if model_type == "gpt2" else (base.layers[1].input_layernorm, base.norm)
    before, last = (norm.weight.detach().double() + float(model_type == "gemma") for norm in norms)
    ov = before[:, None] * of_head(model, 1, "0")["OV"]
    left, _, right = np.linalg.svd(ov.numpy())
    u, v = torch.from_numpy(left[:, 0]), torch.from_numpy(right[0])
    sign = torch.sign(u[u.abs().argmax()])
    known = len(transformers.AutoTokenizer.from_pretrained(folder))
    table = exported(folder, "directions", "--head", "L1H0", "--matrix", "OV", "--first", "1", "--fold-norm")
    unembedding = model.get_output_embeddings().weight.detach().double() * last
    for side, vector, tokens in (("input", u, model.get_input_embeddings().weight), ("output", v, unembedding)):
        for end, (ids, values) in expected_ends(tokens, sign * vector, known, 10).items():
            of = [row for row in table if (row["side"], row["extreme"]) == (side, end)]
            assert [int(row["token_id"]) for row in of] == ids
            np.testing.assert_allclose([float(row["projection"]) for row in of], values, rtol=1e-5)
            chance = by_chance(tokens[:known], end, 10)
            assert [float(row["projection_chance"]) for row in of] == pytest.approx(chance, rel=0.1)


def test_no_direction_is_claimed_among_equal_singular_values_or_in_the_null_space(tiny_copy: TinyModel) -> None:
    file = tiny_copy("llama", with_head=True) / "model.safetensors"
    tensors = load_file(file)
    values = torch.tensor([4.0, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    width = len(values)  # of head 0: queries and keys along the first axes, with these singular values
    tensors["model.layers.0.self_attn.q_proj.weight"][:width] = torch.eye(32)[:width] * values[:, None]
    tensors["model.layers.0.self_attn.k_proj.weight"][:width] = torch.eye(32)[:width]
    save_file(tensors, file, metadata={"format": "pt"})
    table = exported(file.parent, "directions", "--head", "L0H0", "--matrix", "QK", "--top", "1")
    claimed = {row["index"] for row in table if row["token_id"]}
    assert claimed == {"1", "4"}
    notes = {row["index"]: row["note"] for row in table if row["note"]}
    assert sorted(notes) == ["2", "3", "5", "6", "7", "8"]
    assert notes["2"] == notes["3"]
    assert "2 to 3" in notes["2"]
    assert all("null space" in notes[index] for index in "5678")
    embedding = tensors["model.embed_tokens.weight"]
    known = len(transformers.AutoTokenizer.from_pretrained(file.parent))
    largest = next(row for row in table if (row["index"], row["side"], row["extreme"]) == ("4", "query", "largest"))
    assert int(largest["token_id"]) == int(embedding[:known, 3].argmax())


def test_a_side_that_meets_no_tokens_says_so(tiny_model: TinyModel) -> None:
    table = exported(
        tiny_model("llama"), "directions", "--head", "L0H0", "--matrix", "OV", "--first", "1", "--top", "1"
    )
    assert [(row["side"], bool(row["token_id"]), bool(row["note"])) for row in table] == [
        ("input", True, False), ("input", True, False), ("output", False, True),
    ]  # fmt: skip


def turned_keys(model: Any, distance: int) -> Tensor:
    """Turn a tiny Llama's key weights by a distance with transformers' own rotation, column by column."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, rotate_half

    key = model.model.layers[1].self_attn.k_proj.weight.detach().double()[:8]  # (head_dim, d_model)
    columns = key.T[None, None]  # as if each column were a token's key
    cos, sin = LlamaRotaryEmbedding(model.config)(columns, torch.full((1, 32), -distance))
    found: Tensor = (columns * cos.double() + rotate_half(columns) * sin.double())[0, 0].T
    return found


@pytest.mark.parametrize("distance", ["0", "5"])
def test_at_a_distance_circuits_and_directions_are_those_of_turned_keys(tiny_model: TinyModel, distance: str) -> None:
    folder = tiny_model("llama", with_head=True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    matrices = of_head(model, 1, "1")
    matrices["K"] = turned_keys(model, int(distance))
    matrices["QK"] = matrices["Q"].T @ matrices["K"]
    expected = by_definition(matrices, torch.eye(32, dtype=torch.float64))
    (row,) = exported(folder, "circuits", "--head", "L1H1", "--distance", distance)
    for name in ("qk_symmetry", "qk_identity_distance", "qk_positive_mass", "qk_overlap", "qk_angle_smallest"):
        assert float(row[name]) == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
    assert row["rank_qk"] == "8"
    plain = exported(folder, "circuits", "--head", "L1H1")[0]
    assert (row["qk_symmetry"] == plain["qk_symmetry"]) == (distance == "0")
    assert {name: cell for name, cell in row.items() if "ov_" in name} == {
        name: cell for name, cell in plain.items() if "ov_" in name
    }
    sigma = torch.linalg.svdvals(matrices["QK"])
    table = exported(folder, "directions", "--head", "L1H1", "--matrix", "QK", "--distance", distance, "--top", "1")
    found = {int(each["index"]): float(each["singular_value"]) for each in table}
    np.testing.assert_allclose([found[index] for index in range(1, 9)], sigma[:8], rtol=1e-5)
