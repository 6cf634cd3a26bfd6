"""Circuits, composition and directions through the command, against the models' own weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from engine.analysis import circuits
from engine.values.heads import MATRICES
from engine.values.views import CIRCUITS, COMPOSITION, DIRECTIONS
from tests.cli.test_export import KEY_HEADS, matrices_of
from tests.conftest import TinyModel
from tests.engine.mathematics.test_circuits import by_definition
from tests.exporting import exported, refusal, run
from tests.opening import edited_weights


def of_head(model: Any, layer: int, head: str) -> dict[str, Tensor]:
    """Cut one head, or the whole layer, out of a model by hand."""
    cut = matrices_of(model.base_model, layer)
    return {name: torch.from_numpy(cut[head, name]) for name in MATRICES}


@pytest.mark.parametrize(
    ("model_type", "eigenvalues", "quick"), [("gpt2", False, 31), ("llama", True, 31), ("llama", False, 32)]
)
def test_circuits_are_those_of_dense_matrices(
    tiny_model: TinyModel, model_type: str, eigenvalues: bool, quick: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(circuits, "QUICK", quick)  # the models are 32 wide
    folder = tiny_model(model_type, with_head=True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    embedding, unembedding = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    token_map = (unembedding.double().T @ embedding.double()).detach()
    options = ["--eigenvalues"] if eigenvalues else []
    table = exported(folder, "circuits", *options) + exported(folder, "circuits", "--head", "all", *options)
    of_eigenvalues = ("mass", "copying", "copying_residual")
    assert tuple(table[0]) == CIRCUITS.columns
    assert [(row["layer"], row["head"]) for row in table] == [
        *((layer, head) for layer in "01" for head in "0123"), ("0", "all"), ("1", "all"),
    ]  # fmt: skip
    for row in table:
        matrices = of_head(model, int(row["layer"]), row["head"])
        for name, value in by_definition(matrices, token_map).items():
            if row["head"] == "all" and name.endswith(of_eigenvalues) and not eigenvalues and quick < 32:
                assert row[name] == row[f"{name}_chance"] == ""
            elif name.endswith(("lost", "in_kernel")):
                assert row[name] == str(value), (name, row)
            else:
                bound = 2e-5 if "angle" in name else 1e-6
                assert float(row[name]) == pytest.approx(value, rel=1e-4, abs=bound), (name, row)
        for matrix in MATRICES:
            sigma = torch.linalg.svdvals(matrices[matrix])
            assert row[f"rank_{matrix.lower()}"] == str(int((sigma > 1.2e-7 * sigma[0]).sum()))
        floor = math.sqrt(1 - min(1.0, int(row["rank_qk"]) / 32))
        assert float(row["qk_identity_floor"]) == pytest.approx(floor)
        assert float(row["qk_identity_distance"]) >= floor


def test_only_circuits_have_rows_for_whole_layers(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2")
    assert {row["head"] for row in exported(folder, "circuits", "--head", "all")} == {"all"}
    assert "all" not in {row["head"] for row in exported(folder, "circuits")}, "it is computed where it is asked for"
    for view in ("composition", "directions"):
        assert "no rows for whole layers" in refusal(folder, view, "--head", "all")


def test_where_tokens_or_one_space_are_missing_cells_are_empty(tiny_model: TinyModel) -> None:
    no_logits = exported(tiny_model("llama"), "circuits", "--head", "L0H0")[0]
    assert no_logits["ov_copying"] == no_logits["ov_copying_chance"] == ""
    assert no_logits["ov_copying_residual"] != ""
    folder = tiny_model("t5", with_head=True)
    assert exported(folder, "circuits", "--head", "encoder.L0H0")[0]["ov_copying"] == ""
    across = exported(folder, "circuits", "--head", "cross.L0H0")[0]
    for name in CIRCUITS.columns[3:]:
        is_said = name.startswith(("rank_", "ov_copying_chance")) or "factors_lost" in name or name == "ov_copying"
        assert (across[name] != "") == is_said, name


@pytest.mark.parametrize("model_type", KEY_HEADS)
def test_composition_lists_earlier_heads_in_three_ways_strongest_first(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type, with_head=True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    table = exported(folder, "composition", "--head", "L1H2")
    assert tuple(table[0]) == COMPOSITION.columns
    assert {(row["kind"], row["from_layer"], row["from_head"]) for row in table} == {
        (kind, "0", head) for kind in "QKV" for head in "0123"
    }
    later = of_head(model, 1, "2")
    reads = {"Q": later["QK"], "K": later["QK"].T, "V": later["OV"]}
    for row in table:
        ov, read = of_head(model, 0, row["from_head"])["OV"], reads[row["kind"]]
        expected = (ov @ read).norm() / (ov.norm() * read.norm())
        assert float(row["composition"]) == pytest.approx(float(expected), rel=1e-6)
        assert float(row["chance"]) == pytest.approx(1 / math.sqrt(32))
    values = [float(row["composition"]) for row in table]
    assert values == sorted(values, reverse=True)
    assert exported(folder, "composition", "--layer", "0") == []


def test_composition_stays_within_one_stack_and_across_it_only_queries_are_fed(tiny_model: TinyModel) -> None:
    table = exported(tiny_model("t5"), "composition", "--stack", "cross", "--layer", "1")
    assert {(row["stack"], row["kind"], row["from_layer"]) for row in table} == {("cross", "Q", "0")}
    assert len(exported(tiny_model("t5"), "composition", "--stack", "encoder")) == 4 * 4 * 3


def test_what_cannot_be_folded_or_named_is_refused_in_one_line(tiny_model: TinyModel, tiny_copy: TinyModel) -> None:
    assert "leave --fold-norm out" in refusal(tiny_model("bert"), "directions", "--fold-norm")
    folder = tiny_copy("gpt2")
    (folder / "tokenizer.json").write_text("{")
    assert "a tokenizer that does not open" in refusal(folder, "directions")
    assert run(folder, "circuits", "--head", "L0H0").exit_code == 0


def test_a_bare_state_dict_writes_tokens_as_numbers_and_says_where_it_has_none(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {f"blocks.0.{name}.weight": torch.randn(12, 12, generator=generator) for name in ("wq", "wk", "wv", "wo")}
    tensors["wte.weight"] = torch.randn(20, 12, generator=generator)
    save_file(tensors, tmp_path / "model.safetensors")
    layout = tmp_path / "layout.toml"
    names = {"query": "wq", "key": "wk", "value": "wv", "output": "wo"}
    lines = [f'{matrix} = "blocks.{{layer}}.{name}.weight"' for matrix, name in names.items()]
    layout.write_text("\n".join(["heads = 3", *lines]))
    table = exported(tmp_path / "model.safetensors", "directions", "--layout", layout, "--first", "1", "--top", "1",
                     "--head", "L0H1")  # fmt: skip
    assert {row["side"]: row["token"] == row["token_id"] != "" for row in table} == {
        "query": True, "key": True, "input": True, "output": False,
    }  # fmt: skip
    assert next(row["note"] for row in table if row["side"] == "output").startswith("attn-tui knows no token table")
    assert exported(tmp_path / "model.safetensors", "circuits", "--layout", layout)[0]["ov_copying"] == ""


def check_ends(rows: list[dict[str, str]], side: str, tokens: Tensor, along: Tensor, top: int, *, known: int) -> None:
    """Compare a side's rows with the tokens at both ends of a direction, and chance with 2,000 random directions."""
    table = tokens.detach().double().numpy()[:known]
    met = table @ along.numpy()
    drawn = np.random.default_rng(0).standard_normal((table.shape[1], 2000))
    by_chance = np.sort(table @ (drawn / np.linalg.norm(drawn, axis=0)), axis=0).mean(1)
    for end, ids, chance in (("largest", np.argsort(-met), by_chance[::-1]), ("smallest", np.argsort(met), by_chance)):
        of = [row for row in rows if (row["side"], row["extreme"]) == (side, end)]
        assert [int(row["token_id"]) for row in of] == ids[:top].tolist()
        assert [int(row["place"]) for row in of] == [*range(1, top + 1)]
        np.testing.assert_allclose([float(row["projection"]) for row in of], met[ids[:top]], rtol=1e-5)
        np.testing.assert_allclose([float(row["projection_chance"]) for row in of], chance[:top], rtol=0.1)


