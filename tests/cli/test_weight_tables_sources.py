"""The tables from weights for models that are no plain folder: adapters, bare state dicts, modules in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import nn

from engine.analysis.open_model import OpenModel
from engine.models.loading import words_of
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.table import Table
from engine.values.views import Query
from tests import tiny_models
from tests.cli.test_weight_tables import OF_WEIGHTS
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_adapters import LAYER, PREFIX, low_rank, opened, write_adapter
from tests.exporting import exported, refusal
from tests.opening import worked_out


def module_opened(module: nn.Module, tokenizer: Any = None) -> OpenModel:
    """Open a module in memory."""
    from engine.models.live_module import ModuleSource
    from engine.values.options import EngineOptions

    return OpenModel(ModuleSource(module, tokenizer), EngineOptions(use_cache=False))


def rows(table: Table) -> list[dict[str, Any]]:
    """Name the cells."""
    return [dict(zip(table.columns, row, strict=True)) for row in table]


def test_an_adapters_circuits_are_those_of_the_merged_weights_and_its_changes_have_none(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    base = tiny_model("llama", with_head=True)
    factors = low_rank(f"{LAYER}.q_proj", 32, 32)
    folder = write_adapter(tmp_path / "adapter", str(base), factors)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        weight = model.model.layers[1].self_attn.q_proj.weight
        change = factors[f"{LAYER}.q_proj.lora_B.weight"] @ factors[f"{LAYER}.q_proj.lora_A.weight"]
        weight.copy_(weight + 2 * change)
    merged = tmp_path / "merged"
    tiny_models.save(model, merged)
    one, other = exported(folder, "circuits"), exported(merged, "circuits")
    assert {row["stack"] for row in one} == {"decoder"}
    for ours, theirs in zip(one, other, strict=True):
        for name in ("qk_symmetry", "qk_positive_mass", "ov_copying"):
            if theirs[name]:
                assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-4, abs=1e-6)
    assert "changes of weights alone" in refusal(folder, "circuits", "--stack", "decoder-delta")
    assert words_of(opened(folder).source).known(10) == list(range(10))
    assert PREFIX not in str(exported(folder, "directions", "--head", "decoder.L1H0", "--first", "1"))


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
    assert next(row["note"] for row in table if row["side"] == "output").startswith("no table of tokens")
    assert exported(tmp_path / "model.safetensors", "circuits", "--layout", layout)[0]["ov_copying"] == ""


def test_a_module_in_memory_has_the_rows_of_its_folder(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model_opened = module_opened(model, tiny_models.byte_level_tokenizer())
    for view in OF_WEIGHTS:
        given = rows(worked_out(model_opened, view, Query(Head("decoder", 1), 2)))
        for one, other in zip(given, exported(folder, view, "--head", "L1H2"), strict=True):
            for name, cell in one.items():
                is_number = isinstance(cell, float)
                assert pytest.approx(cell, rel=1e-5, abs=1e-5) == (float(other[name]) if is_number else cell)
                assert is_number or ("" if cell is None else str(cell)) == other[name]


def test_pytorchs_own_attention_has_circuits_and_no_words() -> None:
    torch.manual_seed(0)
    model_opened = module_opened(nn.MultiheadAttention(12, 3, batch_first=True))
    (layer,) = model_opened.outline.layers
    found = rows(worked_out(model_opened, "circuits", Query(layer.name, 0)))[0]
    assert found["ov_copying"] is None
    assert -1 <= found["ov_copying_residual"] <= 1
    notes = {row["note"] for row in rows(worked_out(model_opened, "directions", Query(layer.name, 0, first=1)))}
    assert notes == {"no table of tokens of this width is known by name"}
    with pytest.raises(EngineError, match="--fold-norm"):
        worked_out(model_opened, "directions", Query(layer.name, 0, fold_norm=True))
