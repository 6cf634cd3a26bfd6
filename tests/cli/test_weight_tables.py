"""``circuits``, ``composition`` and ``directions`` through the real command, against the models' own weights."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.analysis import circuits
from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.views import CIRCUITS, COMPOSITION, DIRECTIONS, VIEWS, Query
from tests.cli.test_export import dense_matrices
from tests.conftest import TinyModel
from tests.engine.mathematics.test_circuits import by_definition
from tests.exporting import attn_tui, exported, refusal, run

FAMILIES: list[tuple[str, dict[str, Any]]] = [("gpt2", {}), ("llama", {"num_key_value_heads": 2})]

OF_WEIGHTS = [view.name for view in (CIRCUITS, COMPOSITION, DIRECTIONS)]
"""The tables that take no sentence."""


def of_head(model: Any, layer: int, head: str) -> dict[str, Tensor]:
    """Cut one head, or the whole layer, out of a model by hand."""
    dense = dense_matrices(model.base_model, layer)
    return {name: torch.from_numpy(dense[head, name]) for name in ("Q", "K", "V", "O", "QK", "OV")}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_of_products_that_are_zero_but_for_rounding_nothing_more_is_said(
    tiny_copy: TinyModel, dtype: torch.dtype
) -> None:
    """Head 0's factors are orthogonal in the head, head 1's in the model; bases are turned, and rounded in storing."""
    file = tiny_copy("llama", with_head=True, num_key_value_heads=4) / "model.safetensors"
    tensors, r = load_file(file), 8
    basis = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    inner = torch.linalg.qr(torch.randn(r, r, generator=torch.Generator().manual_seed(1), dtype=torch.float64))[0]
    layer = "model.layers.0.self_attn.{}_proj.weight"
    zero = {"q": (inner[:, :4] @ basis[:4], basis[:r]), "k": (inner[:, 4:] @ basis[:4], basis[r : 2 * r])}
    zero |= {"v": zero["q"], "o": zero["k"]}
    for name, (of_first, of_second) in zero.items():
        stored = tensors[layer.format(name)]
        matrix = stored.T if name == "o" else stored
        matrix[:r], matrix[r : 2 * r] = of_first, of_second
    save_file({name: each.to(dtype).contiguous() for name, each in tensors.items()}, file, metadata={"format": "pt"})
    first, second, *_ = exported(file.parent, "circuits", "--layer", "0")
    for circuit, one, other in (("qk", "q", "k"), ("ov", "v", "o")):
        assert [first[f"rank_{each}"] for each in (one, other, circuit)] == ["4", "4", "0"]
        assert first[f"{circuit}_factors_lost"] == "4"
        assert second[f"rank_{circuit}"] == second[f"{circuit}_image_in_kernel"] == "8"
    shares = "qk_positive_mass", "qk_negative_mass", "ov_copying_residual"
    assert {row[name] for row in (first, second) for name in shares} == {""}
    ranks = {(row["head"], row["matrix"]): row for row in exported(file.parent, "ranks", "--layer", "0")}
    assert [ranks["0", matrix]["numerical_rank"] for matrix in ("Q", "QK", "OV")] == ["4", "0", "0"]
    assert ranks["0", "QK"]["numerical_rank_chance"] == ranks["2", "QK"]["numerical_rank_chance"] == "8.0"


@pytest.mark.parametrize(("model_type", "settings"), FAMILIES)
@pytest.mark.parametrize(("eigenvalues", "quick"), [(False, 31), (True, 31), (False, 32)])
def test_circuits_are_those_of_dense_matrices(
    tiny_model: TinyModel,
    model_type: str,
    settings: dict[str, Any],
    eigenvalues: bool,
    quick: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(circuits, "QUICK", quick)  # the models are 32 wide
    folder = tiny_model(model_type, with_head=True, **settings)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    embedding, unembedding = (
        module.weight.detach().double() for module in (model.get_input_embeddings(), model.get_output_embeddings())
    )
    options = ["--eigenvalues"] if eigenvalues else []
    table = exported(folder, "circuits", *options) + exported(folder, "circuits", "--head", "all", *options)
    of_eigenvalues = ("mass", "copying", "copying_residual")
    assert tuple(table[0]) == CIRCUITS.columns
    assert [(row["layer"], row["head"]) for row in table] == [
        *((layer, head) for layer in "01" for head in "0123"), ("0", "all"), ("1", "all"),
    ]  # fmt: skip
    for row in table:
        matrices = of_head(model, int(row["layer"]), row["head"])
        expected = by_definition(matrices, unembedding.T @ embedding)
        for name, value in expected.items():
            if row["head"] == "all" and name.endswith(of_eigenvalues) and not eigenvalues and quick < 32:
                assert row[name] == row[f"{name}_chance"] == ""
            elif name.endswith(("lost", "in_kernel")):
                assert row[name] == str(value), (name, row)
            else:
                bound = 2e-5 if "angle" in name else 1e-6
                assert float(row[name]) == pytest.approx(value, rel=1e-4, abs=bound), (name, row)
        for matrix in ("Q", "K", "V", "O", "QK", "OV"):
            sigma = torch.linalg.svdvals(matrices[matrix])
            assert row[f"rank_{matrix.lower()}"] == str(int((sigma > 1.2e-7 * sigma[0]).sum()))
        floor = math.sqrt(1 - min(1.0, int(row["rank_qk"]) / 32))
        assert float(row["qk_identity_floor"]) == pytest.approx(floor)
        assert float(row["qk_identity_distance"]) >= floor


@pytest.mark.parametrize("view", OF_WEIGHTS)
def test_narrowing_a_table_gives_the_same_rows_as_the_whole(tiny_model: TinyModel, view: str) -> None:
    folder = tiny_model("llama", with_head=True)
    part = exported(folder, view, "--head", "L1H2")
    whole = [row for row in exported(folder, view) if (row["layer"], row["head"]) == ("1", "2")]
    assert len(part) == len(whole) > 0
    for one, other in zip(part, whole, strict=True):
        for name, cell in one.items():
            if cell != other[name]:  # sums of a smaller batch may be added up in another order
                assert float(cell) == pytest.approx(float(other[name]), rel=1e-9, abs=1e-6), name


def test_whole_layers_alone_are_rows_of_circuits_and_of_no_other_table(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2")
    assert {row["head"] for row in exported(folder, "circuits", "--head", "all")} == {"all"}
    assert "all" not in {row["head"] for row in exported(folder, "circuits")}, "it is computed where it is asked for"
    for view in ("composition", "directions"):
        assert "no rows for whole layers" in refusal(folder, view, "--head", "all")


def test_chance_is_the_same_for_layers_of_one_shape_and_zero_for_copying(tiny_model: TinyModel) -> None:
    table = exported(tiny_model("gpt2"), "circuits") + exported(tiny_model("gpt2"), "circuits", "--head", "all")
    for head in ("0", "all"):
        first, second = (row for row in table if row["head"] == head)
        chances = [{name: row[name] for name in row if name.endswith("_chance")} for row in (first, second)]
        assert chances[0] == chances[1]
    assert float(table[0]["ov_copying_chance"]) == 0.0
    assert float(table[0]["qk_symmetry_chance"]) == pytest.approx(1 / 32)
    masses = [float(table[0][f"qk_{sign}_mass_chance"]) for sign in ("positive", "negative")]
    assert masses == pytest.approx([0.357, 0.357], abs=0.01), "3,000 products of 8 × 32 give 0.354 and 0.360"
    assert float(table[0]["qk_overlap_chance"]) == pytest.approx(8 / 32)
    assert float(table[0]["qk_identity_distance_chance"]) == pytest.approx(1.0, abs=0.01)


def test_an_encoder_copies_through_its_tied_embeddings(tiny_model: TinyModel) -> None:
    folder = tiny_model("bert")
    model: Any = transformers.BertModel.from_pretrained(folder)
    embedding = model.get_input_embeddings().weight.detach().double()
    row = exported(folder, "circuits", "--head", "L1H3")[0]
    attention = model.encoder.layer[1].attention
    value = attention.self.value.weight.detach().double()[24:32]
    output = attention.output.dense.weight.detach().double()[:, 24:32]
    eigenvalues = np.linalg.eigvals((value.T @ output.T @ embedding.T @ embedding).numpy())
    assert float(row["ov_copying"]) == pytest.approx(eigenvalues.sum().real / np.abs(eigenvalues).sum(), rel=1e-5)


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


@pytest.mark.parametrize(("model_type", "settings"), FAMILIES)
def test_composition_lists_every_earlier_head_in_three_ways_the_strongest_first(
    tiny_model: TinyModel, model_type: str, settings: dict[str, Any]
) -> None:
    folder = tiny_model(model_type, with_head=True, **settings)
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


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("circuits", "--matrix", "QK"), "--matrix says nothing about circuits"),
        (("composition", "--top", "3"), "--top says nothing about composition"),
        (("ranks", "--fold-norm"), "--fold-norm says nothing about ranks"),
        (("directions", "--matrix", "Q"), "QK or OV"),
        (("directions", "--energy", "0.1"), "--energy says nothing about directions"),
        (("directions", "--top", "0"), "--top"),
        (("circuits", "--head", "mean"), "means are of attention"),
        (("composition", "-o", "x.npz"), "composition is a table"),
    ],
)
def test_options_that_say_nothing_are_refused(tiny_model: TinyModel, arguments: tuple[str, ...], names: str) -> None:
    assert names in refusal(tiny_model("gpt2"), *arguments, code=2)


def test_what_cannot_be_folded_or_named_is_refused_in_one_line(tiny_model: TinyModel, tiny_copy: TinyModel) -> None:
    assert "leave --fold-norm out" in refusal(tiny_model("bert"), "directions", "--fold-norm")
    folder = tiny_copy("gpt2")
    (folder / "tokenizer.json").write_text("{")
    assert "no tokenizer that opens" in refusal(folder, "directions")
    assert run(folder, "circuits", "--head", "L0H0").exit_code == 0


def test_the_engine_gives_a_table_of_tuples_of_a_layer_a_head_or_the_model(tiny_model: TinyModel) -> None:
    engine = Engine()
    try:
        engine.open(str(tiny_model("gpt2")), lambda progress: None).result()
        whole = engine.table("circuits", Query()).result()
        layer = engine.table("circuits", Query(Head("decoder", 1)), "pane").result()
        head = engine.table("circuits", Query(Head("decoder", 1), 2)).result()
        assert [row[1:3] for row in layer.rows] == [(1, label) for label in "0123"]
        assert [row[:3] for row in head.rows] == [("decoder", 1, "2")]
        assert layer.rows == whole.rows[4:]
        with_layer = engine.table("circuits", Query(Head("decoder", 1), whole_layers=True)).result()
        assert [row[2] for row in with_layer] == ["0", "1", "2", "3", "all"]
        with pytest.raises(EngineError, match="has no head L1H7"):
            engine.table("composition", Query(Head("decoder", 1), 7)).result()
    finally:
        engine.stop()


@pytest.mark.parametrize(
    ("model_type", "view"),
    [("gpt2", "circuits"), ("llama", "directions"), ("bert", "composition"), ("t5", "circuits")],
)
def test_the_command_prints_a_table_and_writes_the_same_to_a_file(
    tiny_model: TinyModel, tmp_path: Path, model_type: str, view: str
) -> None:
    folder, file = tiny_model(model_type, with_head=True), tmp_path / f"{view}.csv"
    done = attn_tui("export", folder, view)
    assert done.returncode == 0, done.stderr
    printed = list(csv.DictReader(io.StringIO(done.stdout)))
    assert tuple(printed[0]) == VIEWS[view].columns
    assert run(folder, view, "-o", file).exit_code == 0
    assert list(csv.DictReader(io.StringIO(file.read_text()))) == printed


def test_a_distance_says_nothing_about_other_tables_and_models(tiny_model: TinyModel) -> None:
    assert "no QK at a distance" in refusal(tiny_model("gpt2"), "circuits", "--distance", "1")
    assert "no QK at a distance" in refusal(tiny_model("gpt2"), "ranks", "--distance", "1")
    assert "--distance says nothing about weights" in refusal(tiny_model("llama"), "weights", "--distance", "1", code=2)
    assert "--distance" in refusal(tiny_model("llama"), "circuits", "--distance", "-1", code=2)