@pytest.mark.parametrize("model_type", KEY_HEADS)
@pytest.mark.parametrize("matrix", ["QK", "OV"])
def test_directions_are_the_tokens_along_singular_vectors(tiny_model: TinyModel, model_type: str, matrix: str) -> None:
    folder = tiny_model(model_type, with_head=True)
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
    assert {row["note"] for row in table} == {""}
    for index in range(3):
        u, v = torch.from_numpy(left[:, index]), torch.from_numpy(right[index])
        sign = torch.sign(u[u.abs().argmax()])
        of = [row for row in table if row["index"] == str(index + 1)]
        check_ends(of, names[0], embedding, sign * u, 4, known=known)
        check_ends(of, names[1], embedding if matrix == "QK" else unembedding, sign * v, 4, known=known)
        assert [float(row["singular_value"]) for row in of] == pytest.approx([sigma[index]] * len(of), rel=1e-6)
    texts = {row["token"]: tokenizer.decode([int(row["token_id"])]) for row in table}
    plain = {token: text for token, text in texts.items() if text.isascii() and text.isprintable()}
    assert [*plain] == [*plain.values()] != []


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gemma"])
def test_folding_multiplies_by_the_gains_of_the_norms(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type, with_head=True)
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
    check_ends(table, "input", model.get_input_embeddings().weight, sign * u, 10, known=known)
    check_ends(table, "output", unembedding, sign * v, 10, known=known)


def test_no_direction_is_claimed_among_equal_singular_values_or_in_the_null_space(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama", with_head=True)
    values = torch.tensor([4.0, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    width = len(values)  # of head 0: queries and keys along the first axes, with these singular values
    with edited_weights(folder) as tensors:
        tensors["model.layers.0.self_attn.q_proj.weight"][:width] = torch.eye(32)[:width] * values[:, None]
        tensors["model.layers.0.self_attn.k_proj.weight"][:width] = torch.eye(32)[:width]
    table = exported(folder, "directions", "--head", "L0H0", "--matrix", "QK", "--top", "1")
    claimed = {row["index"] for row in table if row["token_id"]}
    assert claimed == {"1", "4"}
    notes = {row["index"]: row["note"] for row in table if row["note"]}
    assert sorted(notes) == ["2", "3", "5", "6", "7", "8"]
    assert notes["2"] == notes["3"]
    assert "2 to 3" in notes["2"]
    assert all("null space" in notes[index] for index in "5678")
    embedding = tensors["model.embed_tokens.weight"]
    known = len(transformers.AutoTokenizer.from_pretrained(folder))
    largest = next(row for row in table if (row["index"], row["side"], row["extreme"]) == ("4", "query", "largest"))
    assert int(largest["token_id"]) == int(embedding[:known, 3].argmax())


def turned_keys(model: Any, layer: int, distance: int) -> Tensor:
    """Turn a tiny Llama's key weights with transformers' own rotation, column by column: (keys, head_dim, d_model)."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, rotate_half

    weight: Tensor = model.layers[layer].self_attn.k_proj.weight.detach().double()
    columns = weight.unflatten(0, (-1, 8)).mT  # each as if it were a token's key
    cos, sin = LlamaRotaryEmbedding(model.config)(columns, torch.full((1, columns.shape[1]), -distance))
    turned: Tensor = (columns * cos.double() + rotate_half(columns) * sin.double()).mT
    return turned


def test_at_a_distance_circuits_and_directions_are_those_of_turned_keys(tiny_model: TinyModel) -> None:
    folder, distance = tiny_model("llama", with_head=True), "5"
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    matrices = of_head(model, 1, "1")
    turned = turned_keys(model.model, 1, int(distance))
    matrices["K"] = turned[0]
    matrices["QK"] = matrices["Q"].T @ matrices["K"]
    expected = by_definition(matrices, torch.eye(32, dtype=torch.float64))
    (row,) = exported(folder, "circuits", "--head", "L1H1", "--distance", distance)
    for name in ("qk_symmetry", "qk_identity_distance", "qk_positive_mass", "qk_overlap", "qk_angle_smallest"):
        assert float(row[name]) == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
    assert row["rank_qk"] == "8"
    plain = exported(folder, "circuits", "--head", "L1H1")[0]
    assert {name: cell for name, cell in row.items() if "ov_" in name} == {
        name: cell for name, cell in plain.items() if "ov_" in name
    }
    sigma = torch.linalg.svdvals(matrices["QK"])
    for view in ("circuits", "spectrum"):
        assert "no QK at a distance" in refusal(tiny_model("gpt2"), view, "--distance", distance)
    table = exported(folder, "directions", "--head", "L1H1", "--matrix", "QK", "--distance", distance, "--top", "1")
    found = {int(each["index"]): float(each["singular_value"]) for each in table}
    np.testing.assert_allclose([found[index] for index in range(1, 9)], sigma[:8], rtol=1e-5)
    layer = sum(of_head(model, 1, str(head))["Q"].T @ turned[head // 2] for head in range(4))
    for name, circuit in (("L1H1", matrices["QK"]), ("all", layer)):
        rows = exported(folder, "spectrum", "--layer", "1", "--head", name, "--matrix", "QK", "--distance", distance)
        values = [float(each["singular_value"]) for each in rows]
        np.testing.assert_allclose(values, torch.linalg.svdvals(circuit)[: len(values)], rtol=1e-5, atol=1e-6)
